"""Small durable file operations, locks between processes, and JSON files that may be damaged.

Knows bytes and folders; refuses to know what a model is.
"""

import json
import math
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from engine.errors import ModelError

LARGEST_JSON_BYTES = 32 * 1024 * 1024  # the index of 100,000 tensors has 10


def read_json_object(path: Path, largest_bytes: int = LARGEST_JSON_BYTES) -> dict[str, object]:
    """Returns the JSON object in `path`.

    Raises ModelError if the file is missing, unreadable, absurdly large, not UTF-8, not JSON or not an object.
    """
    try:
        if not path.is_file():
            raise ModelError(f"{path}: no such file; the model folder is incomplete, download it again")
        size_bytes = path.stat().st_size
        if size_bytes > largest_bytes:
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
    """Writes `content` and waits until the disk has it. Raises OSError."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_json(path: Path, value: object) -> None:
    """Writes `value` as indented UTF-8 JSON and waits until the disk has it. Raises OSError."""
    write_file(path, _json(value))


def replace_file(path: Path, content: bytes) -> None:
    """Like `write_file`, but a reader or a power cut sees the old file or the new one, never a half. Raises OSError."""
    replace_with(path, lambda draft: write_file(draft, content))


def replace_with(path: Path, write: Callable[[Path], object], private: bool = False) -> None:
    """Lets `write` make a draft of the file, then renames it to `path`, which is the old file or all of the new one.

    The draft keeps the extension, which numpy and MLX depend on. The new file may be read and written by whom the old
    one might, or if it is private by the user alone; a draft that a kill left behind is written over the next time.
    Raises OSError.
    """
    draft = path.with_name(f".partial-{path.stem[:48]}{path.suffix[:16]}")  # not longer than a name may be
    try:
        write(draft)
        sync_folder(draft)
        if private:
            draft.chmod(0o600)
        elif path.exists():
            shutil.copymode(path, draft)
        draft.replace(path)
    finally:
        with suppress(OSError):  # what keeps it from going was reported already
            draft.unlink(missing_ok=True)
    sync_folder(path.parent)


def replace_json(path: Path, value: object, private: bool = False) -> None:
    """`replace_file` with what `write_json` writes. private: whether only the user may read it. Raises OSError."""
    replace_with(path, lambda draft: write_file(draft, _json(value)), private)


def keep_newest(files: Iterable[Path], most: float = math.inf, most_bytes: float = math.inf) -> None:
    """Deletes the files that were written longest ago, all but the newest, until at most `most` are left and these take
    at most `most_bytes`. Raises OSError."""
    taken_bytes = 0
    for number, path in enumerate(sorted(files, key=lambda path: path.stat().st_mtime_ns, reverse=True)):
        taken_bytes += path.stat().st_size
        if number and (number >= most or taken_bytes > most_bytes):
            path.unlink()


def sync_folder(path: Path) -> None:
    """Makes renames and new names inside the folder `path` durable, or the content of a file. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path, timeout_s: float, busy: Exception) -> Iterator[None]:
    """Holds the lock file `path`, whose folders are made; a killed process leaves it free.

    Raises `busy` if another process still holds it after `timeout_s` seconds, OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, timeout=timeout_s)
    try:
        lock.acquire()
    except Timeout as error:
        raise busy from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def disk_errors(told: Callable[[str], Exception]) -> Iterator[None]:
    """Raises in place of an OSError what `told` makes of its reason, in words."""
    try:
        yield
    except OSError as error:
        raise told(error.strerror or str(error)) from error


def free_disk_bytes(place: Path) -> int:
    """Returns the free bytes of the disk that `place`, which need not exist, lies on. Raises OSError."""
    while not place.exists() and place != place.parent:
        place = place.parent
    return shutil.disk_usage(place).free


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
