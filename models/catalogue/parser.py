"""models/catalogue.toml to a `Catalogue`. An error names the line where the entry begins."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from engine.errors import ModelError
from models.catalogue.entries import Catalogue, Drafter, Measured, Target

_TABLES: dict[str, type[Target] | type[Drafter] | type[Measured]] = {
    "target": Target,
    "drafter": Drafter,
    "measured": Measured,
}
_HEADER = re.compile(r"\s*\[\[\s*(\w+)\s*\]\]")
AnEntry = TypeVar("AnEntry", Target, Drafter, Measured)


def read_catalogue(path: Path | None = None) -> Catalogue:
    """The catalogue in the file `path`, by default Redline's own.

    Raises ModelError, with the line: not there, no TOML, a field missing, unknown or of the wrong kind, a repository
    that stands twice, a drafter or target that is no entry.
    """
    path = path or Path(str(resources.files("models"))) / "catalogue.toml"
    try:
        text = path.read_text(encoding="utf-8")
        tables = tomllib.loads(text)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}); install redline again") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:  # the latter says the line
        raise ModelError(f"{path}: not valid TOML ({error}); correct it") from error
    lines = _lines(text)
    for name, value in tables.items():
        if name not in _TABLES or not isinstance(value, list):
            raise ModelError(f"{path}: {name!r} is none of [[{']], [['.join(_TABLES)}]]; correct it")
    where = _Where(path, lines)
    catalogue = Catalogue(
        _read(where, "target", tables, Target),
        _read(where, "drafter", tables, Drafter),
        _read(where, "measured", tables, Measured),
    )
    _check(where, catalogue)
    return catalogue


class _Where:
    """Turns the n-th entry of a table into the place of its first line."""

    def __init__(self, path: Path, lines: dict[str, list[int]]) -> None:
        self._path, self._lines = path, lines

    def wrong(self, table: str, number: int, name: object, what: str) -> ModelError:
        line = self._lines[table][number]
        return ModelError(f"{self._path}:{line}: [[{table}]] {str(name)[:80]}: {what}; correct it")


def _lines(text: str) -> dict[str, list[int]]:
    """Lines of the headers of each table, from 1."""
    found: dict[str, list[int]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            found.setdefault(header[1], []).append(number)
    return found


def _read(where: _Where, table: str, tables: dict[str, Any], kind: type[AnEntry]) -> tuple[AnEntry, ...]:
    entries = []
    for number, value in enumerate(tables.get(table, [])):
        try:
            entries.append(msgspec.convert(value, kind))
        except msgspec.ValidationError as error:
            name = value.get("repository", value.get("target", "")) if isinstance(value, dict) else ""
            raise where.wrong(table, number, name, str(error).replace("Object ", "")) from error
    return tuple(entries)


def _check(where: _Where, catalogue: Catalogue) -> None:
    """What no single entry can tell."""
    seen: set[str] = set()
    for table, number, entry in _numbered(catalogue):
        if entry.repository in seen:
            raise where.wrong(table, number, entry.repository, "stands there twice")
        seen.add(entry.repository)
        if isinstance(entry, Drafter) and (entry.size_bytes is None) != (entry.size is None):
            raise where.wrong(table, number, entry.repository, "gives only one of size_bytes and size")
    for number, target in enumerate(catalogue.targets):
        for name in target.drafters:
            if name not in seen or name == target.repository:
                raise where.wrong("target", number, target.repository, f"its drafter {name} is no other entry")
    for number, one in enumerate(catalogue.measured):
        known = catalogue.target(one.target)
        if known is None or one.drafter not in known.drafters:
            raise where.wrong("measured", number, one.target, f"{one.drafter} is no drafter of it")


def _numbered(catalogue: Catalogue) -> Iterator[tuple[str, int, Target | Drafter]]:
    yield from (("target", number, entry) for number, entry in enumerate(catalogue.targets))
    yield from (("drafter", number, entry) for number, entry in enumerate(catalogue.drafters))
