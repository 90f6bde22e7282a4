"""What the window knows about models, and the rows of its list that follow from it. No Qt."""

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath

import msgspec

from app.model_words import KINDS
from app.protocol.model_documents import InstalledModel, InstalledModels, MemoryFit, PairVerdicts, TargetVerdicts
from app.window.models.downloads import Download
from models.catalogue.entries import Catalogue, Entry, Measured, Target
from models.catalogue.search import BestPair, MachineMemory, best_pair_of, fit_within, needed_bytes, recommended_pairs

BUILTIN, LOOKUP = "builtin", "lookup"
BUILTIN_NAME = "SmolLM2-135M-Instruct"
MACHINE = "this Mac" if sys.platform == "darwin" else "this computer"
SECTIONS = ("Downloading", f"On {MACHINE}", f"Recommended for {MACHINE}", f"Also fit {MACHINE}", "More models")
DOWNLOADING, HERE, RECOMMENDED, FITTING, MORE = SECTIONS
BADGES = {"good": "Fits", "tight": "Tight", "no": "Too large", "": ""}
ICONS = {"good": "check", "tight": "warning", "no": "unsupported", "": ""}
TONES = {"good": "good", "tight": "warning", "no": "error", "": "text"}
FITS = {"good": "good", "tight": "tight", "refused": "no"}  # from the level of a MemoryFit to the key of a badge
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
    entry: Entry | None = None
    here: InstalledModel | None = None
    download: Download | None = None
    size_bytes: int | None = None
    fit: str = ""
    drafter: str = ""
    best_drafter: str = ""
    missing_drafter: str = ""
    missing_bytes: int | None = None
    measured: tuple[Measured, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether it is on this computer, complete, and can be a target."""
        return self.here is not None and self.here.complete and self.here.kind == "model"

    @property
    def target(self) -> Target | None:
        """Its entry if the catalogue lists it as a target."""
        return self.entry if isinstance(self.entry, Target) else None

    def matches(self, words: list[str]) -> bool:
        """Returns whether every word begins a word of its names."""
        names = [self.key, self.title, self.entry.licence if self.entry else ""]
        if self.target is not None:
            names += [self.target.family, "target"]
        elif self.entry is not None:
            names.append(self.entry.kind)
        own = _SEPARATORS.split(" ".join(names).casefold())
        return all(any(part.startswith(word) for part in own) for word in words if word)


@dataclass
class KnownModels:
    """Everything that is known. machine: this computer. listed: whether it is known what is `installed`. here: the
    names of what is complete. verdicts, fits, fit_failures: by the name of a target."""

    machine: MachineMemory
    catalogue: Catalogue
    listed: bool = False
    installed: tuple[InstalledModel, ...] = ()
    here: frozenset[str] = frozenset()
    verdicts: dict[str, TargetVerdicts] = field(default_factory=dict)
    fits: dict[str, MemoryFit] = field(default_factory=dict)
    fit_failures: dict[str, str] = field(default_factory=dict)

    def receive_list(self, document: InstalledModels) -> None:
        """Takes over which models are on this computer."""
        self.installed, self.listed = document.models, True
        self.here = frozenset(one.name for one in document.models if one.complete)
        self.fits.clear()  # they include the automatic drafter, which may be another one now
        self.fit_failures.clear()

    def receive_pairs(self, document: PairVerdicts) -> None:
        """Takes over which drafters work with which targets."""
        self.verdicts = {verdicts.target: verdicts for verdicts in document.targets}

    def receive_fit(self, name: str, fit: MemoryFit) -> None:
        """Takes over how a target fits into memory, and how much the system lets a model take."""
        self.fits[name] = fit
        if fit.most_bytes:
            self.machine = msgspec.structs.replace(self.machine, for_models_bytes=fit.most_bytes)

    def is_here(self, repository: str) -> bool:
        """Returns whether it is on this computer, complete."""
        return repository in self.here

    def rows(self, downloads: Mapping[str, Download], search: str = "", only_fitting: bool = True) -> list[ModelRow]:
        """Returns the rows that match the search, in the order of SECTIONS.

        only_fitting: leaves out models that are not on this computer and do not fit in its memory.
        """
        words = _SEPARATORS.split(search.casefold().strip())
        rows = [row for row in self._all_rows(downloads, bool(search.strip())) if row.matches(words)]
        return [row for row in rows if row.section != MORE or row.fit != "no" or not only_fitting]

    def alternative(self, family: str) -> Target | None:
        """Returns a target that fits, to suggest instead of one that is too large: of the same family if there is one,
        else the largest of any."""
        fitting = [pair.target for pair in self._recommended]
        return next((one for one in fitting if one.family == family), fitting[0] if fitting else None)

    def title(self, name: str) -> str:
        """Returns the title of a model."""
        if name in self.catalogue.entries:
            return self.catalogue.entries[name].name
        if name == BUILTIN:
            return BUILTIN_NAME
        repository, at, commit = name.partition("@")
        return f"{repository.rpartition('/')[2]}{f' @ {commit[:8]}' if at else ''}"

    # --- rows ------------------------------------------------------------------------------------

    @property
    def _recommended(self) -> list[BestPair]:
        return recommended_pairs(self.catalogue, self.machine, self.here)

    def _all_rows(self, downloads: Mapping[str, Download], searched: bool) -> Iterator[ModelRow]:
        """searched: whether drafters are listed too; else each is offered with its targets only."""
        partial = [one for one in self.installed if not one.complete and one.origin == "hub"]
        paused = {_repository(one): _paused(one) for one in partial if _repository(one) not in downloads}
        running = {**downloads, **paused}
        here = [one for one in self.installed if one.origin != "hub" or (one.complete and one.name not in running)]
        builtin = next((one for one in here if one.name == BUILTIN), BUILTIN_MODEL)
        here = [builtin, *(one for one in here if one.name != BUILTIN)]
        yield from (self._download_row(repository, download) for repository, download in running.items())
        yield from (self._installed_row(one) for one in here)
        seen = {*running, *(one.name for one in here)}
        rows = [self._target_row(pair, FITTING) for pair in self._recommended]
        worth = [row for row in rows if _is_worth_recommending(row)] or rows
        best = worth[0] if worth and self.listed else None  # until then it may be here, or one of its drafters
        if best is not None and best.key not in seen:
            yield replace(best, section=RECOMMENDED)
        yield from (row for row in rows if row is not best and row.key not in seen)
        seen |= {row.key for row in rows}
        for target in self.catalogue.targets:
            if target.repository not in seen:
                yield self._target_row(best_pair_of(target, self.catalogue, self.machine, self.here), MORE)
        for drafter in self.catalogue.drafters if searched else ():
            if drafter.repository not in seen:
                yield ModelRow(drafter.repository, drafter.name, MORE, drafter, size_bytes=drafter.size_bytes)

    def _download_row(self, repository: str, download: Download) -> ModelRow:
        entry = self.catalogue.entries.get(repository)
        size_bytes = download.total_bytes or (entry.size_bytes if entry else None) or None
        fit = self._fit(entry) if isinstance(entry, Target) else ""
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
            self.catalogue.entries.get(here.name),
            here,
            size_bytes=here.size_bytes or None,
            fit=self._installed_fit(here),
            drafter=self.title(found) if found else KINDS.get(drafter, drafter),
            measured=self.catalogue.speedups(here.name, found),
        )

    def _installed_fit(self, here: InstalledModel) -> str:
        if here.kind != "model" or not here.complete:
            return ""
        if here.name in self.fits:
            return FITS[self.fits[here.name].level]
        entry = self.catalogue.entries.get(here.name)
        if entry is None and self.machine.in_float32:
            return ""  # nobody knows yet how many parameters are in its bytes
        return self._fit(entry or here)

    def _target_row(self, pair: BestPair, section: str) -> ModelRow:
        """Returns the row of a target that is not on this computer."""
        target, drafter = pair.target, pair.drafter
        best_drafter = drafter.repository if drafter else ""
        return ModelRow(
            target.repository,
            target.name,
            section,
            target,
            size_bytes=target.size_bytes,
            fit=pair.fit,
            drafter=drafter.name if drafter else LOOKUP,
            best_drafter=best_drafter,
            missing_drafter="" if best_drafter in self.here else best_drafter,
            missing_bytes=drafter.size_bytes if drafter else None,
            measured=pair.measured,
        )

    def _fit(self, model: Entry | InstalledModel) -> str:
        """Returns how a target fits this computer without a drafter; "" where its size is unknown."""
        if not model.size_bytes:
            return ""
        return fit_within(needed_bytes([model], self.machine.in_float32), self.machine.for_models_bytes)


def _is_worth_recommending(row: ModelRow) -> bool:
    """Whether a target fits with a drafter, and nobody measured the two to be slower than plain decoding."""
    return row.fit == "good" and bool(row.best_drafter) and all(one.speedup >= 1 for one in row.measured)


def _repository(model: InstalledModel) -> str:
    return model.name.partition("@")[0]


def _paused(partial: InstalledModel) -> Download:
    """Returns what an earlier run downloaded as a download that is paused."""
    return Download(_repository(partial), "paused", done_bytes=partial.size_bytes, total_bytes=partial.total_bytes)


def automatic(spec: str | None) -> str:
    """Returns the name of the drafter that the automatic choice takes, without the prompt lookup that goes with it."""
    if not spec:
        return ""
    named = [part for part in spec.split("+") if part != "lookup"]
    return " + ".join(map(_short, named)) or "lookup"


def _short(spec: str) -> str:
    """Returns the last part of a name or path; the name of the repository for a snapshot in the Hugging Face cache."""
    parts = spec.rstrip("/").split("/")
    if len(parts) > 2 and parts[-2] == "snapshots" and parts[-3].startswith("models--"):
        return parts[-3].rpartition("--")[2]
    return parts[-1] or spec
