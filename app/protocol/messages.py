"""The messages between app and host, and the plain values in them. Those of a race are in `race_messages`; the package
itself encodes them as lines.

A Verify decodes a finished reply again with the loaded target alone and compares the two. It fails with the kind
"OtherPromptError" if the prompt is no longer the one that the reply answered, and with OTHER_MODEL if the model has
other weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from engine.audit.receipt import Receipt
from engine.events import Finished, PromptProgress, Round
from engine.settings import SamplingSettings

CANCELLED, BUSY = "Cancelled", "Busy"  # kinds of Failed that are no errors
NOT_LOADED, OTHER_MODEL = "NotLoaded", "OtherModelError"

Speculation = Literal["on", "off", "unsupported"]


class Struct(msgspec.Struct, frozen=True, kw_only=True):  # kw_only: a new field may come anywhere
    """A frozen record of plain values."""


class Pair(Struct, frozen=True, kw_only=True):
    """The models to load.

    target: "builtin" or a model folder. drafter: as on the command line: auto, none, lookup, the name of a shipped
    drafter or a folder. tree: whether a drafter that can draft trees does so. context: tokens of prompt and reply, None
    for what the model declares. hosts: the file of the machines that share the target, "" for this one alone.
    """

    target: str = "builtin"
    drafter: str = "auto"
    tree: bool = False
    context: int | None = None
    hosts: str = ""


class Tool(Struct, frozen=True, kw_only=True):
    """A tool of the client's that the model may ask to be called. parameters: the JSON Schema of its arguments, as
    text. strict: whether the arguments are constrained to follow it."""

    name: str
    description: str = ""
    parameters: str = '{"type":"object","properties":{}}'
    strict: bool = False


class ToolCall(Struct, frozen=True, kw_only=True):
    """A call of a tool that the model asks for; nothing is executed. arguments: a JSON object as text."""

    id: str
    name: str
    arguments: str


class Tools(Struct, frozen=True, kw_only=True):
    """The tools of a reply. required: whether it must call one, named: which one, "" for any; either constrains the
    arguments of all. several: whether it may call more than once."""

    offered: tuple[Tool, ...]
    required: bool = False
    named: str = ""
    several: bool = True


class Message(Struct, frozen=True, kw_only=True):
    """One turn of a conversation, as the model's chat template sees it. thought: of the assistant before it answered,
    which most templates leave out of what the model reads again. calls: of tools, which the assistant asked for after
    its answer. call_id, name: of the call that a turn of a tool is the result of."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    thought: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    name: str = ""


class RoundTokens(Struct, frozen=True, kw_only=True, array_like=True):
    """The tokens of one round and the verify pass that they came from: the fields of a `Round` that a check needs."""

    tokens: tuple[int, ...]
    drafted: tuple[int, ...] = ()
    parents: tuple[int, ...] | None = None
    path: tuple[int, ...] = ()
    fingerprints: tuple[int, ...] = ()

    @classmethod
    def of(cls, rounds: Iterable[Round]) -> tuple[RoundTokens, ...]:
        """Returns the same of each round. One line holds about a hundred thousand rounds."""
        names = cls.__struct_fields__
        return tuple(cls(**{name: getattr(round_, name) for name in names}) for round_ in rounds)


# --- requests -----------------------------------------------------------------------------------


class Request(Struct, frozen=True, kw_only=True, tag=True, tag_field="type"):
    """The base of all requests. id: chosen by the app; every answer to the request repeats it."""

    id: int


class Load(Request, frozen=True, kw_only=True):
    """Loads this pair in place of the one that is loaded. Loading the pair that is already loaded is quick."""

    pair: Pair


class Reply(Request, frozen=True, kw_only=True):
    """Answers `messages`, the last of which is the user's.

    continuation_ids: the tokens of the reply so far, to continue a reply that was interrupted. Their text is not sent
    again, `max_tokens` counts the new tokens only, and a greedy or coupled reply continues as if it had never been
    interrupted. opening: text that the reply begins with, given by whoever asks; it is not sent again either. timed:
    measure drafting and verification separately, which costs one more synchronisation a round.
    history: the folder of earlier replies to draft from, "" for none (`app.reply_history`). cache: the file in which
    what the models remember of this conversation is kept over restarts, "" for none
    (`app.inference.kept_conversation_files`). prompt: text to continue as it stands, in place of `messages` and
    without the chat template; None for a conversation. prediction: a text that the reply is expected to repeat
    in large part, such as the file that it changes; it is drafted from, and changes no reply. tools: that it may call,
    None for none. target: of the pair that the request is for, "" for whichever is loaded; it fails with the kind
    OTHER_MODEL where another is.
    """

    messages: tuple[Message, ...]
    sampling: SamplingSettings
    continuation_ids: tuple[int, ...] = ()
    opening: str = ""
    timed: bool = False
    history: str = ""
    cache: str = ""
    prompt: str | None = None
    prediction: str = ""
    target: str = ""
    tools: Tools | None = None


class Stop(Request, frozen=True, kw_only=True):
    """Ends the request with this id at its next round or chunk of the prompt; a reply then ends with ReplyDone, its
    reason "cancelled". A request that is still waiting is answered with Failed, kind "Cancelled". An unknown id, or
    one that is finished, is ignored."""


class Count(Request, frozen=True, kw_only=True):
    """Counts the tokens of the context that `messages` take, the chat template included. sampling: for the switches of
    the template. tools, target: as in Reply. cache: likewise, "" for none; it is read while nothing else is asked."""

    messages: tuple[Message, ...]
    sampling: SamplingSettings = SamplingSettings()
    tools: Tools | None = None
    target: str = ""
    cache: str = ""


class Unload(Request, frozen=True, kw_only=True):
    """Unloads the pair to free its memory; the answer is Unloaded."""


class Serve(Request, frozen=True, kw_only=True):
    """Says what other programs on this machine get from now on, in place of what the last one said. Serving, which has
    no id, says what came of it.

    port: of loopback, 0 for any that is free, None to serve nobody. key_file: of the key that programs give; made where
    there is none. pair: that answers programs, whose requests wait until the app has loaded it. paused: whether they
    wait because the app uses the engine. refusal: why the pair cannot be loaded, with which they fail; "" to wait.
    """

    port: int | None
    key_file: str = ""
    pair: Pair = Pair()
    paused: bool = False
    refusal: str = ""


class Parallel(Request, frozen=True, kw_only=True):
    """Says how many replies may be written at once from now on."""

    replies: int


class Quit(Request, frozen=True, kw_only=True):
    """Stops the current request and ends the host."""


class Verify(Request, frozen=True, kw_only=True):
    """Checks the reply to `messages` that consists of `rounds`, every part of a continued reply included. The drafter
    takes no part.

    sampling: the settings that the reply was sampled with, its seed included. complete: whether it ended by itself or
    at the longest that the settings or the context allow. prompt_digest: as in ReplyDone, "" if unknown. prompt_tokens:
    how many tokens the prompt had, None if unknown.
    """

    messages: tuple[Message, ...]
    sampling: SamplingSettings
    rounds: tuple[RoundTokens, ...]
    complete: bool = False
    prompt_digest: str = ""
    prompt_tokens: int | None = None


# --- answers ------------------------------------------------------------------------------------


class Answer(Struct, frozen=True, kw_only=True, tag=True, tag_field="type"):
    """The base of all answers."""


class RequestAnswer(Answer, frozen=True, kw_only=True):
    """The base of all answers to a request. id: of the request."""

    id: int


class Ready(Answer, frozen=True, kw_only=True):
    """The host is ready for requests. device: what MLX computes on, as text for the user."""

    version: int
    redline: str
    mlx: str
    device: str


class MemoryShort(Answer, frozen=True, kw_only=True):
    """The system is short of memory, and the host gave back what it was not using. Sent once."""


class Serving(Answer, frozen=True, kw_only=True):
    """How other programs are served, sent when it changes, but a few times a second at most. port: that they reach, 0
    for none. waiting: requests that wait. replies: how many are being written for programs. tokens: of those so far,
    None where there are none. error: why they cannot be served."""

    port: int = 0
    waiting: int = 0
    replies: int = 0
    tokens: int | None = None
    error: str = ""


class Loading(RequestAnswer, frozen=True, kw_only=True):
    """What a Load is doing now. message: text for the user."""

    message: str


class Machines(Struct, frozen=True, kw_only=True):
    """The machines that share a target. names: this one first. memory: what the pair takes of each one's memory, as
    text for the user. pass_s: an estimate of the seconds that a pass over one token waits for the network; row_s: what
    each further token adds."""

    names: tuple[str, ...]
    memory: str = ""
    pass_s: float = 0.0
    row_s: float = 0.0

    def network_s(self, rows: int) -> float:
        """Returns the estimate for a pass over so many tokens."""
        return self.pass_s + max(0, rows - 1) * self.row_s


class Loaded(RequestAnswer, frozen=True, kw_only=True):
    """The pair is loaded.

    target, drafter: names to show. speculation: whether replies are drafted. note: why they are not, or what else the
    user did not choose and should know (what auto chose, why there are no trees), or "". drafts_trees: whether drafts
    are trees. context: the most tokens of prompt and reply together. vocabulary: digest of the target's, "" if unknown.
    defaults: the model's own sampling settings, by name. thinking: whether its chat template has a switch for
    thinking; efforts: how much it may be told to think. tools: whether replies can call tools. machines: that share
    the target, None for this one alone.
    """

    pair: Pair
    target: str
    drafter: str
    speculation: Speculation
    note: str
    drafts_trees: bool
    context: int
    vocabulary: str = ""
    defaults: Mapping[str, float] = {}
    thinking: bool = False
    efforts: tuple[str, ...] = ()
    tools: bool = False
    machines: Machines | None = None


class Unloaded(RequestAnswer, frozen=True, kw_only=True):
    """Nothing is loaded any more."""


class Working(RequestAnswer, frozen=True, kw_only=True):
    """A heartbeat: the host is still at work on a request, and has had no other answer to it for a while. id: 0 where
    another program made the request."""


class Waiting(RequestAnswer, frozen=True, kw_only=True):
    """A reply does not begin yet. reason: why, for the user."""

    reason: str


class PrefillProgress(RequestAnswer, frozen=True, kw_only=True):
    """How much of the prompt has been processed."""

    progress: PromptProgress


class RoundDone(RequestAnswer, frozen=True, kw_only=True, tag="Told"):  # the tag is in conversations and races on disk
    """One round of a reply.

    drafted_texts: the text of each token of `round.drafted` alone, to show what was refused; special tokens by name.
    `round.draft_s` and `round.verify_s` are set if the Reply was timed and the round drafted.
    """

    round: Round
    drafted_texts: tuple[str, ...] = ()


class Called(RequestAnswer, frozen=True, kw_only=True):
    """The reply asks for calls of tools, whose last token was in the last RoundDone. The text of a call is in no round:
    its tokens have the channel "call"."""

    calls: tuple[ToolCall, ...]


class FellBack(RequestAnswer, frozen=True, kw_only=True):
    """The drafter failed within a reply, which continues by plain decoding. reason: what failed."""

    reason: str


class ReplyDone(RequestAnswer, frozen=True, kw_only=True):
    """The reply is complete, or was stopped.

    seed: the one it was sampled with. sampling: all settings as they were used, the model's own values among them.
    prompt_digest: digests of the prompt's ids and of the model's weights, separated
    by a dot, to recognise both later; "" if the reply was stopped before the prompt was read. `finished.text`, the rest
    of an unfinished character, belongs to no token: a continued reply goes on without it. plain_s: what a plain step
    takes on this machine after such a prompt, None if it was not measured. predicted: how many accepted tokens the
    prediction has too, after the same tokens. unused_prediction: why nothing was drafted from the prediction, "" where
    there was none or it was drafted from.
    """

    finished: Finished
    seed: int
    prompt_digest: str = ""
    sampling: SamplingSettings | None = None
    plain_s: float | None = None
    predicted: int = 0
    unused_prediction: str = ""


class Counted(RequestAnswer, frozen=True, kw_only=True):
    """tokens: what the messages take of the `context`, the chat template and the system prompt included."""

    tokens: int
    context: int


class Failed(RequestAnswer, frozen=True, kw_only=True):
    """A request failed, or a reply broke off; the rounds that were sent stay valid.

    kind: the error's class, such as "ContextError". message: what, why and what to do, in one line. kept_pair: after a
    failed Load, the pair that was loaded before and still is. fits_alone: whether what failed were the other machines
    of a Load, and its target fits on this one.
    """

    kind: str
    message: str
    kept_pair: Pair | None = None
    fits_alone: bool = False


class Malformed(Answer, frozen=True, kw_only=True):
    """A line was not a request. reason: why. line: how the line begins."""

    reason: str
    line: str


class VerifyProgress(RequestAnswer, frozen=True, kw_only=True):
    """`done` of `total` tokens of the reply have been checked."""

    done: int
    total: int


class VerifyDone(RequestAnswer, frozen=True, kw_only=True):
    """The reply has been checked. The differences in the receipt have the texts of their tokens.

    reference: what the architecture of the target was compared with, in one line.
    """

    receipt: Receipt
    reference: str = ""
