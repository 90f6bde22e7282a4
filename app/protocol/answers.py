"""The answers that the host sends to the app. Those to races and checks are in race_messages and verify_messages."""

from __future__ import annotations

from app.protocol.values import Pair, Speculation, Struct
from engine.events import Finished, PromptProgress, Round


class Answer(Struct, frozen=True, kw_only=True, tag=True, tag_field="type"):
    """The base of all answers."""


class Ready(Answer, frozen=True, kw_only=True):
    """The host is ready for requests. device: what MLX computes on, as text for the user."""

    version: int
    redline: str
    mlx: str
    device: str


class Loading(Answer, frozen=True, kw_only=True):
    """What a Load is doing now. message: text for the user."""

    id: int
    message: str


class Loaded(Answer, frozen=True, kw_only=True):
    """The pair is loaded.

    target, drafter: names to show. speculation: whether replies are drafted. note: why they are not, or what else the
    user did not choose and should know (what auto chose, why there are no trees), or "". drafts_trees: whether drafts
    are trees. context: the most tokens of prompt and reply together.
    """

    id: int
    pair: Pair
    target: str
    drafter: str
    speculation: Speculation
    note: str
    drafts_trees: bool
    context: int


class Unloaded(Answer, frozen=True, kw_only=True):
    """Nothing is loaded any more."""

    id: int


class Measuring(Answer, frozen=True, kw_only=True):
    """The host measures step times on this machine, once for each pair, before the first reply that needs them."""

    id: int
    message: str


class PrefillProgress(Answer, frozen=True, kw_only=True):
    """How much of the prompt has been processed."""

    id: int
    progress: PromptProgress


class RoundDone(Answer, frozen=True, kw_only=True, tag="Told"):  # the tag is in conversations and races on disk
    """One round of a reply.

    drafted_texts: the text of each token of `round.drafted` alone, to show what was refused; special tokens by name.
    `round.draft_s` and `round.verify_s` are set if the Reply was timed and the round drafted.
    """

    id: int
    round: Round
    drafted_texts: tuple[str, ...] = ()


class FellBack(Answer, frozen=True, kw_only=True):
    """The drafter failed within a reply, which continues by plain decoding. reason: what failed."""

    id: int
    reason: str


class ReplyDone(Answer, frozen=True, kw_only=True):
    """The reply is complete, or was stopped.

    seed: the one it was sampled with. prompt_digest: digests of the prompt's ids and of the model's weights, separated
    by a dot, to recognise both later; "" if the reply was stopped before the prompt was read. `finished.text`, the rest
    of an unfinished character, belongs to no token: a continued reply goes on without it.
    """

    id: int
    finished: Finished
    seed: int
    prompt_digest: str = ""


class Counted(Answer, frozen=True, kw_only=True):
    """tokens: what the messages take of the `context`, the chat template and the system prompt included."""

    id: int
    tokens: int
    context: int


class Failed(Answer, frozen=True, kw_only=True):
    """A request failed, or a reply broke off; the rounds that were sent stay valid.

    kind: the error's class, such as "ContextError". message: what, why and what to do, in one line. kept_pair: after a
    failed Load, the pair that was loaded before and still is.
    """

    id: int
    kind: str
    message: str
    kept_pair: Pair | None = None


class Malformed(Answer, frozen=True, kw_only=True):
    """A line was not a request. reason: why. line: how the line begins."""

    reason: str
    line: str
