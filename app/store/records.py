"""What a conversation is made of, as it is stored and as the window shows it: frozen values without Qt or SQL.

A conversation is a tree of messages. Children of one message are versions of each other: editing a question makes it a
sibling, regenerating a reply makes the new one a sibling. What is on screen is one branch from a root to a leaf.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

import msgspec

from app.markdown_blocks import fenced
from app.protocol import Message, Pair, RoundDone, RoundTokens, SamplingSettings, Struct, Verify
from app.reply_statistics import Statistics as Statistics
from engine.audit.receipt import Receipt
from engine.settings import MODEL_DEFAULTS

Role = Literal["user", "assistant"]
UNTITLED = "New Chat"  # shown for a conversation without a title
CONTEXT_FULL = "The context is full."  # in the note of a reply that ended for that
LENGTH_REACHED = "The reply reached its maximum length."
THOUGHT_REACHED = "The model reached its thinking limit before it answered. Choose Continue to let it go on."
UNANSWERED = "The reply ended while the model was still thinking."
SUMMARY_OPENING = "Summary of our conversation so far:"
EDITED = "Edited"  # the note of a reply whose text a person wrote
CUT_NOTE = "Redline was closed or stopped working while this reply was being written."

# complete: ended by itself or at its longest. stopped: by the user. cut: the host or the app went while it streamed.
# failed: came to nothing, or broke off with an error. streaming: still being written.
State = Literal["complete", "stopped", "cut", "failed", "streaming"]
ENDED_EARLY = {"stopped": "Stopped", "cut": "Interrupted", "failed": "Failed"}  # in words
Time = Annotated[float, msgspec.Meta(ge=0, lt=253402300800)]  # Unix seconds, to the year 9999


class ChatSettings(Struct, frozen=True, kw_only=True):
    """How the replies of one conversation are made; a preset is one of these under a name."""

    pair: Pair = Pair()
    sampling: SamplingSettings = SamplingSettings()
    system: str = ""


# Of the first chat: as the model's authors recommend, with room to think.
NEW_CHAT = ChatSettings(sampling=SamplingSettings(max_thought_tokens=8192, from_model=MODEL_DEFAULTS))


class Attachment(Struct, frozen=True, kw_only=True):
    """A text file that came with a question."""

    name: str
    text: str


class ContextTrim(Struct, frozen=True, kw_only=True):
    """What the model is given, from a question on, of the messages before it: the last `kept` of them, and a `summary`
    of the others, "" for none."""

    kept: Annotated[int, msgspec.Meta(ge=0, le=100_000)]
    summary: str = ""


class Ending(Struct, frozen=True):
    """How a reply ended. sampling: the settings with the seed that was used, None for those it was begun with. tail:
    `Finished.text`. prompt: the digest of its prompt, "" if unknown; the first one that is known stays."""

    state: State
    statistics: Statistics | None = None
    note: str = ""
    sampling: SamplingSettings | None = None
    tail: str = ""
    prompt: str = ""


class StoredReceipt(Struct, frozen=True, kw_only=True):
    """A receipt with its message. made_s: Unix seconds. redline: the version that made it. reference: what the
    architecture of the model was compared with, in one line. elsewhere: it came with an import, and nothing but its
    file says that it is true."""

    receipt: Receipt
    made_s: float = 0.0
    redline: str = ""
    reference: str = ""
    elsewhere: bool = False


class MessageBody(Struct, frozen=True, kw_only=True):
    """What a message says and how it was made.

    text: a reply's source as the model wrote it, without its thought; a question's without its attachments. thought:
    what the model thought before it answered, where that can be told. note: why it failed or was cut,
    that it fell back, or "". pair, sampling: what made a reply, with the seed it was drawn with. system: the system
    prompt that it was made with, None if that was not stored; prompt: the digest of its prompt. receipt: of the reply
    as far as it was when it was checked. trim: of a question that was sent when the context was full.
    """

    role: Role
    text: str
    state: State = "complete"
    note: str = ""
    created_s: Time = 0.0
    attachments: tuple[Attachment, ...] = ()
    statistics: Statistics | None = None
    pair: Pair | None = None
    sampling: SamplingSettings | None = None
    system: str | None = None
    prompt: str = ""
    receipt: StoredReceipt | None = None
    thought: str = ""
    trim: ContextTrim | None = None

    @property
    def content(self) -> str:
        """What the model is given: attachments first, fenced and named, then the text."""
        return "\n\n".join([*(f"File {a.name}:\n{fenced(a.text)}" for a in self.attachments), self.text])


class MessageRecord(MessageBody, frozen=True, kw_only=True):
    """One message of a branch. version of versions: its place among its siblings, from 1; siblings: the ids of
    all of them, its own included, in that order."""

    id: int
    conversation: int
    parent: int | None
    version: int = 1
    versions: int = 1
    siblings: tuple[int, ...] = ()

    @property
    def stale(self) -> bool:
        """Whether the reply has been continued since it was checked."""
        tokens = self.statistics.tokens if self.statistics else None
        return self.receipt is not None and tokens is not None and self.receipt.receipt.tokens != tokens

    @property
    def checkable(self) -> bool:
        """Whether it is a finished reply with text whose sampling settings are known."""
        has_text = bool(self.text or (self.statistics and self.statistics.tokens))
        return self.role == "assistant" and self.state != "streaming" and has_text and self.sampling is not None


class ConversationRecord(Struct, frozen=True, kw_only=True):
    """One line of the sidebar, and its settings. title: "" until there is something to call it by.
    Times: Unix seconds."""

    id: int
    title: str
    pinned: bool
    created_s: float
    updated_s: float
    settings: ChatSettings


class SearchHit(Struct, frozen=True, kw_only=True):
    """What a search found: a conversation by its title (message None) or by a message. snippet: the text around the
    match, or the beginning of the last message where the title matches. matches: places in the snippet, or in the
    title, as (start, length)."""

    conversation: int
    title: str
    message: int | None
    snippet: str
    matches: tuple[tuple[int, int], ...]


Visible = tuple[Sequence[MessageBody], str]  # messages, and the summary of those before them, "" for none


def draft_of(text: str, attachments: tuple[Attachment, ...] = ()) -> MessageRecord:
    """Returns a question that belongs to no conversation yet."""
    return MessageRecord(id=0, conversation=0, parent=None, role="user", text=text, attachments=attachments)


def visible_of(path: Sequence[MessageBody]) -> Visible:
    """Returns what a model is given of a branch: all but what was trimmed when the context was full."""
    for place, record in reversed(list(enumerate(path))):
        if record.trim is not None:
            return path[max(0, place - record.trim.kept) :], record.trim.summary
    return path, ""


def messages_of(system: str, path: Sequence[MessageBody]) -> tuple[Message, ...]:
    """Returns the turns that a model is given for a branch."""
    return turns_of(system, *visible_of(path))


def turns_of(system: str, visible: Sequence[MessageBody], summary: str) -> tuple[Message, ...]:
    """Returns these messages as turns. Replies without an answer are left out, and their questions stay; for a template
    that wants turns to alternate they are joined (`models.turn_shape`). The summary begins the first question."""
    turns: list[Message] = []
    for record in visible:
        if record.role == "user" or (turns and record.text):
            turns.append(Message(role=record.role, content=record.content, thought=record.thought))
    if turns and summary:
        content = f"{SUMMARY_OPENING}\n{summary}\n\n{turns[0].content}"
        turns[0] = Message(role="user", content=content)
    return (*([Message(role="system", content=system)] if system else []), *turns)


def trim_in_words(trim: ContextTrim) -> str:
    """Returns what the model is given of the messages before a question, in a sentence."""
    if not trim.kept:
        seen = "a summary of the messages above" if trim.summary else "none of the messages above"
    else:
        last = "the last message" if trim.kept == 1 else f"the last {trim.kept} messages"
        seen = f"{last} above and a summary of the earlier ones" if trim.summary else f"only {last} above"
    return f"From here on, the model sees {seen}."


def verify_request(number: int, system: str, branch: Sequence[MessageBody], rounds: Iterable[RoundDone]) -> Verify:
    """Returns the request to verify the last message of a branch, a reply with these rounds. system: of the
    conversation, for a reply that does not know its own. number: of the request."""
    reply = branch[-1]
    statistics = reply.statistics
    return Verify(
        id=number,
        messages=messages_of(system if reply.system is None else reply.system, branch[:-1]),
        sampling=reply.sampling or SamplingSettings(),
        rounds=RoundTokens.of(one.round for one in rounds),
        complete=reply.state == "complete" and CONTEXT_FULL not in reply.note,  # another day's may hold more
        prompt_digest=reply.prompt,
        prompt_tokens=statistics.prompt_tokens if statistics and statistics.prompt_tokens else None,
    )
