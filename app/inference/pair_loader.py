"""From options to a target and its drafters: the one place that puts them together."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import mlx.core as mx

from app.inference import cluster, digests
from app.inference.memory_check import check_memory, context_note
from app.inference.options import AUTO, Options
from app.inference.pair_resolution import NONE, drafter_folder, note_used, parts_of, resolve_auto, target_folder
from engine.drafters import Draft, DraftContext, Drafter
from engine.drafters.drafter_group import DrafterGroup
from engine.drafters.prompt_lookup import PromptLookup
from engine.errors import ModelError, PairError, UsageError
from engine.policy import Policy
from engine.policy.fixed import FixedLength
from engine.session import Session
from engine.target.cached_model import CachedModel
from models.drafters import LOOKUP, LOOKUP_LABEL, kind_of
from models.drafters.drafter_kind import LONGEST_CHAIN, LoadedDrafter, join_notes
from models.drafters.head_files import tree_drafting
from models.drafters.variant_trial import choose_variant
from models.loader import Loaded, load, not_loading
from models.model_folder import check_folder
from models.paths import name_of


class MonitoredDrafter(DrafterGroup):
    """Another drafter, or each of a group: what it raises is known to be its own. timed: whether proposals are awaited
    and timed, at one more synchronisation a round. failed: whether it has raised something. busy: whether a draft of it
    is in the round on the device; MLX is lazy, so an error of the drafter may come up only when that is waited for."""

    def __init__(self, drafter: Drafter) -> None:
        self.timed = self.failed = self.busy = False
        members = drafter.members if isinstance(drafter, DrafterGroup) else (drafter,)
        super().__init__([_Member(self, member) for member in members])

    def rewind(self, length: int, repeats: bool = False) -> None:
        self.busy = False
        super().rewind(length, repeats)


class _Member(Drafter):
    """One drafter of a monitored group, of which every method notes what it raises."""

    def __init__(self, group: MonitoredDrafter, drafter: Drafter) -> None:
        self.name, self.needs, self.traits = drafter.name, drafter.needs, drafter.traits
        self.snapshot_key = drafter.snapshot_key
        self._group, self._drafter = group, drafter
        for name in ("sync", "draft_class", "rewind", "reusable", "snapshot", "restore"):
            setattr(self, name, partial(self._call, name))

    def _call(self, name: str, *arguments: Any) -> Any:
        with self._blamed():
            return getattr(self._drafter, name)(*arguments)

    @contextmanager
    def _blamed(self) -> Iterator[None]:
        """Notes that the drafter has failed when something is raised inside."""
        try:
            yield
        except Exception:  # broad: noted and raised on
            self._group.failed = True
            raise

    def propose(self, context: DraftContext, length: int) -> Draft:
        began_s = time.monotonic()
        with self._blamed():
            draft = self._drafter.propose(context, length)
            self._group.busy = draft.tokens.size > 0
            if not self._group.timed:
                return draft
            mx.eval(draft.tokens, [] if draft.tree is None else draft.tree.parents)
        return replace(draft, times_s=(began_s, time.monotonic()))


@dataclass(frozen=True)
class NamedDrafter:
    """A drafter that is ready to draft.

    spec: "none", "lookup", the name of a shipped one or a folder; never "auto". note: what the user should know, such
    as what auto took and why, or "". tree_tau, usual, step_price: as in `LoadedDrafter`. several: the drafters of a
    group. folder: its files, None for one without.
    """

    spec: str
    drafter: Drafter | None
    note: str = ""
    tree_tau: Mapping[int, float] = field(default_factory=dict)
    usual: tuple[float, ...] = ()
    step_price: float = 0.0
    several: tuple[NamedDrafter, ...] = ()
    folder: Path | None = None

    def for_another_reply(self, target: CachedModel) -> NamedDrafter:
        """Returns one of the same weights, as `engine.drafters.Drafter.for_another_reply` does."""
        if self.drafter is None:
            return self
        if self.several:
            return _grouped(self, tuple(part.for_another_reply(target) for part in self.several))
        return replace(self, drafter=self.drafter.for_another_reply(target))

    @cached_property
    def monitored(self) -> MonitoredDrafter | None:
        """The drafter as `app.inference.reply_runner` uses it, None for none."""
        return MonitoredDrafter(self.drafter) if self.drafter is not None else None

    @property
    def parts(self) -> tuple[NamedDrafter, ...]:
        """The drafters of a group, else the drafter itself."""
        return self.several or (self,)

    @cached_property
    def identity(self) -> list[list[str]]:
        """What tells it from others: of each part its name and the digest of its files, "" for one without."""
        return [[part.spec, digests.of_folder(part.folder) if part.folder is not None else ""] for part in self.parts]

    @property
    def branches(self) -> bool:
        """Whether it, or one of a group, drafts trees."""
        return any(part.drafter is not None and part.drafter.traits.branches for part in self.parts)

    @property
    def longest(self) -> int:
        """The most tokens that a chain of it can have."""
        longest = self.drafter.traits.longest if self.drafter is not None else None
        return min(longest or LONGEST_CHAIN, LONGEST_CHAIN)

    @property
    def name(self) -> str:
        """The name to show: the last part of a path; of a snapshot in the Hugging Face cache, its repository."""
        return name_of(Path(self.spec)) if self.spec else ""


def open_target(options: Options) -> Loaded:
    """Returns the target, loaded if it fits with its drafters. Raises ModelError, or UsageError for an empty name or a
    context that it is not made for."""
    folder = target_folder(options)
    others = cluster.connect(options.hosts)
    checked = check_folder(folder)
    check_memory(checked, options)
    if others is None:
        loaded = load(folder, options.kv_bits)
    else:
        with others.loading(options):
            loaded = load(folder, options.kv_bits, others.group)
        others.lead(loaded.model, digests.of_model(checked))
    note_used(loaded.folder.path, options.cache_root)
    return loaded


def open_session(target: Loaded, options: Options) -> tuple[Session, str, int]:
    """Returns a session with a context that fits, what the user should know of that, or "", and the bytes that the pair
    takes at the full context. Raises what `check_memory` raises."""
    verdict = check_memory(target.folder, options)
    note, context = context_note(target.folder, options, verdict), verdict.context
    if (others := cluster.connect(options.hosts)) is not None:
        context = min(context, others.context)
        fits = f"fits: {others.memory_text(verdict.needed)}, for a context of {context:,} tokens"
        note = join_notes(note, fits)
    session = Session(target.model, target.tokenizer, context, target.tokenizer.matchers)
    return session, join_notes(target.tokenizer.note, note), verdict.needed


def open_drafter(spec: str, target: Loaded, trees: bool = False, cache_root: Path | None = None) -> NamedDrafter:
    """Returns the drafter `spec` for `target`. trees: whether it drafts trees, if it can and the target can verify
    them. A head that can be read in several ways is tried once. Both empty the target's cache. cache_root: as in
    `Options`.

    Raises UsageError for no such drafter, ModelError, or PairError if they do not fit; for auto none of them.
    """
    if spec != AUTO:
        return _open(spec, target, trees, "", cache_root)
    taken, note = resolve_auto(target.folder, cache_root)
    try:
        return _open(taken, target, trees, note, cache_root)
    except (ModelError, PairError) as error:  # the user did not name it, so the reply goes on without it
        note = f"auto fell back to {LOOKUP_LABEL} because its first choice does not load: {error}"
        return _open(LOOKUP, target, trees, note, cache_root)


def _open(spec: str, target: Loaded, trees: bool, note: str, cache_root: Path | None) -> NamedDrafter:
    if len(parts := parts_of(spec)) > 1:
        return _group(spec, [open_drafter(part, target, trees, cache_root) for part in parts], note)
    if spec == NONE:
        return NamedDrafter(spec, None)
    if spec == LOOKUP:
        branches, trees_note = tree_drafting(target, trees)
        folder, found = None, LoadedDrafter(PromptLookup(trees=branches), note=trees_note)
    else:
        folder = drafter_folder(spec, cache_root)
        note_used(folder, cache_root)
        with not_loading(folder):
            kind = kind_of(folder, target.folder.path)
            found = choose_variant(kind.files.load(folder, target, trees), folder, target, cache_root)
    return NamedDrafter(
        spec,
        found.drafter,
        join_notes(note, found.note),
        tree_tau=found.tree_tau,
        usual=found.usual_acceptance,
        step_price=found.step_price,
        folder=folder,
    )


def _group(spec: str, parts: list[NamedDrafter], note: str) -> NamedDrafter:
    """Returns a group of drafters, prompt lookup first: it knows for free whether it has anything to propose."""
    parts.sort(key=lambda part: part.spec != LOOKUP)
    drafters = [part.drafter for part in parts if part.drafter is not None]
    differ = len({part.spec for part in parts}) == len(drafters) == len(parts)
    if not differ or any(part.several for part in parts):
        raise UsageError(f"drafter {spec!r}: name different drafters, neither none nor auto among them")
    if len([drafter for drafter in drafters if drafter.needs.taps]) > 1:
        raise UsageError(f"drafter {spec!r}: only one of them can read the target's hidden states")
    notes = join_notes(note, *(part.note for part in parts))
    return _grouped(NamedDrafter(spec, None, notes), tuple(parts))


def _grouped(group: NamedDrafter, parts: tuple[NamedDrafter, ...]) -> NamedDrafter:
    """Returns `group` with these drafters."""
    drafter = DrafterGroup([part.drafter for part in parts if part.drafter is not None])
    return replace(group, drafter=drafter, several=parts)


def wanted(drafter: Drafter | None, policy: Policy) -> Drafter | None:
    """Returns the drafter, or None if the policy never drafts: then it need not read the prompt either."""
    return None if isinstance(policy, FixedLength) and policy.length == 0 else drafter
