"""A rank of a shared target other than the first: does what `app.inference.cluster` on another machine says.

It reads standard input and ends with it, whatever MLX waits for: then rank 0 is gone.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import mlx.core as mx

from app.command_line import FAILURE, OK, lost_machine
from app.inference import digests
from app.inference.cluster import join, share_text, versions
from app.inference.host_file import Host
from app.inference.memory_check import check_memory
from app.inference.options import Options
from app.inference.pair_resolution import target_folder
from engine.errors import RedlineError
from engine.target.cached_model import CachedModel
from engine.target.sharded_target import Message, follow, is_pass, trip_s
from models.loader import load_part
from models.model_folder import check_folder

ALIVE_S = 1.0


class ClusterRank:
    """Carries out messages until they end. One thread reads them, one says every second that this process lives, and
    the one that calls `run` uses MLX."""

    def __init__(self) -> None:
        sys.stdout.flush()
        self._answers = os.dup(1)
        os.dup2(2, 1)  # whatever libraries print goes to standard error
        self._saying = threading.Lock()  # more than a pipe takes at once could mix with another thread's line
        self._messages: Queue[Message] = Queue()
        self._unread: list[Message] = []
        self._group: mx.distributed.Group | None = None
        self._hosts: tuple[Host, ...] = ()
        self._model: CachedModel | None = None

    def run(self) -> int:
        """Returns the exit code once rank 0 is gone."""
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._say_alive, daemon=True).start()
        self._say({"hello": versions()})
        while True:
            message = self._next()
            try:
                self._do(message)
            except RedlineError as error:
                self._say({"error": str(error)})
                if is_pass(message):
                    return FAILURE
            except RuntimeError as error:
                lost_machine(error)  # raises any other error again
                return FAILURE  # rank 0 says what happened, where it still can

    def _do(self, message: Message) -> None:
        if "rank" in message:
            self._hosts = tuple(Host(**{**host, "command": ()}) for host in message["hosts"])
            self._group = join(message["rank"], message["ring"])
            self._say({"joined": True})
        elif "load" in message:
            self._say({"loaded": self._load(**message["load"])})
        elif "link" in message:
            assert self._group is not None
            trip_s(self._group, *message["link"])
        elif is_pass(message):
            assert self._group is not None and self._model is not None
            self._unread.append(message)
            follow(self._model, self._group, self._passes())

    def _load(self, target: str, kv_bits: int | None, context: int | None, cache_root: str | None) -> dict[str, Any]:
        """Loads a part of a target. Raises RedlineError where that is not possible."""
        assert self._group is not None
        self._model = None  # the memory may not hold both
        root = Path(cache_root) if cache_root else None
        options = Options(target, ("none",), context=context, kv_bits=kv_bits, cache_root=root, hosts=self._hosts)
        folder = check_folder(target_folder(options))
        verdict = check_memory(folder, options)
        self._model = load_part(folder.path, kv_bits, self._group)
        memory = share_text(verdict.needed)
        return {"digest": digests.of_model(folder), "memory": memory, "context": verdict.context}

    def _next(self) -> Message:
        return self._unread.pop() if self._unread else self._messages.get()

    def _passes(self) -> Iterator[Message]:
        """Yields messages as long as they announce passes."""
        while is_pass(message := self._next()):
            yield message
        self._unread.append(message)

    # --- in other threads ---------------------------------------------------------------------------

    def _read(self) -> None:
        for line in sys.stdin.buffer:
            self._messages.put(json.loads(line))
        os._exit(OK)

    def _say_alive(self) -> None:
        while True:
            self._say({})
            time.sleep(ALIVE_S)

    def _say(self, message: Message) -> None:
        try:
            with self._saying:
                os.write(self._answers, json.dumps(message).encode() + b"\n")
        except OSError:  # nobody listens
            os._exit(OK)
