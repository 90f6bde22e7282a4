"""uvicorn on loopback, and the file of the key that clients give."""

from __future__ import annotations

import os
import secrets
import socket
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from engine.errors import UsageError

ADDRESS = "127.0.0.1"
MOST_CONNECTIONS = 256
HEAD_BYTES = 32 * 1024  # of a request's line and headers


def read_key(path: Path) -> str:
    """Returns the key in a file that only its owner may read; makes one at first. Raises UsageError."""
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(made, "w") as file:
                file.write(secrets.token_urlsafe(32) + "\n")
        if path.stat().st_mode & 0o077:
            raise UsageError(f"other users can read the key in {path}: run chmod 600 on it, or delete it for a new one")
        key = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the key in {path} cannot be used ({error}): give --key-file another file") from error
    if len(key) < 16 or not key.isascii():
        raise UsageError(f"the key in {path} is shorter than 16 characters, or not ASCII: delete it for a new one")
    return key


def open_socket(port: int) -> socket.socket:
    """Returns a socket for loopback; port 0 takes a free one. Raises UsageError where that is impossible."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((ADDRESS, port))
    except OSError as error:
        listener.close()
        raise UsageError(f"port {port} cannot be used ({error.strerror}): give --port another") from error
    return listener


class LoopbackServer(uvicorn.Server):
    """Serves an application on a socket of loopback until it is told to stop, by a signal or by `should_exit`."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                limit_concurrency=MOST_CONNECTIONS,
                h11_max_incomplete_event_size=HEAD_BYTES,
                timeout_graceful_shutdown=2,
            )
        )
