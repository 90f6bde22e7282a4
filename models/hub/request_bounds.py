"""The bounds on the answers of a hub: how long they take, how large they are, and where they redirect to.

huggingface_hub makes the requests, and reads every answer to its end. Here its client is restricted in four ways:

1. No request leaves for a place without https once one has gone by https, whatever a redirect says.
2. The body of an answer that is no file has at most LARGEST_ANSWER_BYTES and is not compressed, as was asked for: a
   few kilobytes of gzip can hold gigabytes.
3. The body of a refusal or a redirect is not read at all: its status and headers say everything.
4. No cookie is kept.

`within` bounds the time of a whole request. A socket's timeout does not: it begins anew with every byte.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TypeVar

import httpx2
from huggingface_hub import set_client_factory
from huggingface_hub.utils._http import default_client_factory

LARGEST_ANSWER_BYTES = 16 * 1024 * 1024  # ten thousand files take some four million
FILE = {"redline_file": True}  # extensions of a request whose answer is a file, which FileTransfer bounds
_SECURE = "redline_secure"


class RefusedAnswerError(httpx2.RequestError):
    """An answer breaks a bound; another attempt would bring the same. The text continues "the hub ...": sends, is."""


T = TypeVar("T")


@cache
def bound_requests() -> None:
    """Makes huggingface_hub use a client with these bounds from now on."""
    set_client_factory(bounded_client)


def bounded_client() -> httpx2.Client:
    """Returns huggingface_hub's own client with the bounds added."""
    client = default_client_factory()
    client.event_hooks = {
        "request": [*client.event_hooks["request"], _check_request],
        "response": [*client.event_hooks["response"], _bound_response],
    }
    client.cookies.jar = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
    return client


def _check_request(request: httpx2.Request) -> None:
    """Raises RefusedAnswerError before a request that a redirect sends to a place without https leaves."""
    if request.url.scheme == "https":
        request.extensions[_SECURE] = True  # redirects inherit it
    elif request.extensions.get(_SECURE):
        raise RefusedAnswerError("redirects to an address that is not https", request=request)


def _bound_response(response: httpx2.Response) -> None:
    """Bounds the body of a response before it is read. Raises RefusedAnswerError."""
    if not response.is_success:
        response.stream.close()  # type: ignore[union-attr]  # a client that is not asynchronous has no other streams
        response.stream = httpx2.ByteStream(b"")
    elif not any(name in response.request.extensions for name in FILE):
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise RefusedAnswerError("compresses its answers, although it was asked not to", request=response.request)
        response.stream = _BoundedStream(response)


class _BoundedStream(httpx2.SyncByteStream):
    """The body of an answer, up to LARGEST_ANSWER_BYTES."""

    def __init__(self, response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.SyncByteStream)
        self._stream, self._request = response.stream, response.request

    def __iter__(self) -> Iterator[bytes]:
        """Yields the pieces as they arrive. Raises RefusedAnswerError."""
        count = 0
        for data in self._stream:
            count += len(data)
            if count > LARGEST_ANSWER_BYTES:
                most = LARGEST_ANSWER_BYTES // 2**20
                raise RefusedAnswerError(f"sends an answer of more than {most} MiB", request=self._request)
            yield data

    def close(self) -> None:
        self._stream.close()


def within(seconds: float, call: Callable[[], T], discard: Callable[[T], object] = lambda late: None) -> T:
    """Returns what `call` returns, or raises what it raises; Ctrl-C is heard meanwhile. discard: closes a late result.

    Raises RefusedAnswerError after `seconds`. The call then goes on in a thread that nobody waits for.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:  # noqa: BLE001 - of a thread: raised again by whoever waits
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    late = True
    try:
        late = bool(wait([outcome], seconds).not_done)
    finally:
        if late:
            outcome.add_done_callback(lambda done: done.exception() is None and discard(done.result()))
    if late:
        raise RefusedAnswerError(f"did not answer within {seconds:g} s")
    return outcome.result()
