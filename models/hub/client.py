"""The hub's address, what is sent to it, and how requests are retried.

What is sent: the request, `redline/x; hf_hub/y; python/z` as user agent, a random request id, and the token where
there is one. Nothing else: huggingface_hub's telemetry, which would add installed packages and look up which program
runs it, is off, and a token stored on this machine is never used without being given.

Redline uses plain HTTP, not Xet: a killed download resumes at the byte where it ended, each file is checked by its
sha256, and there is one way through proxies. Xet's client starts a file again and runs threads of its own. The cost:
files over 50 GB, which the hub serves through Xet only, are refused.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import urlsplit

import httpx2
from huggingface_hub import constants
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled
from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status, logging

from engine.errors import HubError
from models.hub.download_events import Waiting
from models.hub.failures import explain, is_transient, requested_wait_s, short_reason
from models.hub.repo_names import shown
from models.hub.request_bounds import bound_requests, within
from models.package_versions import version_of

LIBRARY = "redline"
HTTP_ERRORS = (httpx2.HTTPError, httpx2.InvalidURL, HfHubHTTPError, OfflineModeIsEnabled)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
Answer = TypeVar("Answer", covariant=True)


class Request(Protocol[Answer]):
    """A request without arguments; raises one of HTTP_ERRORS."""

    def __call__(self) -> Answer: ...


@dataclass(frozen=True)
class RetryPolicy:
    """How requests are retried. attempts: failures in a row before giving up. first_wait_s doubles each time up to
    longest_wait_s; a wait that the hub requests is kept, up to longest_requested_s. silence_s: the timeout of an
    attempt; answer_s: the longest that an answer which is no file may take as a whole, and a file until its first byte.
    A file may come slowly, but in each slow_window_s it brings least_bytes_per_s on average, or the attempt has failed.
    first_attempts: to connect for the first time, few because the network may be down."""

    attempts: int = 6
    first_wait_s: float = 1.0
    longest_wait_s: float = 16.0
    longest_requested_s: float = 300.0
    silence_s: float = 20.0
    answer_s: float = 120.0
    slow_window_s: float = 60.0
    least_bytes_per_s: float = 1000.0
    first_attempts: int = 2

    def attempts_for(self, error: Exception, reached: bool) -> int:
        """Returns the number of attempts. reached: whether the hub has answered before."""
        return self.attempts if reached or not isinstance(error, httpx2.ConnectError) else self.first_attempts

    def wait_s(self, attempt: int, error: Exception, reached: bool) -> float | None:
        """Returns the seconds before the next attempt; None after the last, or if the hub requests too long a wait."""
        if attempt >= self.attempts_for(error, reached) or not is_transient(error):
            return None
        requested_s = requested_wait_s(error)
        if requested_s is not None:
            return requested_s if requested_s <= self.longest_requested_s else None
        return min(self.longest_wait_s, self.first_wait_s * 2.0 ** (attempt - 1))


@dataclass(frozen=True)
class Hub:
    """A hub. endpoint: its origin without final slash. cache: the Hugging Face cache. token: None for anonymous use."""

    endpoint: str
    cache: Path
    token: str | None = field(default=None, repr=False)
    policy: RetryPolicy = RetryPolicy()

    def __post_init__(self) -> None:
        parts = urlsplit(self.endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise HubError(f"HF_ENDPOINT is {self.endpoint!r}: give an address such as https://huggingface.co", "hub")
        if self.token is not None and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            raise HubError(f"a token is never sent over http: give HF_ENDPOINT {self.endpoint} with https", "token")
        bound_requests()
        constants.HF_HUB_DISABLE_TELEMETRY = True
        logging.set_verbosity(logging.CRITICAL)  # its log messages are sent as events or raised

    @property
    def token_or_false(self) -> str | bool:
        """The token for huggingface_hub; False keeps it from looking for one."""
        return self.token if self.token is not None else False

    @property
    def headers(self) -> dict[str, str]:
        headers = build_hf_headers(token=self.token_or_false, library_name=LIBRARY, library_version=version_of(LIBRARY))
        return headers | {"Accept-Encoding": "identity"}  # a range is of the file, not of something packed

    def explain(self, error: Exception, repo: str, revision: str) -> HubError:
        """Returns `error` as one line for the user."""
        return explain(error, repo, revision, self.endpoint, self.token is not None)


def default_hub(token: str | None = None) -> Hub:
    """Returns the hub and cache of huggingface_hub's settings (HF_ENDPOINT, HF_HOME, HF_HUB_CACHE)."""
    return Hub(constants.ENDPOINT, cache_folder(), token)


def cache_folder() -> Path:
    """Returns the Hugging Face cache of this user, which need not exist."""
    return Path(constants.HF_HUB_CACHE).expanduser()


class Retries:
    """Counts failed attempts and waits between them. sleep: waits; raises to give up. reached: whether the hub has
    answered before."""

    def __init__(self, hub: Hub, sleep: Callable[[float], None], reached: bool) -> None:
        self._hub, self._sleep, self._reached = hub, sleep, reached
        self._attempt = 0

    def reset(self) -> None:
        """Resets the count of failures, because the last attempt brought something."""
        self._attempt = 0

    def wait(self, error: Exception) -> Iterator[Waiting]:
        """Yields an event, then waits. Raises `error` if another attempt is useless."""
        self._attempt += 1
        policy = self._hub.policy
        wait_s = policy.wait_s(self._attempt, error, self._reached)
        if wait_s is None:
            raise error
        yield Waiting(short_reason(error), wait_s, self._attempt, policy.attempts_for(error, self._reached))
        self._sleep(wait_s)


def account_name(hub: Hub) -> str:
    """Returns the name of the account of the token. Raises HubError if it is unknown or the hub cannot be reached.

    Not by huggingface_hub's own `whoami`, which has no timeout.
    """
    try:
        address, policy = f"{hub.endpoint}/api/whoami-v2", hub.policy
        answer = within(
            policy.answer_s, lambda: get_session().get(address, headers=hub.headers, timeout=policy.silence_s)
        )
        hf_raise_for_status(answer)
        name = answer.json()["name"]
    except HTTP_ERRORS as error:
        if isinstance(error, HfHubHTTPError) and error.response.status_code in (401, 403):
            raise HubError("the hub does not accept this token; create a new one on the hub", "token") from None
        raise hub.explain(error, "the account", "") from error
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise hub.explain(error, "the account", "") from error
    return str(name) if str(name).isprintable() else shown(name)
