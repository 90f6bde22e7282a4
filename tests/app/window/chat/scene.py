"""A controller with a store on disk and a fake host, and everything that it has emitted."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

from app.protocol import AnyAnswer, AnyRequest, Pair, RoundDone
from app.reply import Change
from app.reply_history import ReplyHistory
from app.store import Store
from app.store.records import MessageRecord
from app.window.chat import Controller, Notice
from app.window.chat.host_process import HostProcess, Timeouts
from tests.app.window.chat.fake_host import FOREVER, command, go_line
from tests.app.window.waiting import QUICK, until


class Scene:
    """`with Scene(folder, rounds=8) as scene`: other keywords are the fake host's behaviour; words: another host."""

    def __init__(
        self, folder: Path, timeouts: Timeouts = QUICK, store: Any = None, words: Sequence[str] = (), **behaviour: Any
    ) -> None:
        self.notices: list[Notice] = []
        self.ended: list[MessageRecord] = []
        self.began: list[MessageRecord] = []
        self.rounds: dict[int, list[RoundDone]] = {}
        self.states: list[str] = []
        self.counts: list[tuple[int, int]] = []
        self.verifying: list[tuple[int, str]] = []  # the progress of verifications
        self.verified: list[MessageRecord] = []
        self.not_verified: list[tuple[int, str]] = []
        self.requests: list[AnyRequest] = []
        self.answers: list[AnyAnswer] = []
        self.process = HostProcess(words or command(**behaviour), timeouts)
        self.history = ReplyHistory(folder / "draft-history")
        opened = store or Store.open(folder / "conversations.sqlite").store
        self.controller = Controller(opened, self.process, history=self.history)
        self.controller.notice.connect(self.notices.append)
        self.controller.reply_ended.connect(self.ended.append)
        self.controller.reply_began.connect(self.began.append)
        self.controller.replies.changed.connect(self._keep_change)
        self.controller.pair.status_changed.connect(lambda state: self.states.append(state.state))
        self.controller.pair.counted.connect(lambda *count: self.counts.append(count))
        self.controller.verification.progressed.connect(lambda *progress: self.verifying.append(progress))
        self.controller.verification.verified.connect(self.verified.append)
        self.controller.verification.failed.connect(lambda *failure: self.not_verified.append(failure))
        self._send, self.process.send = self.process.send, self._record_and_send  # type: ignore[method-assign]
        host = self.controller.host
        self._receive, host._receive = host._receive, self._record_and_receive  # type: ignore[method-assign]

    def __enter__(self) -> Scene:
        self.controller.open_last()
        self.controller.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.controller.close()

    def _keep_change(self, message: int, change: Change) -> None:
        new = self.controller.replies.reply_of(message).rounds[change.first_round :]
        self.rounds.setdefault(message, []).extend(new)

    def _record_and_send(self, request: AnyRequest) -> bool:
        self.requests.append(request)
        return self._send(request)

    def _record_and_receive(self, answer: AnyAnswer) -> None:
        self.answers.append(answer)
        self._receive(answer)

    def requested(self, kind: type[Any]) -> list[Any]:
        """Returns the requests of a kind."""
        return [request for request in self.requests if isinstance(request, kind)]

    def verification_over(self) -> bool:
        """Returns whether a verification has ended, whatever came of it."""
        return bool(self.verifying) and self.verifying[-1][1] == ""

    def loaded_pair(self) -> Pair | None:
        """Returns the pair that is loaded."""
        return self.controller.host.loaded.pair if self.controller.host.loaded is not None else None

    def ready(self) -> None:
        """Waits until the pair is loaded."""
        until(lambda: self.controller.pair.status.state not in ("loading", "host down"))

    def ask(self, text: str = "Hello?") -> MessageRecord:
        """Sends a message and returns the reply once it has ended."""
        before = len(self.ended)
        assert self.controller.send(text)
        until(lambda: len(self.ended) > before)
        return self.ended[-1]

    def streaming(self, tokens: int = 6) -> int:
        """Waits until a reply has so many tokens and returns its id."""
        until(lambda: self.began and len(self.tokens(self.began[-1].id)) >= tokens)
        return self.began[-1].id

    def go_on(self, steps: int = FOREVER) -> None:
        """Lets the fake host go on, so many steps beyond where it would wait."""
        self.process._process.write(go_line(steps))

    def kill_host(self) -> None:
        """Kills the host, as the system does."""
        os.kill(self.process.pid, signal.SIGKILL)

    def tokens(self, message: int) -> list[int]:
        """Returns the tokens of a reply as they were emitted."""
        return [token for one in self.rounds.get(message, []) for token in one.round.tokens]

    def text(self, message: int) -> str:
        """Returns the text of a reply as it was emitted."""
        return "".join(text for one in self.rounds.get(message, []) for text in one.round.texts)

    def notice(self, part: str) -> Notice | None:
        """Returns the first notice that contains `part`."""
        return next((notice for notice in self.notices if part in notice.text), None)

    def press(self, part: str, label: str) -> None:
        """Presses a button of that notice."""
        notice = self.notice(part)
        assert notice is not None
        dict(notice.actions)[label]()


def reopened(folder: Path) -> Store:
    """Returns the store as the next start finds it."""
    return Store.open(folder / "conversations.sqlite").store


def whole_path(folder: Path) -> list[MessageRecord]:
    """Returns the branch of the newest conversation as the next start finds it."""
    store = reopened(folder)
    try:
        return store.path(store.conversations()[0].id)
    finally:
        store.close()


class Disk:
    """The disk of a store, which is full inside of `with`: the file gets no other page."""

    def __init__(self, store: Store) -> None:
        self.is_full = False
        database = store._database
        change = database.change

        def limited(wait: bool = True) -> AbstractContextManager[None]:
            pages = database.rows("PRAGMA page_count")[0][0] if self.is_full else 1_000_000
            database.rows(f"PRAGMA max_page_count = {pages}")
            return change(wait)

        database.change = limited  # type: ignore[method-assign]

    def __enter__(self) -> None:
        self.is_full = True

    def __exit__(self, *_: object) -> None:
        self.is_full = False
