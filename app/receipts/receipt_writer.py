"""Receipts into the file that they are of: whole or not at all, and nothing else in it changes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from app.receipts.exported_replies import Export, Result
from engine.errors import RedlineError
from models.durable_files import replace_file


class WriteError(RedlineError):
    """The receipts could not be kept."""


def write_receipts(export: Export, results: Sequence[Result]) -> int:
    """Those of this export; how many. What the file says beside them stays, unknown fields included.

    Raises WriteError: the file cannot be written, or is another by now.
    """
    found = {result.case.place: result.kept for result in results if result.case.export is export and result.kept}
    if not found:
        return 0
    document = msgspec.json.decode(export.data)
    for place, kept in found.items():
        document["messages"][place]["receipt"] = msgspec.to_builtins(kept)
    _replace(export, msgspec.json.encode(document))
    return len(found)


def _replace(export: Export, data: bytes) -> None:
    path = export.path.resolve()
    try:
        if path.read_bytes() != export.data:
            raise WriteError(f"{export.path} has changed while it was verified, and is left as it is: verify it again")
        replace_file(path, data)
    except OSError as error:
        raise WriteError(f"{export.path} cannot be written ({error.strerror}): copy it to another folder") from error
