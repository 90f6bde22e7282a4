"""Where the hub is, what it is told, and how patiently it is asked.

What is sent: the request, `redline/x; hf_hub/y; python/z` as user agent, a random request id, and the token where
there is one. Nothing else: huggingface_hub's telemetry, which would add installed packages and look up which program
runs it, is off, and a token that lies about on this machine is never picked up by itself.

Plain HTTP, not Xet: a download can be gone on with at the byte where a killed one ended, each file is proven by its
sha256, and there is one way through proxies. Xet's own client begins a file anew, in a process that has its own
threads. What that costs: files over 50 GB, which the hub serves by Xet alone, are refused.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import urlsplit

import httpx2
from huggingface_hub import constants
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled
from huggingface_hub.utils import build_hf_headers, logging

from engine.errors import HubError
from models.hub.events import Waiting
from models.hub.failures import asked_wait_s, explain, in_short, may_pass

LIBRARY = "redline"
HTTP_ERRORS = (httpx2.HTTPError, httpx2.InvalidURL, HfHubHTTPError, OfflineModeIsEnabled)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
Answer = TypeVar("Answer", covariant=True)


class Ask(Protocol[Answer]):
    """A request without arguments; raises one of HTTP_ERRORS."""

    def __call__(self) -> Answer: ...


@dataclass(frozen=True)
class Patience:
    """attempts: tries without a byte between them. first_wait_s doubles from try to try up to longest_wait_s; where the
    hub says how long, that is kept, up to most_asked_s. silence_s: without an answer or a byte, a try is over.
    calls: tries to reach a hub that has not answered yet: who has no network should hear it soon."""

    attempts: int = 6
    first_wait_s: float = 1.0
    longest_wait_s: float = 16.0
    most_asked_s: float = 300.0
    silence_s: float = 20.0
    calls: int = 2

    def tries(self, error: Exception, reached: bool) -> int:
        """How many there are in all. reached: whether the hub has answered before."""
        return self.attempts if reached or not isinstance(error, httpx2.ConnectError) else self.calls

    def wait_s(self, attempt: int, error: Exception, reached: bool) -> float | None:
        """Seconds before the next try; None where this was the last, or the hub asks for longer than is waited."""
        if attempt >= self.tries(error, reached) or not may_pass(error):
            return None
        asked = asked_wait_s(error)
        if asked is not None:
            return asked if asked <= self.most_asked_s else None
        return min(self.longest_wait_s, self.first_wait_s * 2.0 ** (attempt - 1))


@dataclass(frozen=True)
class Hub:
    """endpoint: an origin, without a slash at its end. cache: the Hugging Face cache. token: None for nobody's."""

    endpoint: str
    cache: Path
    token: str | None = field(default=None, repr=False)
    patience: Patience = Patience()

    def __post_init__(self) -> None:
        parts = urlsplit(self.endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise HubError(f"HF_ENDPOINT is {self.endpoint!r}: give an address such as https://huggingface.co", "hub")
        if self.token is not None and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            raise HubError(f"a token is never sent over http: give HF_ENDPOINT {self.endpoint} with https", "token")
        constants.HF_HUB_DISABLE_TELEMETRY = True
        logging.set_verbosity(logging.CRITICAL)  # what it would log is told as events, or raised

    @property
    def said_token(self) -> str | bool:
        """As huggingface_hub takes it: False forbids that it looks for one."""
        return self.token if self.token is not None else False

    @property
    def headers(self) -> dict[str, str]:
        headers = build_hf_headers(token=self.said_token, library_name=LIBRARY, library_version=version(LIBRARY))
        return headers | {"Accept-Encoding": "identity"}  # a range is of the file, not of something packed

    def explain(self, error: Exception, repo: str, revision: str) -> HubError:
        """`error` in one line."""
        return explain(error, repo, revision, self.endpoint, self.token is not None)


def default_hub(token: str | None = None) -> Hub:
    """The hub and the cache that huggingface_hub's own settings name (HF_ENDPOINT, HF_HOME, HF_HUB_CACHE)."""
    return Hub(constants.ENDPOINT, cache_folder(), token)


def cache_folder() -> Path:
    """The Hugging Face cache of this user. Not created here."""
    return Path(constants.HF_HUB_CACHE).expanduser()


class Patient:
    """Asks again while that may help. sleep: waits so many seconds, raises when it is to be given up. reached: whether
    the hub has answered before."""

    def __init__(self, hub: Hub, sleep: Callable[[float], None], reached: bool) -> None:
        self._hub, self._sleep, self._reached = hub, sleep, reached
        self._attempt = 0

    def came(self) -> None:
        """Bytes came: the count of vain tries starts anew."""
        self._attempt = 0

    def wait(self, error: Exception) -> Iterator[Waiting]:
        """Tell of the wait and wait. Raises `error` where another try is of no use."""
        self._attempt += 1
        patience = self._hub.patience
        wait_s = patience.wait_s(self._attempt, error, self._reached)
        if wait_s is None:
            raise error
        yield Waiting(in_short(error), wait_s, self._attempt, patience.tries(error, self._reached))
        self._sleep(wait_s)
