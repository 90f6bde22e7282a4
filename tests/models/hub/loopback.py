"""A hub on loopback that speaks the real one's HTTP: model info, paged trees, resolve with redirects to a CDN on
another port, ETags, ranges, whoami, and trouble on command."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.models.hub.hub_contents import Repo, Seen, Trouble, git_blob

TOKEN = "hf_test_0123456789"
PAGE = 3  # entries of a tree in one answer
PIECE = 16 * 1024  # bytes in one write


class Loopback:
    """The two servers. Requests are in `seen`, in the order in which they came."""

    def __init__(self, *repos: Repo) -> None:
        self.repos = {repo.name: repo for repo in repos}
        self.troubles: list[Trouble] = []
        self.seen: list[Seen] = []
        self.sent_bytes = 0
        self.allowed_bytes: int | None = None  # beyond it everything is held, of all answers together
        self.held, self.go = threading.Event(), threading.Event()
        self.lock = threading.Lock()
        self._servers = [_server(self, cdn) for cdn in (False, True)]
        self.endpoint, self.cdn = (f"http://127.0.0.1:{server.server_port}" for server in self._servers)

    def add(self, repo: Repo) -> Repo:
        self.repos[repo.name] = repo
        return repo

    def trouble(self, where: str, **what: Any) -> None:
        self.troubles.append(Trouble(where, **what))

    def requests(self, part: str) -> list[Seen]:
        return [seen for seen in self.seen if part in seen.path]

    def take_trouble(self, path: str) -> Trouble:
        """The first that is meant for this path, one time fewer."""
        with self.lock:
            for trouble in self.troubles:
                if trouble.where in path and trouble.times != 0:
                    trouble.times = trouble.times - 1 if trouble.times is not None else None
                    return trouble
        return Trouble("")

    def close(self) -> None:
        self.go.set()
        for server in self._servers:
            server.shutdown()
            server.server_close()


@contextmanager
def loopback(*repos: Repo) -> Iterator[Loopback]:
    """A hub with these repositories, until the end of the block."""
    hub = Loopback(*repos)
    try:
        yield hub
    finally:
        hub.close()


def _server(hub: Loopback, cdn: bool) -> ThreadingHTTPServer:
    handler = type("Handler", (_Handler,), {"hub": hub, "cdn": cdn})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    return server


class _Handler(BaseHTTPRequestHandler):
    hub: Loopback
    cdn: bool
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:  # the other side was killed, as it should be
            self.close_connection = True

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.hub.lock:
            self.hub.seen.append(Seen(self.command, self.path, headers, self.cdn))
        trouble = self.hub.take_trouble(self.path)
        if trouble.status or trouble.body is not None:
            return self._send(trouble.status or 200, trouble.body or b"", trouble.headers)
        place = urlsplit(self.path)
        parts = [unquote(part) for part in place.path.strip("/").split("/")]
        if self.cdn:
            return self._file(*self._stored(parts[-1]), trouble)
        if parts == ["api", "whoami-v2"]:
            return self._whoami()
        if parts[:2] == ["api", "models"]:
            return self._api(parts[2:], parse_qs(place.query))
        return self._resolve(parts, trouble)

    # --- the API ---------------------------------------------------------------------------------

    def _whoami(self) -> None:
        if self._token() != TOKEN:
            return self._refuse(401, "", "Invalid credentials in Authorization header")
        return self._json({"type": "user", "name": "tester", "auth": {}})

    def _api(self, parts: list[str], query: dict[str, list[str]]) -> None:
        verbs = [index for index, part in enumerate(parts) if part in ("revision", "tree")]
        cut = verbs[0] if verbs else len(parts)
        repo = self._repo("/".join(parts[:cut]), parts[cut + 1] if verbs else "main", about=True)
        if repo is None:
            return None
        if verbs and parts[cut] == "tree":
            return self._tree(repo, int(query.get("cursor", ["0"])[0]))
        siblings = [self._sibling(repo, name) for name in repo.files]
        about = {"id": repo.name, "sha": repo.commit, "siblings": siblings, "private": repo.private, "tags": []}
        return self._json(about | repo.listed)

    def _sibling(self, repo: Repo, name: str) -> dict[str, Any]:
        data = repo.files[name]
        about: dict[str, Any] = {"rfilename": name, "size": len(data), "blobId": git_blob(data)}
        if repo.is_lfs(name):
            about["lfs"] = {"sha256": repo.etag(name), "size": len(data), "pointerSize": 134}
        return about

    def _tree(self, repo: Repo, cursor: int) -> None:
        names = sorted(repo.files)
        entries = []
        for name in names[cursor : cursor + PAGE]:
            data = repo.files[name]
            entry: dict[str, Any] = {"type": "file", "path": name, "size": len(data), "oid": git_blob(data)}
            if repo.is_lfs(name):
                entry["lfs"] = {"oid": repo.etag(name), "size": len(data), "pointerSize": 134}
            entries.append(entry)
        link = {}
        if cursor + PAGE < len(names):
            path = urlsplit(self.path).path
            link = {"Link": f'<{self.hub.endpoint}{path}?recursive=true&cursor={cursor + PAGE}>; rel="next"'}
        self._json(entries, link)

    # --- files -----------------------------------------------------------------------------------

    def _resolve(self, parts: list[str], trouble: Trouble) -> None:
        if "resolve" not in parts:
            return self._refuse(404, "RepoNotFound", "Repository not found")
        at = parts.index("resolve")
        repo = self._repo("/".join(parts[:at]), parts[at + 1])
        if repo is None:
            return None
        name = "/".join(parts[at + 2 :])
        if name not in repo.files:
            return self._refuse(404, "EntryNotFound", "Entry not found", {"X-Repo-Commit": repo.commit})
        etag, about = repo.etag(name), {"X-Repo-Commit": repo.commit}
        if not repo.is_lfs(name):
            return self._file(repo.files[name], etag, trouble, about)
        linked = {"X-Linked-Etag": f'"{etag}"', "X-Linked-Size": str(len(repo.files[name])), "Accept-Ranges": "bytes"}
        return self._send(302, b"", about | linked | {"Location": f"{self.hub.cdn}/blobs/{etag}?signature=x"})

    def _stored(self, digest: str) -> tuple[bytes, str]:
        for repo in self.hub.repos.values():
            for name, data in repo.files.items():
                if repo.etag(name) == digest:
                    return data, digest
        return b"", digest

    def _file(self, data: bytes, etag: str, trouble: Trouble, about: dict[str, str] | None = None) -> None:
        if trouble.flip is not None:
            data = data[: trouble.flip] + bytes([data[trouble.flip] ^ 1]) + data[trouble.flip + 1 :]
        data += b"\0" * trouble.extra
        headers = {"ETag": f'"{etag}"', "Accept-Ranges": "bytes"} | (about or {})
        begin = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        if "Range" not in self.headers or trouble.deaf:
            return self._send(200, data, headers, trouble)
        if begin >= len(data):
            return self._send(416, b"", headers | {"Content-Range": f"bytes */{len(data)}"})
        headers["Content-Range"] = f"bytes {begin}-{len(data) - 1}/{len(data)}"
        return self._send(206, data[begin:], headers, trouble)

    # --- answers ---------------------------------------------------------------------------------

    def _repo(self, name: str, revision: str, about: bool = False) -> Repo | None:
        """The repository, or the refusal is sent. about: gated ones tell what they hold to anyone."""
        repo = self.hub.repos.get(name) or next(
            (repo for repo in self.hub.repos.values() if repo.name.casefold() == name.casefold()), None
        )
        token = self._token()
        if token not in ("", TOKEN):
            self._refuse(401, "", "Invalid credentials in Authorization header")
        elif repo is None or (repo.private and not token):
            self._refuse(404 if token else 401, "RepoNotFound" if token else "", "Repository not found")
        elif repo.gated and not about:
            self._refuse(403 if token else 401, "GatedRepo", f"Access to model {name} is restricted.")
        elif revision not in (*repo.branches, repo.commit):
            self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        else:
            return repo
        return None

    def _token(self) -> str:
        return str(self.headers.get("Authorization", "")).removeprefix("Bearer ")

    def _json(self, value: object, headers: dict[str, str] | None = None) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"} | (headers or {}))

    def _refuse(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        said = {"X-Error-Message": message} | ({"X-Error-Code": code} if code else {}) | (headers or {})
        self._send(status, json.dumps({"error": message}).encode(), said | {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: dict[str, str], trouble: Trouble | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self._write(body, trouble or Trouble(""))

    def _write(self, body: bytes, trouble: Trouble) -> None:
        """In pieces, so that a transfer can be caught anywhere."""
        sent = 0
        while sent < len(body):
            allowed = self.hub.allowed_bytes
            stuck = allowed is not None and self.hub.sent_bytes >= allowed
            if stuck or (trouble.hold is not None and sent >= trouble.hold):
                self.hub.held.set()
                self.hub.go.wait()
            if trouble.cut_after is not None and sent >= trouble.cut_after:
                self.close_connection = True
                self.connection.close()
                return
            ends = [end for end in (trouble.hold, trouble.cut_after) if end is not None and end > sent]
            piece = body[sent : min([sent + PIECE, *ends])]
            self.wfile.write(piece)
            sent += len(piece)
            with self.hub.lock:
                self.hub.sent_bytes += len(piece)
