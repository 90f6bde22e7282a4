"""The JSON documents of those `redline models ... --json` commands that the window runs.

Fields that are unknown to the reader are ignored, so that an older window reads what a newer command prints.
"""

import msgspec

from app.protocol.messages import Struct


class InstalledModel(Struct, frozen=True, kw_only=True):
    """A model on this machine: `models.local.inventory.Installed` says what the fields mean. reference: what its
    architecture was compared with, in one line; "" for what is not a model."""

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
    reference: str = ""

    @property
    def parameters_b(self) -> None:
        """Its number of parameters in 10^9, which its files do not say."""
        return None


class InstalledModels(Struct, frozen=True, kw_only=True):
    """`models list --json`."""

    models: tuple[InstalledModel, ...]


class DrafterVerdict(Struct, frozen=True, kw_only=True):
    """Whether a drafter works with a target, both on this machine, and why or why not."""

    drafter: str
    path: str
    size_bytes: int = 0
    kind: str | None
    fits: bool
    why: str
    notes: tuple[str, ...] = ()


class TargetVerdicts(Struct, frozen=True, kw_only=True):
    """All drafters on this machine, judged for one target. auto: what the automatic choice takes, as --drafter takes
    it. trouble: what is wrong with the target itself."""

    target: str
    path: str
    pairs: tuple[DrafterVerdict, ...] = ()
    auto: str | None = None
    auto_why: str = ""
    trouble: str | None = None


class PairVerdicts(Struct, frozen=True, kw_only=True):
    """`models pairs --json`."""

    targets: tuple[TargetVerdicts, ...]


class MemoryAtContext(Struct, frozen=True, kw_only=True):
    """The memory that a pair needs at one context, in tokens. level: as of MemoryFit."""

    context: int
    needed_bytes: int
    level: str


class MemoryFit(Struct, frozen=True, kw_only=True):
    """`models fits NAME --json`. level: good, tight or refused, at `context` tokens; wanted: tokens that the model
    declares or that were requested. most_bytes: what a model may take here, None where that is unknown."""

    target: str
    drafter: str
    context: int
    wanted: int
    level: str
    reason: str
    remedies: tuple[str, ...] = ()
    needed_bytes: int = 0
    most_bytes: int | None = None
    weights_bytes: int = 0
    cache_bytes: int = 0
    contexts: tuple[MemoryAtContext, ...] = ()


class Removal(Struct, frozen=True, kw_only=True):
    """`models remove NAME --json`: what would be deleted, or was. losers: other programs that lose it; keepers: those
    for which files stay. freed_bytes: None for a plan that was not carried out."""

    models: tuple[InstalledModel, ...] = ()
    frees_bytes: int
    stays_bytes: int
    note: str = ""
    losers: tuple[str, ...] = ()
    keepers: tuple[str, ...] = ()
    removed: bool = False
    freed_bytes: int | None = None


def document_json(document: object) -> str:
    """Returns a document as a command prints it."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
