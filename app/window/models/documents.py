"""What `redline models ... --json` prints, as far as the page needs it. Fields that are new to it are passed over."""

from __future__ import annotations

from app.protocol import Struct


class Measured(Struct, frozen=True, kw_only=True):
    """A speed-up over plain decoding that somebody measured, on what, and where that is written."""

    target: str
    drafter: str
    speedup: float
    on: str
    source: str


class Machine(Struct, frozen=True, kw_only=True):
    """This one. for_models_bytes: what a model may take of its memory."""

    processor: str
    memory_bytes: int
    for_models_bytes: int


class Recommended(Struct, frozen=True, kw_only=True):
    """A target of the overview. room: good or tight, with its drafter. drafter: a repository, or lookup."""

    target: str
    room: str
    drafter: str


class Overview(Struct, frozen=True, kw_only=True):
    """`models --json`."""

    machine: Machine
    targets: tuple[Recommended, ...] = ()


class Entry(Struct, frozen=True, kw_only=True):
    """Of the catalogue. kind: target, or what kind of drafter. trouble: why Redline cannot load it. smallest_mac_gb: of
    the smallest Mac that it fits; None where not even the largest does."""

    repository: str
    name: str
    kind: str
    licence: str
    family: str = ""
    parameters_b: float | None = None
    bits: float | None = None
    size_bytes: int | None = None
    size: str | None = None
    drafters: tuple[str, ...] = ()
    trouble: str | None = None
    smallest_mac_gb: int | None = None
    measured: tuple[Measured, ...] = ()


class Entries(Struct, frozen=True, kw_only=True):
    """`models search --json`."""

    entries: tuple[Entry, ...]


class Here(Struct, frozen=True, kw_only=True):
    """A model on this machine: `models.installed.inventory.Installed` says what the fields mean."""

    name: str
    path: str
    origin: str
    kind: str
    size_bytes: int
    total_bytes: int
    last_used_s: float | None = None
    complete: bool = True
    trouble: str = ""
    revision: str = ""
    shared_with: tuple[str, ...] = ()


class Inventory(Struct, frozen=True, kw_only=True):
    """`models list --json`."""

    models: tuple[Here, ...]


class Paired(Struct, frozen=True, kw_only=True):
    """Whether a drafter that is here may serve a target that is here, and why or why not."""

    drafter: str
    path: str
    kind: str | None
    fits: bool
    why: str
    notes: tuple[str, ...] = ()


class Judged(Struct, frozen=True, kw_only=True):
    """All drafters that are here, for one target. auto: what the automatic choice would be, as --drafter takes it."""

    target: str
    path: str
    pairs: tuple[Paired, ...] = ()
    auto: str | None = None
    auto_why: str = ""
    trouble: str | None = None


class Pairs(Struct, frozen=True, kw_only=True):
    """`models pairs --json`."""

    targets: tuple[Judged, ...]


class AtContext(Struct, frozen=True, kw_only=True):
    """What the pair needs at one context, tokens."""

    context: int
    needed_bytes: int
    level: str


class Fits(Struct, frozen=True, kw_only=True):
    """`models fits NAME --json`. level: good, tight or refused, at `context` tokens. most_bytes: what a model may take
    here; None where that is not known."""

    target: str
    drafter: str
    context: int
    wanted: int
    level: str
    said: str
    remedies: tuple[str, ...] = ()
    needed_bytes: int = 0
    most_bytes: int | None = None
    weights_bytes: int = 0
    cache_bytes: int = 0
    contexts: tuple[AtContext, ...] = ()


class Removal(Struct, frozen=True, kw_only=True):
    """`models remove NAME --json`: what would go, or went. losers: who else loses it; keepers: for whom files stay."""

    frees_bytes: int
    stays_bytes: int
    note: str = ""
    losers: tuple[str, ...] = ()
    keepers: tuple[str, ...] = ()
    removed: bool = False
