"""What the log says of the engine: when it was ready, what it loaded, which requests failed, what it wrote to standard
error, and how it ended. Nothing from requests and answers that could be from a conversation."""

from __future__ import annotations

from codecs import getincrementaldecoder

from PySide6.QtCore import QObject

from app.log_file import LOG
from app.protocol import BUSY, CANCELLED, AnyAnswer, Failed, FellBack, Loaded, MemoryShort, Pair, Ready
from app.window.chat.host_connection import HostConnection

LONGEST_LINE = 2000  # characters of the engine's standard error in one record


class HostLog(QObject):
    """Logs what happens to the engine, until `host` goes."""

    def __init__(self, host: HostConnection) -> None:
        super().__init__(host)
        self._process = host.process
        self._decode = getincrementaldecoder("utf-8")("replace").decode
        self._line = ""  # of standard error, as far as it has come
        host.process.stderr_read.connect(self._log_stderr)
        host.process.answered.connect(self._log_answers)
        host.pair_loaded.connect(self._log_pair)
        host.load_failed.connect(self._log_load_failure)
        host.became_stuck.connect(lambda: LOG.warning("The engine has been silent for too long"))
        host.died.connect(self._log_death)

    def _log_answers(self, answers: list[AnyAnswer]) -> None:
        for answer in answers:
            match answer:
                case Ready():
                    pid = self._process.pid
                    LOG.info("The engine is ready: process %s, MLX %s on %s", pid, answer.mlx, answer.device)
                case Failed() if answer.kind not in (CANCELLED, BUSY):
                    LOG.warning("Request %s failed: %s", answer.id, answer.kind)
                case MemoryShort():
                    LOG.warning("Memory is short; the engine gave back what it was not using")
                case FellBack():
                    LOG.warning("The drafter failed in reply %s, which goes on by plain decoding", answer.id)

    def _log_pair(self, loaded: Loaded) -> None:
        drafter, context = loaded.drafter or "none", loaded.context
        LOG.info("Loaded target %s, drafter %s, context %s %s", loaded.target, drafter, context, loaded.note)

    def _log_load_failure(self, pair: Pair, reason: str) -> None:
        LOG.warning("Could not load target %s with drafter %s: %s", pair.target, pair.drafter, reason)

    def _log_stderr(self, data: bytes) -> None:
        *lines, self._line = (self._line + self._decode(data)).split("\n")
        self._line = self._line[:LONGEST_LINE]
        for line in lines:
            LOG.info("engine: %s", line[:LONGEST_LINE])

    def _log_death(self, cause: str) -> None:
        """Everything that the engine wrote to standard error stands before this in the log."""
        if self._line:
            self._log_stderr(b"\n")
        LOG.error("The engine %s", cause)
