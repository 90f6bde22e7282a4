"""Weights written one tensor after another by a process that may be killed: the next one goes on where it stopped.

Beside the weights lies a journal: what computes them, and how many of the tensors are on the disk. It grows after the
bytes that it speaks of are there (fsync first), so that it never promises too much; what it says nothing of is written
again. Whether the source is still the same is `models.convert.making`'s question.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from models.convert.progress import Progress, Tell
from models.disk import read_json_object, replace_json
from models.gguf.affine import Array
from models.safetensors_file import Entry, Piece, Writer

JOURNAL = "weights-journal.json"
_NOTE_EVERY_S = 2.0  # a note costs an fsync; what is lost with a kill is so much work at most, and one tensor


def write_tensors(
    path: Path, entries: Sequence[Entry], compute: Callable[[str], Array], by: Mapping[str, str], tell: Tell
) -> None:
    """Write the safetensors file `path`; go on with the one that is there if its journal and header fit.

    compute: a tensor by its name, called once for each that is missing. by: what else decides the bytes, such as the
    versions of libraries. Durable when it returns, the journal gone. Raises OSError, and what `compute` raises.
    """
    journal = path.with_name(JOURNAL)
    done = _done(journal, path, entries, by)
    sizes_bytes = [entry.size_bytes for entry in entries]
    total_bytes = sum(sizes_bytes)
    noted_s = time.monotonic()
    tell(Progress("weights", sum(sizes_bytes[:done]), total_bytes))
    with Writer(path, entries, done) as writer:
        for number in range(done, len(entries)):
            writer.write(Piece(entries[number].name, 0, compute(entries[number].name)))
            if time.monotonic() - noted_s >= _NOTE_EVERY_S:
                writer.sync()
                replace_json(journal, {"by": dict(by), "done": number + 1})
                noted_s = time.monotonic()
            tell(Progress("weights", sum(sizes_bytes[: number + 1]), total_bytes))
        writer.finish()
    journal.unlink(missing_ok=True)


def _done(journal: Path, path: Path, entries: Sequence[Entry], by: Mapping[str, str]) -> int:
    """How many of the entries need not be written again: 0 unless everything fits."""
    try:
        said: dict[str, Any] = read_json_object(journal)
    except ModelError:
        return 0
    done = said.get("done")
    if said.get("by") != by or type(done) is not int or not 0 <= done <= len(entries):
        return 0
    return done if Writer.resumable(path, entries, done) else 0
