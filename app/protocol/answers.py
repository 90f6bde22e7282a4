"""What the host says to the window."""

from __future__ import annotations

from app.protocol.values import Pair, Speculation, Struct
from engine.events import Finished, PromptProgress, Round


class Answer(Struct, frozen=True, kw_only=True, tag=True, tag_field="type"):
    """What the host says."""


class Ready(Answer, frozen=True, kw_only=True):
    """The host listens. device: what MLX computes on, for people."""

    version: int
    redline: str
    mlx: str
    device: str


class Loading(Answer, frozen=True, kw_only=True):
    """What a Load is busy with, for people."""

    id: int
    said: str


class Loaded(Answer, frozen=True, kw_only=True):
    """The pair is ready. target, drafter: names for people. speculation: whether drafts will be made; `said` is why
    not, or what else the user did not ask for and should know (what auto came to, why no trees), or "". branches:
    whether drafts are trees. context: most tokens of prompt and reply."""

    id: int
    pair: Pair
    target: str
    drafter: str
    speculation: Speculation
    said: str
    branches: bool
    context: int


class Unloaded(Answer, frozen=True, kw_only=True):
    """Nothing is loaded now."""

    id: int


class Measuring(Answer, frozen=True, kw_only=True):
    """The host measures what passes cost here, once a pair, before the first reply that needs to know."""

    id: int
    said: str


class Progress(Answer, frozen=True, kw_only=True):
    """How far the prompt has been read."""

    id: int
    progress: PromptProgress


class Told(Answer, frozen=True, kw_only=True):
    """One round. drafted_texts: for each of `round.drafted` its text alone, for showing what was refused; special
    tokens by their names. `round.draft_s` and `verify_s` are there where the Reply was timed and the round drafted."""

    id: int
    round: Round
    drafted_texts: tuple[str, ...] = ()


class FellBack(Answer, frozen=True, kw_only=True):
    """Speculation stopped within a reply, which goes on by plain decoding; `said` is why."""

    id: int
    said: str


class Ended(Answer, frozen=True, kw_only=True):
    """The reply is whole, or was stopped. seed: with which it was drawn, see `Law`. prompt: digests of
    the ids that it answers and of the weights that did, a dot between, to know both again; "" where neither was looked
    at. `finished.text`, what an unfinished character looks like, belongs to no token: a reply that goes on from `said`
    goes on without it."""

    id: int
    finished: Finished
    seed: int
    prompt: str = ""


class Counted(Answer, frozen=True, kw_only=True):
    """tokens of the `context` most that there may be; template and system prompt are in it."""

    id: int
    tokens: int
    context: int


class Failed(Answer, frozen=True, kw_only=True):
    """A request came to nothing, or a Reply broke off; what was told of it stands. said: what, why and what to do, in a
    line. kind: the error's class, "ContextError". kept: of a Load, the pair that was loaded before and still is."""

    id: int
    kind: str
    said: str
    kept: Pair | None = None


class Malformed(Answer, frozen=True, kw_only=True):
    """A line that was no request. said: why. line: its beginning."""

    said: str
    line: str
