"""The entries of the catalogue, plain frozen values, and their reader; `models/catalogue.toml` explains each field."""

from collections.abc import Mapping
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from engine.errors import ModelError

CatalogueKind = Literal["draft", "eagle3", "medusa", "mtp", "gemma4-assistant", "dflash"]
SizeFrom = Literal["stated", "estimated"]

Repository = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$")]
Commit = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{40}$")]
Text = Annotated[str, msgspec.Meta(min_length=1)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Bytes = Annotated[int, msgspec.Meta(gt=0)]
Sources = Annotated[tuple[Text, ...], msgspec.Meta(min_length=1)]


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A model that people chat with, and that may draft for a larger one of its family.

    good_at: what its makers recommend it for, in a few words, "" where that is nothing in particular. good_at_source:
    their page that says so. drafters: repositories, the best known first. head_from: the repository that it was made
    from, where that holds a multi-token prediction head and this one does not.
    """

    repository: Repository
    name: Text
    family: Text
    architecture: Text
    parameters_b: Positive
    bits: Positive
    size_bytes: Bytes
    size: SizeFrom
    licence: Text
    source: Sources
    good_at: str = ""
    good_at_source: str = ""
    revision: Commit | None = None
    drafters: tuple[Repository, ...] = ()
    head_from: Repository | None = None

    @property
    def kind(self) -> CatalogueKind:
        """The kind of drafter that it is: an ordinary model."""
        return "draft"

    @property
    def trouble(self) -> str:
        """Why Redline cannot load it, "" where it can."""
        return ""


class Drafter(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A drafter that cannot be a target. size_bytes, parameters_b, bits: None where no source has them.

    obstacle: why Redline cannot load this one, though it may load its kind.
    """

    repository: Repository
    name: Text
    kind: CatalogueKind
    licence: Text
    source: Sources
    parameters_b: Positive | None = None
    bits: Positive | None = None
    size_bytes: Bytes | None = None
    size: SizeFrom | None = None
    revision: Commit | None = None
    obstacle: str = ""

    @property
    def trouble(self) -> str:
        """Why Redline cannot load it, "" where it can."""
        return self.obstacle


class Measured(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A speed-up over plain decoding that somebody measured, by whom and on what; below 1 it was slower."""

    target: Repository
    drafter: Repository
    speedup: Positive
    on: Text
    source: Text


Entry = Target | Drafter


class Catalogue:
    """All entries. Every drafter that a target names is an entry, and every repository is listed once."""

    def __init__(
        self, targets: tuple[Target, ...], drafters: tuple[Drafter, ...] = (), measured: tuple[Measured, ...] = ()
    ) -> None:
        self.targets, self.drafters, self.measured = targets, drafters, measured

    @property
    def listed(self) -> list[Entry]:
        """All entries, targets first."""
        return [*self.targets, *self.drafters]

    @cached_property
    def entries(self) -> Mapping[str, Entry]:
        """The entries by repository."""
        return {entry.repository: entry for entry in self.listed}

    def target(self, repository: str | None) -> Target | None:
        """Returns the target of that name; None if there is none."""
        entry = self.entries.get(repository or "")
        return entry if isinstance(entry, Target) else None

    def drafters_of(self, target: Target) -> list[Entry]:
        """Returns the drafters that are known for `target`, the best first."""
        return [self.entries[name] for name in target.drafters]

    def targets_of(self, drafter: Entry) -> list[Target]:
        """Returns the targets that `drafter` is known to draft for."""
        return [target for target in self.targets if drafter.repository in target.drafters]

    def speedups(self, target: str, drafter: str) -> tuple[Measured, ...]:
        """Returns the measured speed-ups of a pair of repositories."""
        return tuple(one for one in self.measured if (one.target, one.drafter) == (target, drafter))


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    """The tables of the file."""

    target: tuple[Target, ...] = ()
    drafter: tuple[Drafter, ...] = ()
    measured: tuple[Measured, ...] = ()


def read_catalogue(path: Path | None = None) -> Catalogue:
    """Returns the catalogue in the file `path`, by default Redline's own.

    Raises ModelError, naming the entry: not there, no TOML, a field missing, unknown or of the wrong kind.
    """
    path = path or Path(str(resources.files("models"))) / "catalogue.toml"
    try:
        document = msgspec.toml.decode(path.read_bytes(), type=_Document)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}); install redline again") from error
    except (UnicodeDecodeError, msgspec.DecodeError) as error:  # these say the line, or the table and its number
        raise ModelError(f"{path}: {error}; correct it") from error
    return Catalogue(document.target, document.drafter, document.measured)
