"""A loaded pair as replies use it, one after the other."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import mlx.core as mx

from app.host.monitored_drafter import MonitoredDrafter
from app.inference import digests
from app.inference import pair_loader as parts
from app.inference.calibration import Calibration
from app.inference.conversation import target_name
from app.inference.memory_fit import fit
from app.inference.options import Options
from app.inference.pair_loader import NamedDrafter
from app.inference.pair_resolution import target_folder
from app.protocol import Loaded, Message, Pair, Speculation
from engine.errors import RedlineError
from engine.policy.cost_correction import CostCorrection
from engine.policy.costs import Costs
from engine.policy.fixed import Policy
from engine.session import Session
from models.loader import Loaded as Model
from models.model_folder import check_folder

NO_DRAFTER = NamedDrafter("none", None)


@dataclass
class LoadedPair:
    """drafter: none where `pair` asks for none, or for one that does not fit, which `speculation` tells; `watched` is
    the same for replies to use. note: what the user should know of the context, or "". lost: why a drafter that there
    was is gone, or "". begins: tokens of context behind which the next reply begins, which costs depend on. digest: of
    the target's weights."""

    pair: Pair
    target: Model
    session: Session
    note: str = ""
    drafter: NamedDrafter = NO_DRAFTER
    watched: MonitoredDrafter | None = None
    speculation: Speculation = "off"
    said: str = ""
    lost: str = ""
    begins: int = 0
    digest: str = ""
    _drifts: dict[tuple[tuple[int, ...], bool, bool], CostCorrection] = field(default_factory=dict)
    _pieces: dict[int, str] = field(default_factory=dict)
    _calibration: Calibration = field(init=False)

    def __post_init__(self) -> None:
        self._use(self.drafter)

    def has_drafter(self, pair: Pair) -> bool:
        """Whether the drafter of `pair` is the one there is. One that did not fit may do so the next time."""
        same = (self.pair.drafter, self.pair.tree) == (pair.drafter, pair.tree)
        return same and self.speculation != "unsupported"

    def take_drafter(self, pair: Pair) -> None:
        """Go over to the drafter of `pair`; the old one goes first. What does not fit leaves none, and `said`."""
        self._use(NO_DRAFTER)
        self._drifts, self.lost = {}, ""
        self.session.forget()  # trying whether the target can do what the drafter needs uses its cache
        self.target.model.record()
        release()
        try:
            drafter = parts.open_drafter(pair.drafter, self.target, pair.tree)
        except Exception as error:  # noqa: BLE001  broad: whatever is wrong with a drafter, the target can answer alone
            self._give_up(pair.drafter, error)
        else:
            self._use(drafter)
            self.said = drafter.said
            self.speculation = "off" if drafter.drafter is None else "on"

    def take(self, pair: Pair) -> None:
        """Be this pair, whose target and drafter are there."""
        if pair.context != self.pair.context:
            self.session, self.note = parts.open_session(self.target, options_of(pair))
            self._calibration = Calibration(self.target, self.drafter, self.session.context)
        self.pair = pair

    @property
    def costs(self) -> Costs | None:
        """Of passes where the next reply begins, once they are measured."""
        return self._calibration.costs(self.begins) if self.is_measured else None

    @property
    def is_measured(self) -> bool:
        """Whether what passes cost here is known, and caches may stay as they are."""
        return self._calibration.knows(self.begins)

    def measure(self, between: Callable[[], None]) -> None:
        """Find out what passes cost here. between: called between passes; may raise to break off. Raises whatever a
        drafter raises."""
        self.session.forget()
        self._calibration.costs(self.begins, between)

    def policy(self, options: Options, timed: bool) -> Policy:
        """A policy for one reply. timed: whether proposals are awaited, which takes time."""
        kind = (self._calibration.milestones(self.begins), options.exact, timed)
        drift = self._drifts.setdefault(kind, CostCorrection()) if options.by_the_clock else None
        return parts.make_policy(self.drafter, options.draft_length, self.costs, options.exact, drift)

    def prompt_of(self, messages: Sequence[Message]) -> list[int]:
        """Ids of a prompt. Raises ModelError where the model's template refuses it."""
        return self.target.tokenizer.chat(turns(messages))

    def count(self, messages: Sequence[Message]) -> int:
        """Tokens of a prompt. Raises ModelError likewise."""
        return len(self.prompt_of(messages))

    def piece(self, token: int) -> str:
        """Text of one token alone."""
        if token not in self._pieces:
            self._pieces[token] = self.target.tokenizer.piece(token)
        return self._pieces[token]

    def reset(self) -> None:
        """Start from nothing, because a pass broke off: nobody knows what is in the caches. A drafter that cannot be
        had again is gone, and `said` is why."""
        parts.reset_target(self.target, self.session)
        release()
        if self.watched is None:
            return
        try:
            drafter = parts.renew(self.drafter, self.target, self.pair.tree)
        except Exception as error:  # noqa: BLE001  broad: as above
            self._give_up(self.drafter.spec, error)
            self.lost = f"the drafter is gone, load the pair again ({self.said})"
        else:
            self._use(drafter)

    def loaded(self, number: int) -> Loaded:
        """What to tell the window."""
        return Loaded(
            id=number,
            pair=self.pair,
            target=target_name(options_of(self.pair)),
            drafter=self.drafter.name,
            speculation=self.speculation,
            note="; ".join(said for said in (self.said, self.note) if said),
            drafts_trees=self.drafter.branches,
            context=self.session.context,
        )

    def _use(self, drafter: NamedDrafter) -> None:
        self.drafter = drafter
        self._calibration = Calibration(self.target, drafter, self.session.context)
        self.watched = MonitoredDrafter(drafter.drafter) if drafter.drafter is not None else None

    def _give_up(self, spec: str, error: Exception) -> None:
        self._use(replace(NO_DRAFTER, spec=spec))
        self.speculation, self.said = "unsupported", reason_of(error)


def open_target(pair: Pair) -> LoadedPair:
    """The target of a pair, without its drafter yet. Raises UsageError, ModelError."""
    options = options_of(pair)
    target = parts.open_target(options)
    session, note = parts.open_session(target, options)
    return LoadedPair(pair, target, session, note, digest=digests.of_model(target.folder))


def check(pair: Pair, opened: LoadedPair | None) -> None:
    """Look at a pair as far as one can without loading it. Raises UsageError, ModelError."""
    options = options_of(pair)
    if opened is not None and opened.pair.target == pair.target:
        fit(opened.target.folder, options)
    else:
        fit(check_folder(target_folder(options)), options)


def turns(messages: Sequence[Message]) -> list[dict[str, str]]:
    """Messages as a session takes them."""
    return [{"role": message.role, "content": message.content} for message in messages]


def options_of(pair: Pair) -> Options:
    """The options that open a pair. Raises UsageError for nonsense."""
    return Options(target=pair.target, drafters=(pair.drafter,), tree=pair.tree, context=pair.context)


def release() -> None:
    """Give memory that nothing holds any more back to the system."""
    gc.collect()
    mx.clear_cache()


def reason_of(error: BaseException) -> str:
    """Why, in one line."""
    said = " ".join(str(error).split())[:400].encode(errors="replace").decode()
    return said if isinstance(error, RedlineError) else f"{type(error).__name__}: {said}"
