"""From the results of the commands to the rows of the page, in their sections. No Qt."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from app.protocol.model_documents import (
    CatalogueEntry,
    InstalledModel,
    MachineMemory,
    MachineOverview,
    MeasuredSpeedup,
    MemoryFit,
    TargetVerdicts,
)
from app.window.models.downloads import Download
from app.window.models.model_text import KINDS, ROOMS, automatic
from models.catalogue.search import mac_fit

BUILTIN, LOOKUP = "builtin", "lookup"
BUILTIN_NAME = "SmolLM2-135M-Instruct"
MACHINE = "this Mac" if sys.platform == "darwin" else "this computer"
SECTIONS = ("Downloading", f"On {MACHINE}", f"Recommended for {MACHINE}", "More models")
DOWNLOADING, HERE, RECOMMENDED, MORE = SECTIONS
COMES_ALONG = InstalledModel(name=BUILTIN, path="", origin="builtin", kind="model", size_bytes=0, total_bytes=0)
_BETWEEN = re.compile(r"[\s/_-]+")


@dataclass(frozen=True)
class Row:
    """A model. key: what it is called here, or the repository. room: "" where that makes no sense or is not known.
    drafter: the best that loads, for people; measured: of the pair. best: its repository, where it is not here."""

    key: str
    title: str
    section: str
    entry: CatalogueEntry | None = None
    here: InstalledModel | None = None
    download: Download | None = None
    size_bytes: int | None = None
    room: str = ""
    drafter: str = ""
    best: str = ""
    measured: tuple[MeasuredSpeedup, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether it is here, whole, and can be a target."""
        return self.here is not None and self.here.complete and self.here.kind == "model"


@dataclass
class Shelf:
    """Everything that is known. judged, fits: by the target's name; unfit: why that cannot be judged. known: the
    catalogue by repository."""

    overview: MachineOverview | None = None
    known: dict[str, CatalogueEntry] = field(default_factory=dict)
    here: tuple[InstalledModel, ...] = ()
    judged: dict[str, TargetVerdicts] = field(default_factory=dict)
    fits: dict[str, MemoryFit] = field(default_factory=dict)
    unfit: dict[str, str] = field(default_factory=dict)

    @property
    def machine(self) -> MachineMemory | None:
        return self.overview.machine if self.overview else None

    @property
    def whole(self) -> dict[str, InstalledModel]:
        """What is here and can be used or imported, the built-in always and first: it needs no download."""
        found = [one for one in self.here if one.complete or one.origin != "hub"]
        builtin = next((one for one in found if one.name == BUILTIN), COMES_ALONG)
        rest = [one for one in found if one.name != BUILTIN]
        return {_key(one): one for one in (builtin, *rest)}

    @property
    def partial(self) -> dict[str, InstalledModel]:
        """Downloads that were left off."""
        return {one.name.partition("@")[0]: one for one in self.here if not one.complete and one.origin == "hub"}

    def is_here(self, repository: str) -> bool:
        """Whether it can be used as it is."""
        return any(one.name == repository and one.complete for one in self.here)

    def rows(self, downloads: Mapping[str, Download], words: str = "", only_fitting: bool = True) -> list[Row]:
        """In the order of SECTIONS. words: that every row shown begins with, in any order, within its names.
        only_fitting: of what is not here, only what this machine can run."""
        wanted = _BETWEEN.split(words.casefold().strip())
        rows = [row for row in self._all(downloads, bool(words.strip())) if _has(row, wanted)]
        return [row for row in rows if row.section != MORE or row.room != "no" or not only_fitting]

    def drafters_of(self, entry: CatalogueEntry) -> list[CatalogueEntry]:
        """That are known for it, the best first."""
        return [self.known[name] for name in entry.drafters if name in self.known]

    def measured(self, target: str, drafter: str) -> tuple[MeasuredSpeedup, ...]:
        """Of this pair."""
        entry = self.known.get(target)
        return tuple(one for one in entry.measured if one.drafter == drafter) if entry else ()

    def smaller(self, family: str) -> CatalogueEntry | None:
        """What this machine can run in the place of one that is too large: of its family, else the largest of any."""
        targets = self.overview.targets if self.overview else ()
        fitting = [self.known[one.target] for one in targets if one.target in self.known]
        return next((one for one in fitting if one.family == family), fitting[0] if fitting else None)

    def title(self, name: str) -> str:
        """What people call it."""
        if name in self.known:
            return self.known[name].name
        if name == BUILTIN:
            return BUILTIN_NAME
        repository, at, commit = name.partition("@")
        return f"{repository.rpartition('/')[2]}{f' @ {commit[:8]}' if at else ''}"

    # --- rows ------------------------------------------------------------------------------------

    def _all(self, downloads: Mapping[str, Download], searched: bool) -> Iterator[Row]:
        left_off = {name: _left_off(one) for name, one in self.partial.items() if name not in downloads}
        under_way = {**downloads, **left_off}
        whole = {key: one for key, one in self.whole.items() if one.name not in under_way}
        yield from (self._downloading(repo, download) for repo, download in under_way.items())
        yield from (self._present(key, one) for key, one in whole.items())
        seen = {*under_way, *(one.name for one in whole.values())}
        for recommended in self.overview.targets if self.overview else ():
            if recommended.target not in seen and recommended.target in self.known:
                seen.add(recommended.target)
                yield self._absent(self.known[recommended.target], RECOMMENDED)
        for entry in self.known.values():  # drafters only where they are looked for: they come with their targets
            if entry.repository not in seen and (entry.kind == "target" or searched):
                yield self._absent(entry, MORE)

    def _downloading(self, repo: str, download: Download) -> Row:
        entry, part = self.known.get(repo), self.partial.get(repo)
        size_bytes = download.total_bytes or (part.total_bytes if part else 0) or (entry.size_bytes if entry else 0)
        room = self._room(size_bytes) if size_bytes and entry is not None and entry.kind == "target" else ""
        return Row(repo, self.title(repo), DOWNLOADING, entry, None, download, size_bytes or None, room)

    def _present(self, key: str, here: InstalledModel) -> Row:
        title = self.title(here.name)
        if here.origin == "builtin":
            title = PurePath(here.path).name.partition(".")[0] or BUILTIN_NAME
        entry, judged = self.known.get(here.name), self.judged.get(here.name)
        drafter = automatic(judged.auto) if judged else ""
        found = [one.name for one in self.here if automatic(one.name) == drafter]
        return Row(
            key,
            title,
            HERE,
            entry,
            here,
            size_bytes=here.size_bytes or None,
            room=self._room_here(here),
            drafter=self.title(found[0]) if found else KINDS.get(drafter, drafter),
            measured=self.measured(here.name, found[0]) if found else (),
        )

    def _room_here(self, here: InstalledModel) -> str:
        if here.kind != "model" or not here.complete:
            return ""
        if here.name in self.fits:
            return ROOMS[self.fits[here.name].level]
        return self._room(here.size_bytes) if here.size_bytes else ""

    def _absent(self, entry: CatalogueEntry, section: str) -> Row:
        if entry.kind != "target":
            return Row(entry.repository, entry.name, section, entry, size_bytes=entry.size_bytes)
        known = [one for one in self.drafters_of(entry) if not one.trouble]
        best = next((one for one in known if self.is_here(one.repository)), known[0] if known else None)
        both_bytes = (entry.size_bytes or 0) + ((best.size_bytes or 0) if best else 0)
        return Row(
            entry.repository,
            entry.name,
            section,
            entry,
            size_bytes=entry.size_bytes,
            room=self._room(both_bytes),
            drafter=best.name if best else LOOKUP,
            best=best.repository if best and not self.is_here(best.repository) else "",
            measured=self.measured(entry.repository, best.repository) if best else (),
        )

    def _room(self, weights_bytes: int) -> str:
        return mac_fit(weights_bytes, self.machine.memory_bytes) if self.machine else ""


def _key(here: InstalledModel) -> str:
    """A name may be here twice, in LM Studio's folder too."""
    return here.name if here.origin != "lm-studio" else f"{here.name} in LM Studio"


def _left_off(here: InstalledModel) -> Download:
    """As a download that is paused."""
    repo = here.name.partition("@")[0]
    return Download(repo, "paused", done_bytes=here.size_bytes, total_bytes=here.total_bytes)


def _has(row: Row, words: Sequence[str]) -> bool:
    entry = row.entry
    names = [row.key, row.title, *((entry.family, entry.kind, entry.licence) if entry else ())]
    own = _BETWEEN.split(" ".join(names).casefold())
    return all(any(part.startswith(word) for part in own) for word in words if word)
