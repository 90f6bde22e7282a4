"""Where clients find the API: its address and usual port, and the file of the key that they give."""

import os
import secrets
from pathlib import Path

from engine.errors import UsageError

ADDRESS, PORT = "127.0.0.1", 8080
KEY_FILE = "api-key"  # in Redline's folder


def read_or_make_key(path: Path) -> str:
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
