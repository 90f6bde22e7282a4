"""A target and a drafter that are loaded, and what their replies have taught on this machine.

Terminal, host, race and benchmark all decode on one of these: `app.inference.reply_runner` makes a reply that goes on
without a drafter that fails, `app.inference.measured_reply` one that must not.
"""

from __future__ import annotations

import gc
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import mlx.core as mx

from app.inference import digests, pair_loader
from app.inference.learnt_rounds import LearntRounds
from app.inference.memory_check import kept_conversations_bytes
from app.inference.options import Options
from app.inference.pair_loader import NamedDrafter
from app.reply_history import ReplyHistory
from engine.audit.identical_width import identical_width
from engine.backend import memory, raise_if_machine_lost
from engine.drafters.prompt_lookup import HISTORY_SHORTEST, PromptLookup
from engine.drafters.suffix_index import END, LONGEST_MATCH, SuffixIndex
from engine.errors import RedlineError, UsageError
from engine.kept_conversations import KeptConversations
from engine.policy import Policy
from engine.session import Session
from engine.settings import SamplingSettings
from models.drafters.target_match import vocabulary_digest
from models.generation_defaults import GenerationDefaults, generation_defaults
from models.loader import Loaded

NO_DRAFTER = NamedDrafter("none", None)


@dataclass
class LoadedPair:
    """A target with a session on it, and a drafter or none.

    Several pairs may share a target and its session, one reply at a time. note: what the user should know of the
    context, or "". needed: bytes of memory at the full context. trees: whether the drafter drafts trees where it can.
    digest: of the target's weights when they were loaded, "" if unknown. vocabulary: digest of the target's, likewise.
    refusal: why the drafter that was requested is not there, or "". cache_root: None for the user's. at_once: tells how
    many replies take part in rounds now.
    """

    target: Loaded
    session: Session
    drafter: NamedDrafter = NO_DRAFTER
    note: str = ""
    needed: int = 0
    trees: bool = False
    cache_root: Path | None = None
    digest: str = ""
    vocabulary: str = ""
    refusal: str = ""
    at_once: Callable[[], int] = lambda: 1

    @property
    def defaults(self) -> GenerationDefaults:
        """The sampling settings that the target's authors recommend."""
        return generation_defaults(self.target.folder.path)

    def resolved(self, settings: SamplingSettings) -> SamplingSettings:
        """Returns settings with the target's own values where they ask for those."""
        return settings.with_defaults(self.defaults.values) if settings.from_model else settings

    def with_identical_width(self, settings: SamplingSettings) -> SamplingSettings:
        """Returns the settings of a reply that is made here, which in exact-verify say which passes have the bits of
        single steps."""
        if not settings.exact:
            return settings
        return replace(settings, identical_width=identical_width(self.target.model).tokens)

    @property
    def is_shared(self) -> bool:
        """Whether other machines hold parts of the target, and of every conversation."""
        return self.target.model.leader is not None

    @property
    def has_drafter(self) -> bool:
        return self.drafter.drafter is not None

    # --- another reply at the same time, another drafter, another session ---------------------------

    def for_another_reply(self) -> LoadedPair:
        """Returns a pair of the same weights for a reply that alternates with those of this one: its session, caches
        and drafter are its own; kept conversations, earlier replies and what the rounds have taught are shared.

        Where this pair gets another drafter or context, `clear` the others and make them anew: their conversations are
        kept."""
        session = self.session.for_another_reply()
        target = replace(self.target, model=session.target)
        other = replace(self, target=target, session=session, drafter=self.drafter.for_another_reply(session.target))
        other.learnt, other._history = self.learnt, self._history
        return other

    def with_drafter(self, drafter: NamedDrafter, trees: bool = False) -> LoadedPair:
        """Returns a pair of the same target and session with another drafter."""
        return replace(self, drafter=drafter, trees=trees, refusal="")

    def open_drafter(self, spec: str, trees: bool) -> LoadedPair:
        """Returns a pair of the same target and session with the drafter that `pair_loader.open_drafter` loads now."""
        self.clear()
        return self.with_drafter(pair_loader.open_drafter(spec, self.target, trees, self.cache_root), trees)

    def try_drafter(self, spec: str, trees: bool) -> LoadedPair:
        """Returns what `open_drafter` does, or a pair without a drafter whose `refusal` says why it has none."""
        try:
            return self.open_drafter(spec, trees)
        except Exception as error:  # noqa: BLE001  broad: whatever is wrong with a drafter, the target replies alone
            raise_if_machine_lost(error)
            self.target.model.forget_all_taps()
            return replace(self.with_drafter(replace(NO_DRAFTER, spec=spec), trees), refusal=reason_of(error))

    def open_session(self, options: Options) -> None:
        """Begins a new session with the context of `options`. Raises UsageError or ModelError if it does not fit."""
        self.session, self.note, self.needed = pair_loader.open_session(self.target, options)

    def clear(self) -> None:
        """Empties the target's cache, and has it record no hidden states any more. The conversation that was there is
        kept if there is room."""
        if not self.session.put_aside():
            self.session.forget()
        self.target.model.record()

    def keep_conversations(self, beside: int = 0) -> None:
        """Has the session keep as many conversations as memory allows now; none where other machines hold parts of
        them. beside: the bytes that the caches of other replies take."""
        if not self.is_shared:
            kept = self.session.kept
            kept.limit_bytes = kept_conversations_bytes(self.needed + beside, kept.nbytes)

    def give_back_memory(self) -> None:
        """Drops the conversations that are kept, until a reply finds memory for them again, and gives back MLX's freed
        buffers. The conversation in the caches stays, so a reply may be in progress, between two passes."""
        self.session.kept.limit_bytes = 0
        mx.clear_cache()

    @contextmanager
    def without_conversations(self) -> Iterator[None]:
        """Empties the caches, and has every reply inside read its whole prompt; afterwards conversations are kept as
        before."""
        self.clear()
        kept, self.session.kept = self.session.kept, KeptConversations()
        try:
            yield
        finally:
            self.session.forget()
            self.session.kept = kept

    def reset(self) -> None:
        """Empties all caches after a pass was interrupted: it has gone through some layers and not through others, and
        no rewind could tell what is in them. The drafter's memory is a new one."""
        self.target.model.cache.reset()
        self.session.forget()
        self.drafter = self.drafter.for_another_reply(self.target.model)
        release_memory()

    # --- earlier replies -------------------------------------------------------------------------------

    def draft_from(self, folder: Path | None, settings: SamplingSettings) -> None:
        """Has prompt lookup draft the next reply from the earlier ones in `folder` too, where `settings` allow it; None
        for none. See `app.reply_history`."""
        index = None
        if self._lookups and folder is not None and not settings.repeats_rounds:
            index = self._history.index(folder)
        for lookup in self._lookups:
            lookup.history = index

    def draft_from_prediction(
        self, text: str, prompt: Sequence[int], settings: SamplingSettings
    ) -> tuple[list[int], str]:
        """Has prompt lookup draft the next reply from a text that it is expected to repeat, in place of earlier
        replies and under their conditions. The text follows the end of the prompt, so that its beginning is drafted
        first. Returns the tokens that are drafted from, and where there are none why."""
        if not self._lookups:
            return [], "only prompt lookup drafts from a prediction, alone or together with another drafter"
        if settings.repeats_rounds:
            return [], "a prediction is not drafted from where rejection sampling must repeat a seed"
        index = SuffixIndex(HISTORY_SHORTEST)
        tokens = [*prompt[-LONGEST_MATCH:], *self.target.tokenizer.pieces(text)[: self.session.context]]
        index.extend([*tokens, END])
        for lookup in self._lookups:
            lookup.history = index
        return tokens, ""

    @cached_property
    def _history(self) -> DraftHistory:
        return DraftHistory(self.vocabulary, self.target.model.vocabulary)

    @property
    def _lookups(self) -> list[PromptLookup]:
        return [part.drafter for part in self.drafter.parts if isinstance(part.drafter, PromptLookup)]

    # --- policies ------------------------------------------------------------------------------------

    @cached_property
    def learnt(self) -> LearntRounds:
        """What earlier replies of this pair have taught, read when it is first wanted."""
        return LearntRounds(self.target, self.drafter, self.cache_root)

    def policy(self, settings: SamplingSettings, context: int, timed: bool = False, frozen: bool = False) -> Policy:
        """Returns a policy for one reply after `context` tokens, as `LearntRounds.policy` does."""

        def sharing_passes() -> int:
            """Returns how many replies share a pass now; 1 where each takes its own, which costs what it does alone."""
            return self.at_once() if self.target.model.shares_passes and not settings.exact else 1

        return self.learnt.policy(settings, context, timed, frozen, sharing_passes)

    # --- tokens ---------------------------------------------------------------

    def prompt_ids(
        self,
        messages: Sequence[Mapping[str, Any]] | str,
        settings: SamplingSettings,
        cancelled: Callable[[], bool] = lambda: False,
        tools: Sequence[dict[str, Any]] = (),
    ) -> list[int]:
        """Returns the ids of a prompt; a text is taken as it stands, without the chat template. tools: as OpenAI
        describes them. Raises ModelError where the model's template refuses it, StoppedError once it was cancelled."""
        if isinstance(messages, str):
            return self.target.tokenizer.encode(messages, cancelled)
        return self.target.tokenizer.chat(list(messages), cancelled, tools, **settings.switches)

    def check_ids(self, ids: Sequence[int]) -> None:
        """Raises UsageError for ids that are not tokens of the target."""
        vocabulary = self.target.model.vocabulary
        if any(not 0 <= token < vocabulary for token in ids):
            raise UsageError(
                f"some ids of this reply are not tokens of the model, which has {vocabulary:,}: regenerate the reply"
            )


class DraftHistory:
    """Earlier replies as prompt lookup drafts from them: the index of what is in a folder of `app.reply_history`, for
    one vocabulary: its digest, and how many tokens it has."""

    def __init__(self, vocabulary: str, size: int) -> None:
        self._vocabulary, self._size = vocabulary, size
        self._state: object = None
        self._known: dict[tuple[int, int], array[int]] = {}
        self._index = SuffixIndex(HISTORY_SHORTEST)

    def index(self, folder: Path) -> SuffixIndex:
        """Returns the index of all replies in the folder as it is now. One that has gone is searched no more."""
        files = ReplyHistory(folder)
        state = folder, files.state(self._vocabulary)
        if state != self._state:
            self._state, replies = state, files.read(self._vocabulary)
            if any(replies.get(key) != ids for key, ids in self._known.items()):
                self._known, self._index = {}, SuffixIndex(HISTORY_SHORTEST)
            added = {key: ids for key, ids in replies.items() if key not in self._known}
            added = {key: ids for key, ids in added.items() if max(ids, default=0) < self._size}
            self._known |= added
            self._index.extend(array("i", (token for ids in added.values() for token in (*ids, END))))
        return self._index


def open_target(options: Options) -> LoadedPair:
    """Returns a target that was loaded now, without a drafter. Raises UsageError or ModelError."""
    target = pair_loader.open_target(options)
    session, note, needed = pair_loader.open_session(target, options)
    return LoadedPair(
        target,
        session,
        note=note,
        needed=needed,
        cache_root=options.cache_root,
        digest=digests.of_model(target.folder),
        vocabulary=vocabulary_digest(target.folder.vocabulary)[:16],  # it names a folder
    )


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
