"""models/architectures.md, whose parts programs write: each stands between two comments that name it."""

from pathlib import Path

PAGE = Path(__file__).parents[2] / "models" / "architectures.md"


def part(name: str) -> str:
    """Returns a part of the page as it is."""
    return PAGE.read_text().split(_begin(name))[1].split(_end(name))[0].strip("\n")


def write_part(name: str, text: str) -> None:
    """Replaces a part of the page."""
    head, rest = PAGE.read_text().split(_begin(name))
    PAGE.write_text(f"{head}{_begin(name)}\n{text}\n{_end(name)}{rest.split(_end(name))[1]}")


def _begin(name: str) -> str:
    return f"<!-- {name} -->"


def _end(name: str) -> str:
    return f"<!-- end of {name} -->"
