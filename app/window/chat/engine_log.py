"""What the log says of the engine: when it was ready, what it loaded, which requests failed, what it wrote to standard
error, and how it ended. Nothing from requests and answers that could be from a conversation."""

from codecs import getincrementaldecoder

from app.log_file import LOG
from app.protocol import BUSY, CANCELLED, AnyAnswer, Failed, FellBack, Loaded, MemoryShort, Ready

LONGEST_LINE = 2000  # characters of the engine's standard error in one record


class EngineLog:
    """Logs what happens to the engine."""

    def __init__(self) -> None:
        self._decode = getincrementaldecoder("utf-8")("replace").decode
        self._line = ""  # of standard error, as far as it has come

    def note(self, answer: AnyAnswer, pid: int) -> None:
        """Logs an answer of the process `pid`, if a report of a fault needs it."""
        match answer:
            case Ready():
                LOG.info("The engine is ready: process %s, MLX %s on %s", pid, answer.mlx, answer.device)
            case Loaded():
                drafter, context = answer.drafter or "none", answer.context
                LOG.info("Loaded target %s, drafter %s, context %s %s", answer.target, drafter, context, answer.note)
            case Failed() if answer.kind not in (CANCELLED, BUSY):
                LOG.warning("Request %s failed: %s", answer.id, answer.kind)
            case MemoryShort():
                LOG.warning("Memory is short; the engine gave back what it was not using")
            case FellBack():
                LOG.warning("The drafter failed in reply %s, which goes on by plain decoding", answer.id)

    def write(self, data: bytes) -> None:
        """Logs what the engine wrote to standard error."""
        *lines, self._line = (self._line + self._decode(data)).split("\n")
        self._line = self._line[:LONGEST_LINE]
        for line in lines:
            LOG.info("engine: %s", line[:LONGEST_LINE])

    def end(self, cause: str) -> None:
        """Logs the end of the engine, after everything that it wrote to standard error."""
        if self._line:
            self.write(b"\n")
        LOG.error("The engine %s", cause)
