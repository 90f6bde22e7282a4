"""The thread that serves programs within the engine's process, for the window and for `redline serve` alike."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from app import protocol
from app.api.engine_client import EngineClient
from app.task_queue import TaskQueue
from engine.errors import UsageError
from engine.settings import SamplingSettings

if TYPE_CHECKING:  # the web server takes a while to import, and the window's thread of requests does not wait for it
    from app.api.access import AccessRules

    Listen = Callable[[], tuple[socket.socket, AccessRules]]

REPORT_S = 0.25  # between two reports


class ApiThread(threading.Thread):
    """Serves programs until it is told to end.

    listen: returns a socket that listens, and who may ask; called in this thread. Raises UsageError where that is
    impossible. report: takes how programs are served, and why they cannot be. base: sampling settings that programs do
    not give. client: how their requests reach the engine.
    """

    def __init__(
        self,
        tasks: TaskQueue,
        listen: Listen,
        report: Callable[[protocol.Serving], None] = lambda _: None,
        base: SamplingSettings | None = None,
    ) -> None:
        super().__init__(name="api", daemon=True)
        self._listen, self._report, self._base = listen, report, base or SamplingSettings()
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self.client = EngineClient(tasks, self._runner.get_loop())

    @classmethod
    def of_window(
        cls,
        chosen: protocol.Serve,
        tasks: TaskQueue,
        report: Callable[[protocol.Serving], None],
        before: ApiThread | None,
    ) -> ApiThread:
        """Returns the thread that serves as the window has chosen, once the one `before` it has ended."""
        assert chosen.port is not None
        port = chosen.port

        def listen() -> tuple[socket.socket, AccessRules]:
            from app.api.access import AccessRules
            from app.api.key_file import read_or_make_key
            from app.api.loopback_server import open_socket

            if before is not None:
                before.join()  # it may have the same port
            return open_socket(port), AccessRules(read_or_make_key(Path(chosen.key_file)))

        return cls(tasks, listen, report)

    def run(self) -> None:
        """Serves until `end`."""
        with self._runner:
            try:
                listener, rules = self._listen()
            except UsageError as error:
                self._report(protocol.Serving(error=str(error)))
            else:
                self._runner.run(self._serve(listener, rules))

    def end(self) -> None:
        """Fails all requests and closes the socket, soon."""
        self.client.end()

    async def _serve(self, listener: socket.socket, rules: AccessRules) -> None:
        """Serves the engine on a socket that listens, whose port replaces that of the rules, until its client ends."""
        from app.api.application import application
        from app.api.loopback_server import LoopbackServer
        from app.api.reply_stream import Engine

        rules = replace(rules, port=listener.getsockname()[1])
        server = LoopbackServer(application(Engine(self.client, self._base), rules))

        async def end_with_the_client() -> None:
            await self.client.ended.wait()
            server.should_exit = True

        works = (end_with_the_client(), self.client.watch(), self._report_changes(rules.port))
        beside = [asyncio.create_task(work) for work in works]
        try:
            await server.serve([listener])
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    async def _report_changes(self, port: int) -> None:
        reported, client = protocol.Serving(), self.client
        while True:
            serving = protocol.Serving(
                port=port, waiting=client.waiting, replies=client.running, tokens=client.running_tokens
            )
            if serving != reported:
                self._report(serving)
                reported = serving
            await asyncio.sleep(REPORT_S)
            await client.changed.wait()
            client.changed.clear()
