"""Models, drafters and downloads in words, for the terminal and for the window. Imports nothing that takes time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from app.duration_text import duration_words
from models.size_text import size_words

if TYPE_CHECKING:
    from models.catalogue.entries import Measured

TIMES = "\N{MULTIPLICATION SIGN}"
# by the name that --drafter takes
DRAFTER_TITLES = {"eagle3": "EAGLE-3", "medusa": "Medusa", "draft": "draft model", "lookup": "prompt lookup"}
# what a folder holds: the kinds of `models.drafters`, draft for a model of the catalogue, and GGUF
KINDS = {
    "model": "Draft model",
    "draft": "Draft model",
    "eagle3": "EAGLE-3 head",
    "medusa": "Medusa heads",
    "mlp-speculator": "MLP speculator",
    "mtp": "MTP head",
    "gemma4-assistant": "Gemma 4 assistant",
    "dflash": "DFlash",
    "gguf": "GGUF file",
}


def parameters(billions: float | None) -> str:
    """Returns a number of parameters, such as 8.2 B or 596 M; "" if it is unknown."""
    if billions is None:
        return ""
    return f"{billions:.3g} B" if billions >= 1 else f"{billions * 1000:.0f} M"


def bits(number: float | None) -> str:
    """Returns the width of a weight without its scales, such as 4-bit; "" if it is unknown."""
    if number is None:
        return ""
    return "16-bit" if number >= 16 else "8-bit" if number >= 8 else "4-bit"


def size(size_bytes: int | None, estimated: bool = False) -> str:
    """Returns a size, such as 4.62 GB, with a tilde if it is estimated; "" if it is unknown."""
    return f"{'~' if estimated else ''}{size_words(size_bytes)}" if size_bytes else ""


def speedup(measured: Iterable[Measured], unit: str = TIMES) -> str:
    """Returns a speed-up, such as 2.43x, or the range of several, such as 0.72 to 0.98x; "" if nobody measured one: it
    is never estimated."""
    found = sorted({one.speedup for one in measured})
    span = found if len(found) < 2 else (found[0], found[-1])
    return f"{' to '.join(f'{one:g}' for one in span)}{unit}" if found else ""


def pace(bytes_per_s: float | None, left_s: float | None) -> list[str]:
    """Returns the speed of a download and the time that is left, without what is unknown."""
    speed = [] if bytes_per_s is None else [f"{size_words(bytes_per_s)}/s"]
    return speed if left_s is None else [*speed, f"{duration_words(left_s)} left"]


def removal_lines(losers: Sequence[str], keepers: Sequence[str], stays_bytes: int, note: str) -> list[str]:
    """Returns a line for each thing to know before a model is deleted, with the fields of a `Removal`."""
    lines = [f"Also deleted for {', '.join(losers)}: the files are shared."] if losers else []
    if keepers:
        lines.append(f"{size_words(stays_bytes)} will stay on disk, still in use by {', '.join(keepers)}.")
    if note:
        lines.append(f"{note[0].upper()}{note[1:]}.")
    return lines


def joined(parts: Sequence[str]) -> str:
    """Joins the parts that are not empty, on one line."""
    return " · ".join(part for part in parts if part)
