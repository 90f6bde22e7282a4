"""Hubs that mean harm. Each pull must end with the whole model or with one line of words, in bounded time; nothing may
be written outside the cache, the token may go to the hub alone, and no request may leave for http after https."""

import contextlib
import gzip
import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from huggingface_hub.utils import close_session

from engine.errors import HubError
from models.hub.client import Hub, RetryPolicy
from models.hub.download import pull
from models.hub.download_events import Done
from tests.app.host.mutation import with_another_value
from tests.models.hub.hub_contents import Repo
from tests.models.hub.loopback import TOKEN, Loopback, loopback
from tests.models.hub.raw_server import RawServer, Script, answer, dripped, raw_server, write_certificate
from tests.models.hub.tiny import NAME, read_folder, tiny, wanted

LONGEST_S = 300.0  # of a pull, which only one without a bound takes
# The times are a hundredth of the real ones; where the model must arrive, nobody is too slow.
POLICY = RetryPolicy(2, 0.01, 0.02, 0.2, silence_s=1.0, answer_s=1.0, slow_window_s=0.5, least_bytes_per_s=1000.0)
PATIENT = replace(POLICY, silence_s=LONGEST_S, answer_s=LONGEST_S, slow_window_s=LONGEST_S)
FIRST = "model-00001-of-00003.safetensors"
DEEP = b"[" * 200_000 + b"]" * 200_000
Case = Callable[[Path], str]  # what did not hold in an empty folder, or ""


def outcome(endpoint: str, folder: Path, repo: Repo, whole: bool = False) -> str:
    """Pulls; returns what did not hold. whole: whether the model must arrive."""
    hub, begun_s = Hub(endpoint, folder / "hub", TOKEN, PATIENT if whole else POLICY), time.monotonic()
    try:
        last = list(pull(hub, NAME))[-1]
        said = "" if isinstance(last, Done) and read_folder(Path(last.path)) == wanted(repo) else "not the model"
    except HubError as error:
        line = str(error)
        sound = line.isprintable() and len(line) < 500 and TOKEN not in line
        said = "the model did not arrive" if whole else "" if sound else f"said {line[:200]!a}"
    except Exception as error:  # noqa: BLE001 - whatever would be a traceback is looked for
        said = f"{type(error).__name__}: {str(error)[:100]!a}"
    seconds = time.monotonic() - begun_s
    beside = [path.name for path in folder.iterdir() if path.name != "hub"]
    return said or (f"took {seconds:.0f} s" if seconds > LONGEST_S else "") or (f"wrote {beside}" if beside else "")


# --- what the hub lists ---------------------------------------------------------------------------


def listing_case(change: Callable[[Repo], object]) -> Case:
    """A loopback hub whose repository is changed."""

    def run(folder: Path) -> str:
        repo = tiny()
        change(repo)
        with loopback(repo) as server:
            return outcome(server.endpoint, folder, repo)

    return run


def trouble_case(whole: bool = False, **trouble: Any) -> Case:
    """A loopback hub with this trouble, on every request unless `times` is given."""

    def run(folder: Path) -> str:
        repo = tiny()
        with loopback(repo) as server:
            server.trouble(**{"where": "/api/models/", "times": None} | trouble)
            return outcome(server.endpoint, folder, repo, whole)

    return run


def _entry(**fields: Any) -> Callable[[Repo], object]:
    """A listing of two files, one of which has these fields."""
    config = {"rfilename": "config.json", "size": 9, "blobId": "a" * 40} | fields
    weights = {"rfilename": "model.safetensors", "size": 9, "blobId": "b" * 40}
    return lambda repo: repo.listed.update(siblings=[config, weights])


def listings() -> Iterator[tuple[str, Case]]:
    """Names, sizes, digests and commits that are none are tested one by one in tests/models/hub/test_hostile.py."""
    yield "20,000 files", listing_case(lambda repo: repo.files.update({f"{i}.json": b"{}" for i in range(20_000)}))
    for about in ("x", [], {"sha256": "a"}, {"sha256": "a" * 64, "size": -1, "pointerSize": 1}):
        yield f"LFS {about!r}", listing_case(_entry(lfs=about))
    for siblings in (7, "x", [1, 2], [{}], [[]], {"a": 1}, [{"rfilename": {}}], [{"rfilename": None}]):
        yield f"files {siblings!r}", listing_case(lambda repo, siblings=siblings: repo.listed.update(siblings=siblings))
    for name in ("id", "lastModified", "tags", "cardData", "safetensors", "gguf", "config", "disabled"):
        for value in (7, "x\x1b[2J", [{}], {"a": [[]]}):
            change = {name: value}
            yield f"{name} is {value!r}"[:40], listing_case(lambda repo, change=change: repo.listed.update(change))


def bodies() -> Iterator[tuple[str, Case]]:
    many = b'{"siblings": [' + b",".join([b'{"rfilename": "x.json"}'] * 1_500_000) + b"]}"
    for name, body in {
        "JSON 200,000 deep": DEEP,
        "an object 200,000 deep": b'{"siblings": ' + DEEP + b"}",
        "an answer of 36 MB": many,
        "no JSON": b"<html>",
        "nothing": b"",
        "a list": b"[]",
        "null": b"null",
        "no UTF-8": b'{"id": "\xff\xfe"}',
        "a number of 5,000 digits": b'{"siblings": [{"rfilename": "config.json", "size": ' + b"9" * 5000 + b"}]}",
        "not a number": b'{"sha": NaN, "siblings": Infinity}',
    }.items():
        yield name, trouble_case(body=body)
    packed = {"Content-Encoding": "gzip"}
    yield "200 MB in gzip", trouble_case(body=gzip.compress(bytes(200_000_000), 1), headers=packed)
    for status in (400, 401, 403, 404, 418, 429, 500, 302, 304, 204, 206):
        for where in ("/api/models/", "/resolve/"):
            for body in (DEEP, b"[]", b'{"error": [{}], "errors": 7}'):
                yield f"{status} at {where} with {body[:6]!r}", trouble_case(where=where, status=status, body=body)
    for after in ("1000000000", "nan", "-1", "9" * 400, "Fri, 31 Dec 9999 23:59:59 GMT", "\x1b[2J"):
        yield f"wait {after[:12]!a}", trouble_case(status=429, headers={"Retry-After": after})
    for headers in (
        {"X-Error-Code": "GatedRepo"},
        {"X-Error-Message": "\x1b]52;c;x\x07"},
        {"X-Error-Code": "\u00e9" * 999},
    ):
        yield f"an error {headers}"[:40], trouble_case(status=403, headers=headers)


def files() -> Iterator[tuple[str, Case]]:
    where = "/blobs/"
    yield "a wrong byte", trouble_case(where=where, flip=9)
    yield "a wrong byte once", trouble_case(where=where, flip=9, times=1)
    yield "bytes too many", trouble_case(where=where, extra=1 << 20)
    yield "cut each time at the same byte", trouble_case(where=where, cut_after=999, deaf=True)
    yield "cut each time a little later", trouble_case(True, where=where, cut_after=40_000)
    yield "wrong ETag", trouble_case(where="/resolve/", status=200, headers={"ETag": '"../../x"'}, body=b"x")
    ranges = {"Content-Range": "bytes 0-1/-5", "ETag": "x"}
    yield "a range of nothing", trouble_case(where=where, status=206, headers=ranges, body=b"xx")
    yield "no such range, for ever", trouble_case(where=where, status=416)
    yield (
        "a packed file",
        trouble_case(where=where, body=gzip.compress(bytes(10**8), 1), headers={"Content-Encoding": "gzip"}),
    )


# --- how it sends ---------------------------------------------------------------------------------


def transport_case(script: Callable[[Loopback], Script], where: str, whole: bool = False) -> Case:
    """A hub that answers by a script where `where` is in the path, and elsewhere as a sound one does."""

    def run(folder: Path) -> str:
        repo = tiny()
        with loopback(repo) as sound:
            made = script(sound)

            def mixed(path: str) -> Iterator[bytes | float]:
                if where in path:
                    yield from made(path)
                else:
                    yield answer(status="307 Temporary Redirect", Location=f"{sound.endpoint}{path}")

            with raw_server(mixed) as server:
                return outcome(server.endpoint, folder, repo, whole) or leaked_token(server, sound)

    return run


def leaked_token(hub: RawServer, other: Loopback) -> str:
    """The token must have gone to the hub and not to the other server, which is another host."""
    leaked = [seen.path for seen in other.seen if TOKEN in str(seen.headers)]
    return f"the token went to another host: {leaked}" if leaked else ""


def transports() -> Iterator[tuple[str, Case]]:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
    long = b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n"
    scripts: dict[str, Callable[[str], Any]] = {
        "a byte of the head now and then": lambda path: dripped(long, 0.05),
        "a byte of the body now and then": lambda path: iter((head, *([b" ", 0.05] * 2000))),
        "a byte, then silence": lambda path: iter((head, b" ", 5.0)),
        "silence": lambda path: iter((5.0,)),
        "endless headers": lambda path: iter([long, *([b"X: " + b"y" * 9000 + b"\r\n"] * 2000)]),
        "endless 1xx": lambda path: iter([b"HTTP/1.1 102 Processing\r\n\r\n", 0.001] * 3000),
        "noise": lambda path: iter((b"\x00\xff" * 500,)),
        "no status": lambda path: iter((b"HTTP/1.1 abc\r\n\r\n",)),
        "a cut body": lambda path: iter((head, b" " * 1000)),
        "a negative length": lambda path: iter((answer(b"x", Content_Length="-1"),)),
        "chunks of a wrong size": lambda path: iter((answer(b"zz\r\n", Transfer_Encoding="chunked"),)),
        "an endless body": lambda path: iter((b"HTTP/1.1 200 OK\r\n\r\n", *([b" " * 65536] * 1000))),
        "a redirect to itself": lambda path: iter((answer(status="302 Found", Location=path),)),
        "endless redirects": lambda path: iter((answer(status="302 Found", Location=f"{path}x"),)),
        "a redirect to a file": lambda path: iter((answer(status="302 Found", Location="file:///etc/passwd"),)),
        "a redirect to nowhere": lambda path: iter((answer(status="302 Found", Location="http://[::1"),)),
        "a redirect with a slow body": lambda path: iter(
            (answer(b"", "302 Found", Location="/", Content_Length="99"), *([b" ", 0.05] * 500))
        ),
    }
    for name, script in scripts.items():
        for where in ("/api/", "/resolve/"):
            yield f"{name} at {where}", transport_case(lambda _, script=script: script, where)
    yield "a redirect to another host", transport_case(lambda _: lambda path: iter(()), "/never/", whole=True)


def insecure(folder: Path, where: str) -> str:
    """From https to http: the request must not leave."""
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as open_:
        certificate = write_certificate(Path(place) / "certificate.pem")
        repo = tiny()
        sound = open_.enter_context(loopback(repo))

        def script(path: str) -> Iterator[bytes | float]:
            info = json.dumps(_info(repo)).encode()
            away = answer(status="302 Found", Location=f"{sound.endpoint}{path}")
            yield away if where in path else answer(info)

        server = open_.enter_context(raw_server(script, certificate))
        open_.enter_context(mock.patch.dict(os.environ, {"SSL_CERT_FILE": str(certificate)}))
        close_session()
        open_.callback(close_session)
        said = outcome(server.endpoint, folder, repo)
        left = [seen.path for seen in sound.seen]
        return said or (f"went out by http: {left}" if left else "" if server.heads else "never asked")


def _info(repo: Repo) -> dict[str, Any]:
    siblings = []
    for name, data in repo.files.items():
        lfs = {"sha256": repo.etag(name), "size": len(data), "pointerSize": 134} if repo.is_lfs(name) else None
        digest = repo.etag(name) if lfs is None else "a" * 40
        siblings.append({"rfilename": name, "size": len(data), "blobId": digest, **({"lfs": lfs} if lfs else {})})
    return {"id": repo.name, "sha": repo.commit, "siblings": siblings}


# --- at random ------------------------------------------------------------------------------------


def random_case(dice: random.Random) -> Case:
    """A sound listing, a few of whose values are others."""
    info = _info(tiny())

    def run(folder: Path) -> str:
        value: Any = info
        for _ in range(dice.randrange(1, 4)):
            value = with_another_value(value, dice)
        body = json.dumps(value).encode()
        repo = tiny()
        with loopback(repo) as server:
            server.trouble("/api/models/", status=200, body=body, times=None)
            said = outcome(server.endpoint, folder, repo)
            return "" if said == "not the model" and b"siblings" in body else said

    return run


def attack(seed: int, short: bool, count: int | None = None) -> list[str]:
    """Prints a count for each kind; returns what did not hold. count: of the listings spoiled at random."""
    dice, failures = random.Random(seed), list[str]()
    kinds: dict[str, list[tuple[str, Case]]] = {
        "listings": list(listings()),
        "bodies": list(bodies()),
        "files": list(files()),
        "how it sends": list(transports()),
        "https to http": [
            (where, lambda folder, where=where: insecure(folder, where)) for where in ("/api/", "/resolve/")
        ],
        "listings spoiled at random": [
            (f"number {number}", random_case(dice)) for number in range(count or (20 if short else 500))
        ],
    }
    for kind, cases in kinds.items():
        chosen = dice.sample(cases, max(2, len(cases) // 12)) if short and len(cases) > 20 else cases
        longest_s, held = 0.0, 0
        for name, case in chosen:
            with tempfile.TemporaryDirectory() as place:
                begun_s = time.monotonic()
                said = case(Path(place))
                longest_s = max(longest_s, time.monotonic() - begun_s)
            held += not said
            failures += [f"{kind}, {name}: {said}"] if said else []
        print(f"{kind}: {held:,} of {len(chosen):,} held, the longest {longest_s:.1f} s", flush=True)
    return failures
