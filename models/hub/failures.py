"""Turns every failure of a download into one line: what failed, why, and what to do.

The library's own messages span several lines, name request ids and sometimes guess wrong, so they are not shown.
"""

import errno
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal, get_args

import httpx2
from huggingface_hub.errors import (
    DisabledRepoError,
    GatedRepoError,
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import parse_ratelimit_headers

from engine.errors import HubError
from models.hub.request_bounds import RefusedAnswerError

Reason = Literal[
    "offline",  # HF_HUB_OFFLINE
    "network",  # no connection to the hub, or it was lost
    "proxy",
    "token",  # 401: missing or invalid
    "gated",  # 403: its terms must be accepted
    "missing",  # 404: repository or revision
    "busy",  # 429, or another process downloads the same model
    "server",  # 5xx
    "damaged",  # the received file differs from the listed one
    "refused",  # a name or a file that is not allowed
    "unsuitable",  # nothing in it that MLX loads
    "disk",  # full or not writable
    "hub",  # any other answer
]
REASONS: tuple[str, ...] = get_args(Reason)
_PASSING = (408, 425, 429, 500, 502, 503, 504)


def is_transient(error: Exception) -> bool:
    """Whether the same request may succeed later."""
    if isinstance(error, HfHubHTTPError):
        return error.response.status_code in _PASSING
    return isinstance(error, httpx2.TransportError) and not isinstance(error, httpx2.UnsupportedProtocol)


def requested_wait_s(error: Exception) -> float | None:
    """Returns the wait that the hub requests by `Retry-After` (seconds or a date) or `RateLimit`; else None."""
    if not isinstance(error, HfHubHTTPError):
        return None
    header = error.response.headers.get("Retry-After", "").strip()
    if header.isdigit():
        return float(header)
    if header:
        try:
            date = parsedate_to_datetime(header)
        except ValueError:
            return None
        return max(0.0, (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
    limit = parse_ratelimit_headers(error.response.headers)
    return float(limit.reset_in_seconds) if limit is not None and limit.remaining == 0 else None


def short_reason(error: Exception) -> str:
    """Returns a few words on why the next attempt waits."""
    if isinstance(error, HfHubHTTPError):
        code = error.response.status_code
        return "too many requests (429)" if code == 429 else f"the hub answered {code}"
    if isinstance(error, httpx2.TimeoutException):
        return "no answer in time"
    return "the connection was cut" if not isinstance(error, httpx2.ConnectError) else "no connection"


def explain(error: Exception, repo: str, revision: str, endpoint: str, known: bool) -> HubError:
    """Returns `error`, raised by a request for `repo` at `endpoint`, as a message. known: whether a token was sent."""
    if isinstance(error, HfHubHTTPError):
        return _refusal(error, repo, revision, endpoint, known)
    if isinstance(error, OfflineModeIsEnabled):
        return HubError("HF_HUB_OFFLINE is set, so nothing is downloaded: unset it and try again", "offline")
    if isinstance(error, RefusedAnswerError):
        return HubError(f"{endpoint} {error}; check HF_ENDPOINT, the network and any proxy", "hub")
    if isinstance(error, httpx2.ProxyError):
        to_do = "check HTTPS_PROXY and the proxy's login"
        return HubError(f"the proxy refused to connect to {endpoint} ({_detail(error)}); {to_do}", "proxy")
    if isinstance(error, httpx2.TimeoutException):
        return HubError(
            f"{endpoint} does not answer; check the connection, then try again: what was downloaded is kept", "network"
        )
    if isinstance(error, httpx2.ConnectError):
        return HubError(f"no connection to {endpoint} ({_detail(error)}); check the network and any proxy", "network")
    if isinstance(error, httpx2.TransportError):
        return HubError(f"the connection to {endpoint} broke off; try again: what was downloaded is kept", "network")
    what = f"an answer that did not come from a hub ({type(error).__name__})"
    return HubError(f"{endpoint} gave {what}; check HF_ENDPOINT", "hub")


def disk_error(error: OSError, place: object) -> HubError:
    """Returns an error of the disk as a message."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        to_do = "free some, or point HF_HOME to another disk; what was downloaded is kept"
        return HubError(f"{place}: no space left on the disk; {to_do}", "disk")
    return HubError(f"{place}: cannot be written ({error.strerror or error}); check its permissions", "disk")


def _refusal(error: HfHubHTTPError, repo: str, revision: str, endpoint: str, known: bool) -> HubError:
    code = error.response.status_code
    if isinstance(error, GatedRepoError):
        to_do = " with your token's account" if known else ", run `redline models login`"
        return HubError(f"{repo} is gated: accept its terms at {endpoint}/{repo}{to_do}, then pull again", "gated")
    if isinstance(error, DisabledRepoError):
        return HubError(f"{repo} was disabled by the hub; choose another model", "gated")
    if isinstance(error, RevisionNotFoundError):
        return HubError(f"{repo} has no revision {revision!r}; see {endpoint}/{repo}/commits", "missing")
    if isinstance(error, RemoteEntryNotFoundError):
        return HubError(f"a file of {repo} was removed during the download; pull again", "missing")
    if code == 401 and known:
        return HubError("the hub does not accept the token; run `redline models login` with a new one", "token")
    if isinstance(error, RepositoryNotFoundError) or code in (401, 404):
        access = ", and that your token has access"
        login = " or, if it is private, run `redline models login` first"
        reason = "missing" if code == 404 else "token"
        return HubError(f"there is no {repo} at {endpoint}; check the name{access if known else login}", reason)
    if code == 407:
        return HubError("the proxy requires a login (407); add it to HTTPS_PROXY, as name:password@host", "proxy")
    if code == 403:
        return HubError(f"{repo}: the hub denied access (403); check the permissions of your token", "gated")
    if code == 429:
        wait_s = requested_wait_s(error)
        when = "in a few minutes" if wait_s is None else f"in {_duration(wait_s)}"
        to_do = "" if known else "; logging in with `redline models login` allows more"
        return HubError(f"the hub has had too many requests from here (429); try again {when}{to_do}", "busy")
    if code >= 500:
        return HubError(f"the hub is having problems ({code}); try again later: what was downloaded is kept", "server")
    return HubError(f"{repo}: the hub answered {code}; check the name and HF_ENDPOINT", "hub")


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _detail(error: Exception) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__
