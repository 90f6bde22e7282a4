"""What the window knows about models, and the rows of its list that follow from it. No Qt."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from app.protocol.model_documents import (
    CatalogueEntries,
    CatalogueEntry,
    InstalledModel,
    InstalledModels,
    MachineMemory,
    MachineOverview,
    MeasuredSpeedup,
    MemoryFit,
    PairVerdicts,
    TargetVerdicts,
)
from app.window.models.downloads import Download
from app.window.models.model_text import FITS, KINDS, automatic
from models.catalogue.search import fit_within, needed_bytes

BUILTIN, LOOKUP = "builtin", "lookup"
BUILTIN_NAME = "SmolLM2-135M-Instruct"
MACHINE = "this Mac" if sys.platform == "darwin" else "this computer"
SECTIONS = ("Downloading", f"On {MACHINE}", f"Recommended for {MACHINE}", f"Also fit {MACHINE}", "More models")
DOWNLOADING, HERE, RECOMMENDED, FITTING, MORE = SECTIONS
BUILTIN_MODEL = InstalledModel(name=BUILTIN, path="", origin="builtin", kind="model", size_bytes=0, total_bytes=0)
_SEPARATORS = re.compile(r"[\s/_-]+")


@dataclass(frozen=True)
class ModelRow:
    """A model in the list. key: its name on this computer, or its repository. fit: good, tight or no; "" if unknown.

    drafter: the title of its best drafter that can be loaded, and best_drafter its repository if it is of the
    catalogue. measured: speed-ups of that pair. missing_drafter: that repository if it is not on this computer, of
    `missing_bytes`.
    """

    key: str
    title: str
    section: str
    entry: CatalogueEntry | None = None
    here: InstalledModel | None = None
    download: Download | None = None
    size_bytes: int | None = None
    fit: str = ""
    drafter: str = ""
    best_drafter: str = ""
    missing_drafter: str = ""
    missing_bytes: int | None = None
    measured: tuple[MeasuredSpeedup, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether it is on this computer, complete, and can be a target."""
        return self.here is not None and self.here.complete and self.here.kind == "model"

    @property
    def is_target(self) -> bool:
        """Whether the catalogue lists it as a target."""
        return self.entry is not None and self.entry.kind == "target"

    def matches(self, words: list[str]) -> bool:
        """Returns whether every word begins a word of its names."""
        entry = self.entry
        names = [self.key, self.title, *((entry.family, entry.kind, entry.licence) if entry else ())]
        own = _SEPARATORS.split(" ".join(names).casefold())
        return all(any(part.startswith(word) for part in own) for word in words if word)


@dataclass
class KnownModels:
    """Everything that is known. catalogue: by repository. verdicts, fits, fit_failures: by the name of a target.
    exact_limit_bytes: how much memory a model may take, once that was asked of the system."""

    overview: MachineOverview | None = None
    catalogue: dict[str, CatalogueEntry] = field(default_factory=dict)
    installed: tuple[InstalledModel, ...] = ()
    verdicts: dict[str, TargetVerdicts] = field(default_factory=dict)
    fits: dict[str, MemoryFit] = field(default_factory=dict)
    fit_failures: dict[str, str] = field(default_factory=dict)
    exact_limit_bytes: int | None = None

    def receive(self, document: MachineOverview | CatalogueEntries | InstalledModels | PairVerdicts) -> None:
        """Takes over what a command found out."""
        match document:
            case MachineOverview():
                self.overview = document
            case CatalogueEntries():
                self.catalogue = {entry.repository: entry for entry in document.entries}
            case PairVerdicts():
                self.verdicts = {verdicts.target: verdicts for verdicts in document.targets}
            case InstalledModels():
                self.installed = document.models
                self.fits.clear()  # they include the automatic drafter, which may be another one now
                self.fit_failures.clear()

    def receive_fit(self, name: str, fit: MemoryFit) -> None:
        """Takes over how a target fits into memory."""
        self.fits[name] = fit
        self.exact_limit_bytes = fit.most_bytes or self.exact_limit_bytes

    @property
    def limit_bytes(self) -> int | None:
        """How much memory a model may take; None if unknown."""
        return self.exact_limit_bytes or (self.machine.for_models_bytes if self.machine else None)

    @property
    def machine(self) -> MachineMemory | None:
        """The memory of this computer."""
        return self.overview.machine if self.overview else None

    def is_here(self, repository: str) -> bool:
        """Returns whether it is on this computer, complete."""
        return any(one.name == repository and one.complete for one in self.installed)

    def rows(self, downloads: Mapping[str, Download], search: str = "", only_fitting: bool = True) -> list[ModelRow]:
        """Returns the rows that match the search, in the order of SECTIONS.

        only_fitting: leaves out models that are not on this computer and do not fit in its memory.
        """
        words = _SEPARATORS.split(search.casefold().strip())
        rows = [row for row in self._all_rows(downloads, bool(search.strip())) if row.matches(words)]
        return [row for row in rows if row.section != MORE or row.fit != "no" or not only_fitting]

    def drafters_of(self, entry: CatalogueEntry) -> list[CatalogueEntry]:
        """Returns the drafters that the catalogue knows for a target, the best first."""
        return [self.catalogue[name] for name in entry.drafters if name in self.catalogue]

    def measured(self, target: str, drafter: str) -> tuple[MeasuredSpeedup, ...]:
        """Returns the speed-ups that were measured of this pair."""
        entry = self.catalogue.get(target)
        return tuple(one for one in entry.measured if one.drafter == drafter) if entry else ()

    def alternative(self, family: str) -> CatalogueEntry | None:
        """Returns a target that fits, to suggest instead of one that is too large: of the same family if there is one,
        else the largest of any."""
        fitting = self._recommended
        return next((one for one in fitting if one.family == family), fitting[0] if fitting else None)

    def title(self, name: str) -> str:
        """Returns the title of a model."""
        if name in self.catalogue:
            return self.catalogue[name].name
        if name == BUILTIN:
            return BUILTIN_NAME
        repository, at, commit = name.partition("@")
        return f"{repository.rpartition('/')[2]}{f' @ {commit[:8]}' if at else ''}"

    # --- rows ------------------------------------------------------------------------------------

    @property
    def _recommended(self) -> list[CatalogueEntry]:
        targets = self.overview.targets if self.overview else ()
        return [self.catalogue[one.target] for one in targets if one.target in self.catalogue]

    def _all_rows(self, downloads: Mapping[str, Download], searched: bool) -> Iterator[ModelRow]:
        """searched: whether drafters are listed too; else each is offered with its targets only."""
        partial = [one for one in self.installed if not one.complete and one.origin == "hub"]
        paused = {_repository(one): _paused(one) for one in partial if _repository(one) not in downloads}
        running = {**downloads, **paused}
        here = [one for one in self.installed if one not in partial and one.name not in running]
        builtin = next((one for one in here if one.name == BUILTIN), BUILTIN_MODEL)
        here = [builtin, *(one for one in here if one.name != BUILTIN)]
        yield from (self._download_row(repository, download) for repository, download in running.items())
        yield from (self._installed_row(one) for one in here)
        seen = {*running, *(one.name for one in here)}
        rows = [self._catalogue_row(entry, FITTING) for entry in self._recommended]
        best = next((row for row in rows if _is_worth_recommending(row)), rows[0] if rows else None)
        if best is not None and best.key not in seen:
            yield replace(best, section=RECOMMENDED)
        yield from (row for row in rows if row is not best and row.key not in seen)
        seen |= {entry.repository for entry in self._recommended}
        for entry in self.catalogue.values():
            if entry.repository not in seen and (entry.kind == "target" or searched):
                yield self._catalogue_row(entry, MORE)

    def _download_row(self, repository: str, download: Download) -> ModelRow:
        entry = self.catalogue.get(repository)
        size_bytes = download.total_bytes or (entry.size_bytes if entry else None) or None
        fit = self._fit([entry]) if entry is not None and entry.kind == "target" else ""
        return ModelRow(repository, self.title(repository), DOWNLOADING, entry, None, download, size_bytes, fit)

    def _installed_row(self, here: InstalledModel) -> ModelRow:
        title = self.title(here.name)
        if here.origin == "builtin":
            title = PurePath(here.path).name.partition(".")[0] or BUILTIN_NAME
        verdicts = self.verdicts.get(here.name)
        drafter = automatic(verdicts.auto) if verdicts else ""
        found = next((one.name for one in self.installed if automatic(one.name) == drafter), "")
        return ModelRow(
            here.name if here.origin != "lm-studio" else f"{here.name} in LM Studio",  # it may be in both places
            title,
            HERE,
            self.catalogue.get(here.name),
            here,
            size_bytes=here.size_bytes or None,
            fit=self._installed_fit(here),
            drafter=self.title(found) if found else KINDS.get(drafter, drafter),
            measured=self.measured(here.name, found) if found else (),
        )

    def _installed_fit(self, here: InstalledModel) -> str:
        if here.kind != "model" or not here.complete:
            return ""
        if here.name in self.fits:
            return FITS[self.fits[here.name].level]
        entry = self.catalogue.get(here.name)
        if entry is None and (self.machine is None or self.machine.in_float32):
            return ""  # nobody knows yet how many parameters are in its bytes
        return self._fit([entry or here])

    def _catalogue_row(self, entry: CatalogueEntry, section: str) -> ModelRow:
        if entry.kind != "target":
            return ModelRow(entry.repository, entry.name, section, entry, size_bytes=entry.size_bytes)
        known = [one for one in self.drafters_of(entry) if not one.trouble]
        best = next((one for one in known if self.is_here(one.repository)), known[0] if known else None)
        return ModelRow(
            entry.repository,
            entry.name,
            section,
            entry,
            size_bytes=entry.size_bytes,
            fit=self._fit([entry, best] if best else [entry]),
            drafter=best.name if best else LOOKUP,
            best_drafter=best.repository if best else "",
            missing_drafter=best.repository if best and not self.is_here(best.repository) else "",
            missing_bytes=best.size_bytes if best else None,
            measured=self.measured(entry.repository, best.repository) if best else (),
        )

    def _fit(self, models: Sequence[CatalogueEntry | InstalledModel]) -> str:
        """Returns how a target, and its drafter, fit this computer; "" while that is not known."""
        if not self.machine or not self.limit_bytes or not models[0].size_bytes:
            return ""
        return fit_within(needed_bytes(models, self.machine.in_float32), self.limit_bytes)


def _is_worth_recommending(row: ModelRow) -> bool:
    """Whether a target fits with a drafter, and nobody measured the two to be slower than plain decoding."""
    return row.fit == "good" and bool(row.best_drafter) and all(one.speedup >= 1 for one in row.measured)


def _repository(model: InstalledModel) -> str:
    return model.name.partition("@")[0]


def _paused(partial: InstalledModel) -> Download:
    """Returns what an earlier run downloaded as a download that is paused."""
    return Download(_repository(partial), "paused", done_bytes=partial.size_bytes, total_bytes=partial.total_bytes)
