"""A target and a drafter that are loaded, and what is known of the cost of their passes on this machine.

Terminal, host, race and benchmark all decode on one of these: `app.inference.reply_runner` makes a reply that goes on
without a drafter that fails, `measure_reply` (`app.inference.measured_reply`) one that must not.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import mlx.core as mx

from app.inference import pair_loader
from app.inference.calibration import Calibration
from app.inference.monitored_drafter import MonitoredDrafter
from app.inference.options import Options
from app.inference.pair_loader import NamedDrafter
from engine.backend import memory
from engine.errors import RedlineError, UsageError
from engine.policy import Policy
from engine.policy.cost_correction import CostCorrection
from engine.policy.costs import Costs
from engine.session import Session
from models.loader import Loaded

NO_DRAFTER = NamedDrafter("none", None)


@dataclass
class LoadedPair:
    """A target with a session on it, and a drafter or none.

    Several pairs may share a target and its session, one reply at a time. note: what the user should know of the
    context, or "". trees: whether the drafter drafts trees where it can. refusal: why the drafter that was requested
    is not there, or "". lost: why a drafter that drafted before is gone, or "". cache_root: None for the user's cache.
    """

    target: Loaded
    session: Session
    drafter: NamedDrafter = NO_DRAFTER
    note: str = ""
    trees: bool = False
    cache_root: Path | None = None
    refusal: str = ""
    lost: str = ""
    monitored: MonitoredDrafter | None = field(init=False, default=None)
    _calibration: Calibration = field(init=False)
    _corrections: dict[tuple[tuple[int, ...], bool, bool], CostCorrection] = field(init=False, default_factory=dict)
    _pieces: dict[int, str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._use(self.drafter)

    @property
    def has_drafter(self) -> bool:
        return self.drafter.drafter is not None

    # --- another drafter, another session -----------------------------------------------------------

    def with_drafter(self, drafter: NamedDrafter, trees: bool = False) -> LoadedPair:
        """Returns a pair of the same target and session with another drafter."""
        return LoadedPair(self.target, self.session, drafter, self.note, trees, self.cache_root)

    def open_drafter(self, spec: str, trees: bool) -> LoadedPair:
        """Returns a pair of the same target and session with the drafter `spec`, which is loaded now.

        Empties the target's cache: whether the target can do what the drafter needs is tried on it. Raises UsageError,
        ModelError or PairError.
        """
        self.session.forget()
        self.target.model.record()
        return self.with_drafter(pair_loader.open_drafter(spec, self.target, trees), trees)

    def try_drafter(self, spec: str, trees: bool) -> LoadedPair:
        """Returns what `open_drafter` does, or a pair without a drafter whose `refusal` says why it has none."""
        try:
            return self.open_drafter(spec, trees)
        except Exception as error:  # noqa: BLE001  broad: whatever is wrong with a drafter, the target replies alone
            return replace(self.with_drafter(replace(NO_DRAFTER, spec=spec), trees), refusal=reason_of(error))

    def open_session(self, options: Options) -> None:
        """Begins a new session with the context of `options`. Raises UsageError or ModelError if it does not fit."""
        self.session, self.note = pair_loader.open_session(self.target, options)
        self._use(self.drafter)

    def reset(self) -> None:
        """Empties all caches after a pass was interrupted, when nobody knows what is in them. A drafter that cannot be
        loaded again is gone, and `lost` says why."""
        pair_loader.reset_target(self.target, self.session)
        release_memory()
        if self.monitored is None:
            return
        try:
            drafter = pair_loader.renew(self.drafter, self.target, self.trees)
        except Exception as error:  # noqa: BLE001  broad: as above
            self.refusal = reason_of(error)
            self.lost = f"the drafter is gone, load the pair again ({self.refusal})"
            self._use(replace(NO_DRAFTER, spec=self.drafter.spec))
        else:
            self._use(drafter)

    # --- costs and policies --------------------------------------------------------------------------

    def is_measured(self, context: int) -> bool:
        """Whether `costs` behind `context` tokens are known, so that caches may stay as they are."""
        return self._calibration.knows(context)

    def milestones(self, context: int) -> tuple[int, ...]:
        """Returns the contexts, in tokens, that costs behind `context` tokens are drawn from."""
        return self._calibration.milestones(context)

    def costs(self, context: int, pause: Callable[[], None] = lambda: None) -> Costs:
        """Returns the costs of passes and drafts behind `context` tokens; measures them now if they are not known.

        Measuring empties all caches. pause: called between passes while measuring; may raise to break off. Raises
        whatever a drafter raises.
        """
        if not self.is_measured(context):
            self.session.forget()
        return self._calibration.costs(context, pause)

    def policy(
        self, length: int | None, context: int, exact: bool = False, correction: CostCorrection | None = None
    ) -> Policy:
        """Returns a policy for one reply: a fixed draft length, or None for auto, on costs behind `context` tokens.

        correction: learns how far measured costs are off; None where the reply must be reproducible.
        """
        costs = self.costs(context) if length is None and self.has_drafter else None
        return pair_loader.make_policy(self.drafter, length, costs, exact, correction)

    def correction(self, context: int, exact: bool, timed: bool) -> CostCorrection:
        """Returns the correction of costs that replies under these conditions share. timed: drafts are waited for."""
        return self._corrections.setdefault((self.milestones(context), exact, timed), CostCorrection())

    # --- tokens --------------------------------------------------------------------------------------

    def prompt_ids(self, messages: Sequence[dict[str, str]]) -> list[int]:
        """Returns the ids of a prompt. Raises ModelError where the model's template refuses it."""
        return self.target.tokenizer.chat(list(messages))

    def piece(self, token: int) -> str:
        """Returns the text of one token alone."""
        if token not in self._pieces:
            self._pieces[token] = self.target.tokenizer.piece(token)
        return self._pieces[token]

    def check_ids(self, ids: Sequence[int]) -> None:
        """Raises UsageError for ids that are not tokens of the target."""
        vocabulary = self.target.model.vocabulary
        if any(not 0 <= token < vocabulary for token in ids):
            raise UsageError(
                f"some ids of this reply are not tokens of the model, which has {vocabulary:,}: regenerate the reply"
            )

    def _use(self, drafter: NamedDrafter) -> None:
        self.drafter = drafter
        self._calibration = Calibration(self.target, drafter, self.session.context, self.cache_root)
        self.monitored = MonitoredDrafter(drafter.drafter) if drafter.drafter is not None else None


def open_target(options: Options) -> LoadedPair:
    """Loads a target, without a drafter yet. Raises UsageError or ModelError."""
    target = pair_loader.open_target(options)
    session, note = pair_loader.open_session(target, options)
    return LoadedPair(target, session, note=note, cache_root=options.cache_root)


def open_pair(options: Options) -> LoadedPair:
    """Loads a target and its drafter. Raises UsageError, ModelError or PairError."""
    return open_target(options).open_drafter(options.drafter, options.tree)


def release_memory() -> None:
    """Gives memory that nothing uses any more back to the system."""
    gc.collect()
    mx.clear_cache()


def release_models() -> None:
    """Gives back what the last models held, now that nothing refers to them."""
    gc.collect()
    memory.release_weights()


def reason_of(error: BaseException) -> str:
    """Returns the reason for an error in one line."""
    reason = " ".join(str(error).split())[:400].encode(errors="replace").decode()
    return reason if isinstance(error, RedlineError) else f"{type(error).__name__}: {reason}"
