"""Reads files of conversations to import: JSON, alone or in the ZIP archive of an export. As a program, which the
window runs so that it does not wait, it imports one into a store: `python -m app.store.import_files STORE FILE`. It
prints a line of JSON for each conversation, {"done": 1, "of": 3}, and at the end {"imported": [ids]} or {"error": why}.
"""

import json
import lzma
import re
import sys
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from app.store.database import StoreError

LARGEST_BYTES = 512 << 20  # of a file, and of what is in an archive, unpacked
_UNREADABLE = (
    *(OSError, ValueError, RuntimeError, NotImplementedError, EOFError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError),
)
_MEMBER = re.compile(r"(.*/)?(conversations(-\d+)?|[^/]*chat-export[^/]*|[^/]*\.conversation)\.json")


def read_texts(path: Path) -> list[str]:
    """Returns the JSON of a file, or of each file of conversations in an archive. Raises StoreError."""
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise ValueError(f"it is larger than {LARGEST_BYTES >> 20} MiB")
        if zipfile.is_zipfile(path):
            return [data.decode("utf-8-sig") for data in _members(path)]
        return [path.read_text(encoding="utf-8-sig")]
    except _UNREADABLE as error:
        why = f"“{path.name}” could not be read ({error})"
        raise StoreError(f"{why}. Choose an export of Redline, ChatGPT, LM Studio or Open WebUI") from error


def _members(path: Path) -> list[bytes]:
    """Returns the files of conversations in an archive. Their real sizes count, not those that the archive states."""
    found: list[bytes] = []
    left = LARGEST_BYTES
    with zipfile.ZipFile(path) as archive:
        for name in sorted(filter(_MEMBER.fullmatch, archive.namelist())):
            with archive.open(name) as member:
                found.append(member.read(left + 1))
            left -= len(found[-1])
            if left < 0:
                raise ValueError(f"its conversations are larger than {LARGEST_BYTES >> 20} MiB")
    if not found:
        raise ValueError("there is no conversations.json in it")
    return found


def main(words: Sequence[str]) -> None:
    from app.store import Store

    def tell(**values: object) -> None:
        print(json.dumps(values), flush=True)

    try:
        store = Store.open(Path(words[0])).store
        try:
            records = store.import_all(read_texts(Path(words[1])), lambda done, of: tell(done=done, of=of))
            tell(imported=[record.id for record in records])
        finally:
            store.close()
    except StoreError as error:
        tell(error=str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
