"""The host of `redline serve`: a process of this one's, replaced when it is stuck.

One that ends by itself is not started again: it ends the server, which says so.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import aclosing, suppress
from types import TracebackType

from app import protocol
from app.api.api_errors import ApiError
from app.api.host_client import HostClient
from app.command_line import notify
from app.protocol.silence import STUCK, SilenceLimits
from engine.errors import BackendError, ModelError, RedlineError

END_S = 5.0  # for ending by itself, and for being killed
HOST_COMMAND = (sys.executable, "-m", "app.host")


class OwnHost:
    """`async with OwnHost(pair) as host`: a host and its client.

    command: that starts the host, the real one if empty. failure: why the pair could not be loaded again, after which
    the client has ended.
    """

    def __init__(self, pair: protocol.Pair, command: Sequence[str] = (), limits: SilenceLimits | None = None) -> None:
        self._pair, self._command = pair, list(command) or list(HOST_COMMAND)
        self._limits = limits or SilenceLimits()
        self.failure: RedlineError | None = None
        self.client: HostClient
        self._process: Process
        self._reading: asyncio.Task[None]
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> OwnHost:
        reader, writer = await self._start()
        self.client = HostClient(reader, writer, self._limits)
        self._reading = asyncio.create_task(self.client.run())
        self._tasks.append(asyncio.create_task(self._keep()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks = (self._reading, *self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert self._process.stdin is not None
        self._process.stdin.close()  # which ends the host
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), END_S)
        if self._process.returncode is None:
            self._process.kill()

    async def load(self) -> protocol.Loaded:
        """Returns what was loaded. Raises ModelError for what the host refuses, BackendError for a host that ends."""
        with suppress(ApiError):
            async with aclosing(self.client.request(protocol.Load(id=0, pair=self._pair))) as answers:
                async for answer in answers:
                    match answer:
                        case protocol.Loading():
                            notify(answer.message)
                        case protocol.Failed():
                            raise ModelError(answer.message)
                        case protocol.Loaded():
                            return answer
        raise BackendError("the engine ended while it loaded the model: run `redline doctor`")

    async def _start(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self._process = process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=PIPE,
            stdout=PIPE,
            limit=protocol.LONGEST_LINE + 1,
            start_new_session=True,  # so that Ctrl-C ends the server first
        )
        assert process.stdin is not None and process.stdout is not None
        return process.stdout, process.stdin

    # --- silence -------------------------------------------------------------------------------

    async def _keep(self) -> None:
        """Replaces the host whenever it is stuck."""
        while True:
            await self.client.silent.wait()
            self.client.silent.clear()
            if self.client.stuck:
                notify(f"{STUCK}: restarting it")
                await self._replace()
            else:
                notify(f"loading the models has made no progress for {self._limits.load_s:.0f} seconds")

    async def _replace(self) -> None:
        """Kills the host and has another load the pair."""
        assert self._process.stdin is not None
        with suppress(ProcessLookupError):  # it has just ended by itself
            self._process.kill()
        self._process.stdin.transport.abort()  # what it has not read is of no use any more
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), END_S)
        try:
            self.client.connect(*await self._start())
        except OSError as error:
            self._fail(BackendError(f"the engine could not be started again ({error.strerror})"))
            return
        self._reading.cancel()
        self._reading = asyncio.create_task(self.client.run())
        self._tasks[1:] = [asyncio.create_task(self._reload())]

    async def _reload(self) -> None:
        try:
            await self.load()
        except RedlineError as error:
            self._fail(error)

    def _fail(self, error: RedlineError) -> None:
        self.failure = error
        self.client.end()
