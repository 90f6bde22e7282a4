"""What a request is not given: errors, in OpenAI's shape and in Anthropic's for its own endpoint; and omissions.

A request that asks for something that cannot be honored is answered without it, unless the reply would mean something
else then; such a request is refused. What is left out is reported in a header and in the reply's statistics.
"""

from typing import Any

from app import protocol

_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}
HEADER = "x-redline-warning"
LONGEST_HEADER = 1000  # characters


class ApiError(Exception):
    """A request that is not carried out. status: of HTTP. code: for programs. param: the field at fault, or None.
    headers: what HTTP says beside the body."""

    def __init__(
        self, status: int, code: str, message: str, param: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.param = status, code, message, param
        again = {"retry-after": "5"}
        usual = {401: {"www-authenticate": "Bearer"}, 429: again, 503: again}.get(status, {})
        self.headers = usual if headers is None else headers

    def body(self, anthropic: bool = False) -> dict[str, Any]:
        """Returns the JSON that the client gets."""
        if anthropic:
            kind = _ANTHROPIC_TYPES.get(self.status, "invalid_request_error" if self.status < 500 else "api_error")
            return {"type": "error", "error": {"type": kind, "message": self.message}}
        kind = {401: "authentication_error", 429: "rate_limit_error"}.get(
            self.status, "invalid_request_error" if self.status < 500 else "server_error"
        )
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


def unsupported(param: str, why: str) -> ApiError:
    """Returns the error for a field whose effect Redline cannot give: to ignore it would give another reply."""
    return ApiError(400, "unsupported_parameter", f"{param} is not supported: {why}", param)


def engine_unavailable(message: str) -> ApiError:
    """Returns the error for an engine that cannot answer."""
    return ApiError(503, "engine_unavailable", message)


def of_failure(failed: protocol.Failed) -> ApiError:
    """Returns the error for what the host could not do."""
    known = {
        "UsageError": (400, "invalid_value"),
        "ContextError": (400, "context_length_exceeded"),
        "ModelError": (400, "model_error"),
        protocol.CANCELLED: (503, "engine_unavailable"),
        protocol.NOT_LOADED: (503, "model_not_loaded"),
        protocol.OTHER_MODEL: (503, "model_changed"),
    }
    status, code = known.get(failed.kind, (500, "engine_error"))
    return ApiError(status, code, failed.message)


class Omissions:
    """The notes of one request, in the order in which it was read."""

    def __init__(self) -> None:
        self._notes: list[str] = []

    def add(self, what: str, why: str) -> None:
        """Notes that a field or an item is left out."""
        note = f"{what[:80]}: {why}"
        if note not in self._notes:
            self._notes.append(note)

    @property
    def headers(self) -> dict[str, str]:
        """The header of the answer; empty where nothing was left out."""
        text = "; ".join(self._notes).encode("ascii", "replace").decode()
        printable = "".join(sign if sign.isprintable() else "?" for sign in text)
        return {HEADER: printable[:LONGEST_HEADER]} if printable else {}

    @property
    def statistics(self) -> dict[str, list[str]]:
        """The same for the reply's statistics."""
        return {"left_out": list(self._notes)} if self._notes else {}
