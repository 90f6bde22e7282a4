"""Small durable file operations, and JSON that strangers wrote.

Knows bytes and folders; refuses to know what a model is.
"""

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

from engine.errors import ModelError

LARGEST_JSON_BYTES = 256 * 1024 * 1024


def read_json_object(path: Path) -> dict[str, object]:
    """The JSON object in `path`.

    Raises ModelError if the file is missing, unreadable, absurdly large, not UTF-8, not JSON or not an object.
    """
    try:
        if not path.is_file():
            raise ModelError(f"{path}: no such file; the model folder is incomplete, download it again")
        size_bytes = path.stat().st_size
        if size_bytes > LARGEST_JSON_BYTES:
            raise ModelError(f"{path}: {size_bytes} bytes is too large for this file; download the model again")
        content = path.read_bytes()
        value = json.loads(content)
        if b"\\ud" in content.lower():  # half of a pair is JSON, but no text that could be shown or stored
            json.dumps(value, ensure_ascii=False).encode()
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    except (ValueError, RecursionError) as error:  # JSONDecodeError and UnicodeDecodeError are ValueErrors
        reason = str(error).splitlines()[0]
        raise ModelError(f"{path}: not valid JSON ({reason}); the file is damaged, download it again") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path}: holds a JSON {type(value).__name__}, not an object; download it again")
    return value


def write_file(path: Path, content: bytes) -> None:
    """Write `content` and wait until the disk has it. Raises OSError."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_json(path: Path, value: object) -> None:
    """Write `value` as indented UTF-8 JSON and wait until the disk has it. Raises OSError."""
    write_file(path, _json(value))


def replace_file(path: Path, content: bytes) -> None:
    """Like `write_file`, but a reader or a power cut sees the old file or the new one, never a half. The new one may be
    read and written by whom the old one might; a draft that a kill left behind is written over the next time."""
    draft = path.with_name(f".{path.name[:48]}.partial")  # not longer than a name may be, whatever the path's
    try:
        write_file(draft, content)
        if path.exists():
            shutil.copymode(path, draft)
        draft.replace(path)
    finally:
        with suppress(OSError):  # what keeps it from going was reported already
            draft.unlink(missing_ok=True)
    sync_folder(path.parent)


def replace_json(path: Path, value: object) -> None:
    """`replace_file` with what `write_json` writes. Raises OSError."""
    replace_file(path, _json(value))


def sync_folder(path: Path) -> None:
    """Make renames and new names inside the folder `path` durable; of a file, what is in it. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
