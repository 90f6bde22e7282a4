"""Earlier replies on disk, to draft from: token ids, in one file for each tokenizer and conversation. Beside them is
what the models remember of each conversation, which `app.inference.kept_conversation_files` writes.

    <folder>/<digest of the vocabulary>/<conversation>.tokens
    <folder>/caches/<conversation>.cache

Whoever keeps the conversations owns the folder: it adds each reply when it ends, sets the files of a conversation that
is deleted aside, and deletes them with it. Others only read. A file is a row of records, one for each reply: `_HEADER`
and the ids as int32, little endian. What is damaged or foreign is ignored, and gone with the next reply of that
conversation. Only the user can read the files. Imports no MLX.
"""

from __future__ import annotations

import os
import shutil
import struct
import zlib
from array import array
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from engine.errors import RedlineError
from models.durable_files import keep_newest

FOLDER = "draft-history"
MOST_BYTES = 4 << 20  # of all files: about a million tokens

_HEADER = struct.Struct("<4sqII")  # magic, message, tokens, CRC-32 of the ids
_MAGIC = b"RLR1"
_SUFFIX = ".tokens"
_CACHES, _CACHE_SUFFIX = "caches", ".cache"
ASIDE = ".deleted"  # added to the names of files that are set aside
_ITEM_BYTES = 4


class ReplyHistoryError(RedlineError):
    """What was learned from a conversation could not be deleted or set aside."""


class ReplyHistory:
    """The files in `folder`, which need not exist."""

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        self.folder = folder
        self._most_bytes = most_bytes

    def add(self, vocabulary: str, conversation: int, message: int, tokens: Sequence[int]) -> None:
        """Adds the reply `message`, in place of what it was before. vocabulary: digest of the tokenizer's. The
        conversations that have had no reply for the longest go where there is too much. A disk that refuses only costs
        drafts."""
        if not tokens or not vocabulary:
            return
        path = self.folder / vocabulary / f"{conversation}{_SUFFIX}"
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.parent.mkdir(exist_ok=True, mode=0o700)
            known = {one: ids for one, ids in _records(path) if one != message}
            known[message] = array("i", tokens)
            _write(path, known.items())
            keep_newest(self._paths(), most_bytes=self._most_bytes)

    def read(self, vocabulary: str) -> dict[tuple[int, int], array[int]]:
        """Returns the ids of each reply, by (conversation, message), oldest file first."""
        paths = [path for path in self._paths() if path.parent.name == vocabulary]
        return {(int(path.stem), message): ids for path in paths for message, ids in _records(path)}

    def state(self, vocabulary: str) -> object:
        """Returns a value that is another one once a file of this vocabulary has changed."""
        found: list[tuple[str, int, int]] = []
        with suppress(OSError), os.scandir(self.folder / vocabulary) as entries:
            for entry in entries:
                stat = entry.stat()
                found.append((entry.name, stat.st_mtime_ns, stat.st_size))
        return sorted(found)

    def cache_file(self, conversation: int) -> str:
        """Returns the file for what the models remember of a conversation, which is made empty if there is none; ""
        where the disk refuses."""
        path = self._cache_path(conversation)
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.parent.mkdir(exist_ok=True, mode=0o700)
            path.touch(0o600)
        except OSError:
            return ""
        return str(path)

    def written_cache_file(self, conversation: int) -> str:
        """Returns the file for what the models remember of a conversation; "" where nothing has been written."""
        path = self._cache_path(conversation)
        try:
            return str(path) if path.stat().st_size else ""
        except OSError:
            return ""

    def set_aside(self, conversation: int) -> None:
        """Hides what is known of a conversation until `bring_back` or `purge`. Raises ReplyHistoryError."""
        files = [path for path in [*self._paths(), *self._caches()] if path.stem == str(conversation)]
        _for_each(files, lambda path: path.rename(f"{path}{ASIDE}"))

    def bring_back(self, conversation: int) -> None:
        """Undoes `set_aside`. A disk that refuses only costs drafts."""
        for path in self.folder.glob(f"*/{conversation}.*{ASIDE}"):
            with suppress(OSError):
                path.rename(path.with_suffix(""))

    def purge(self) -> None:
        """Deletes what was set aside. Raises ReplyHistoryError."""
        _for_each(self.folder.glob(f"*/*{ASIDE}"), Path.unlink)

    def _cache_path(self, conversation: int) -> Path:
        return self.folder / _CACHES / f"{conversation}{_CACHE_SUFFIX}"

    def keep(self, conversations: Container[int]) -> None:
        """Deletes what is known of all other conversations, and what was set aside. Raises ReplyHistoryError."""
        self.purge()
        files = [*self._paths(), *self._caches()]
        known = (_SUFFIX, _CACHE_SUFFIX)
        others = [
            file
            for file in files
            if file.suffix not in known or not file.stem.isdecimal() or int(file.stem) not in conversations
        ]
        _for_each(others, Path.unlink)

    def clear(self) -> None:
        """Deletes everything. Raises ReplyHistoryError."""
        try:
            shutil.rmtree(self.folder)
        except FileNotFoundError:
            return
        except OSError as error:
            raise _refused(error, self.folder) from error

    def _caches(self) -> list[Path]:
        """Returns the files of what the models remember, also those that are being written, and of earlier versions."""
        return [file for file in self.folder.glob(f"{_CACHES}/*") if file.is_file()]

    def _paths(self) -> list[Path]:
        """Returns all files of tokens, the one that was written longest ago first."""
        found: list[tuple[int, Path]] = []
        for path in self.folder.glob(f"*/*{_SUFFIX}"):
            with suppress(OSError):
                if path.stem.isdecimal():
                    found.append((path.stat().st_mtime_ns, path))
        return [path for _, path in sorted(found)]


def _for_each(paths: Iterable[Path], action: Callable[[Path], object]) -> None:
    """Does this with each file that is still there. Raises ReplyHistoryError."""
    for path in paths:
        try:
            action(path)
        except FileNotFoundError:  # the engine has deleted it since
            pass
        except OSError as error:
            raise _refused(error, path) from error


def _records(path: Path) -> Iterator[tuple[int, array[int]]]:
    """Yields the replies in a file, up to the first that is damaged."""
    try:
        data = path.read_bytes() if path.is_file() and path.stat().st_size <= 2 * MOST_BYTES else b""
    except OSError:
        return
    place = 0
    while place + _HEADER.size <= len(data):
        magic, message, count, crc = _HEADER.unpack_from(data, place)
        ids = data[place + _HEADER.size : place + _HEADER.size + count * _ITEM_BYTES]
        if magic != _MAGIC or len(ids) != count * _ITEM_BYTES or zlib.crc32(ids) != crc:
            return
        tokens = array("i", ids)
        if min(tokens, default=0) < 0:
            return
        yield message, tokens
        place += _HEADER.size + len(ids)


def _write(path: Path, replies: Iterable[tuple[int, array[int]]]) -> None:
    """Writes a file. One that is cut off has fewer replies, which only costs drafts. Raises OSError."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        for message, tokens in replies:
            ids = tokens.tobytes()
            file.write(_HEADER.pack(_MAGIC, message, len(tokens), zlib.crc32(ids)) + ids)


def _refused(error: OSError, path: Path) -> ReplyHistoryError:
    return ReplyHistoryError(
        f"the drafting history of a conversation could not be deleted ({error.strerror}): delete {path} yourself"
    )
