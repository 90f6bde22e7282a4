"""Reads conversations that other programs exported, as documents of Redline: with their branches, thoughts and times.

    ChatGPT      conversations.json: [{"title", "create_time", "update_time", "current_node", "mapping":
                 {id: {"parent", "children", "message": {"author": {"role"}, "content": {"content_type", "parts"}}}}}]
    Open WebUI   [{"title", "chat": {"history": {"currentId", "messages":
                 {id: {"parentId", "childrenIds", "role", "content", "timestamp"}}}}}]
    LM Studio    {"name", "createdAt", "systemPrompt", "messages": [{"currentlySelected", "versions":
                 [{"role", "content": [{"type", "text"}]} or {"role", "steps": [{"content", "style"}]}]}]}

None of these formats is published. The fields are those of real exports, and all others are ignored. Messages that are
neither a question nor a reply (system messages, results of tools) are left out.
"""

import html
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from app.store.database import StoreError
from app.store.json_export import (
    MOST_CHARACTERS,
    MOST_MESSAGES,
    Document,
    MessageDocument,
    read_document,
    read_header,
)
from app.store.message_rows import clean, clean_title
from app.store.records import ChatSettings, Role

_REASONING = re.compile(r'<details type="reasoning"[^>]*>\s*(?:<summary>[^<]*</summary>)?(.*?)</details>\s*', re.DOTALL)
_CALLS = re.compile(r'<details type="(?:tool_calls|code_interpreter)"[^>]*>.*?</details>\s*', re.DOTALL)
_TAGGED_THOUGHT = re.compile(r"\s*<(think|thinking)>(?P<thought>.*?)(</\1>\s*|\Z)", re.DOTALL | re.IGNORECASE)
_NO_TEXT = "[A picture or file that was not imported]"
_UNKNOWN = "this is not an export of Redline, ChatGPT, LM Studio or Open WebUI; choose another file"
_LATEST_S = 1e11  # later than any clock: larger times are not in seconds


class _Node(msgspec.Struct, frozen=True):
    """A message of a tree. role: "user", "assistant", or another, which is passed over."""

    parent: str | None
    children: Sequence[str]
    role: str
    text: str = ""
    thought: str = ""
    created_s: float = 0.0


# --- what is read -----------------------------------------------------------------------------


class _Author(msgspec.Struct, frozen=True):
    role: str = ""


class _Content(msgspec.Struct, frozen=True):
    content_type: str = "text"
    parts: list[Any] | None = None
    text: Any = None
    thoughts: Any = None


class _GptMessage(msgspec.Struct, frozen=True):
    author: _Author | None = None
    content: _Content | None = None
    create_time: float | None = None
    recipient: str | None = "all"
    metadata: dict[str, Any] | None = None


class _GptNode(msgspec.Struct, frozen=True):
    message: _GptMessage | None = None
    parent: str | None = None
    children: tuple[str, ...] | None = None


class _GptConversation(msgspec.Struct, frozen=True):
    mapping: dict[str, _GptNode]
    title: str | None = ""
    create_time: float | None = None
    update_time: float | None = None
    current_node: str | None = None


class _WebuiMessage(msgspec.Struct, frozen=True, rename="camel"):
    role: str
    content: str | list[Any] | None = None
    parent_id: str | None = None
    children_ids: tuple[str, ...] | None = None
    timestamp: float | None = None


class _WebuiHistory(msgspec.Struct, frozen=True, rename="camel"):
    messages: dict[str, _WebuiMessage]
    current_id: str | None = None


class _WebuiChat(msgspec.Struct, frozen=True):
    history: _WebuiHistory
    title: str | None = ""
    system: str | None = ""


class _WebuiConversation(msgspec.Struct, frozen=True):
    chat: _WebuiChat
    title: str | None = ""
    created_at: float | None = None
    updated_at: float | None = None


class _Style(msgspec.Struct, frozen=True):
    type: str = ""


class _Step(msgspec.Struct, frozen=True):
    content: list[Any] | str = ""
    style: _Style | None = None


class _Version(msgspec.Struct, frozen=True):
    role: str = ""
    content: list[Any] | str = ""
    steps: tuple[_Step, ...] = ()


class _StudioMessage(msgspec.Struct, frozen=True, rename="camel"):
    versions: list[_Version]
    currently_selected: int = 0


class _StudioConversation(msgspec.Struct, frozen=True, rename="camel"):
    messages: list[_StudioMessage]
    name: str | None = ""
    created_at: float | None = None
    system_prompt: str | None = ""


def read_documents(text: str) -> list[Document]:
    """Returns the conversations of an export, by Redline or another program. Empty ones of other programs are left out.
    Raises StoreError: what is wrong with it, in a line."""
    if len(text) > MOST_CHARACTERS or read_header(text) is not None:
        return [read_document(text)]
    try:
        data = json.loads(text)  # accepts half an emoji, as at the end of a text that was cut; msgspec does not
        given = data if isinstance(data, list) else [data]
        first = next((one for one in given if isinstance(one, dict)), {})
        read = next((read for key, read in _READERS.items() if key in first), None)
        documents = [read(one) for one in given] if read is not None else None
    except msgspec.ValidationError as error:
        why = " ".join(str(error).split())
        raise StoreError(f"this export cannot be imported: {why}; nothing was changed") from error
    except (ValueError, RecursionError) as error:
        raise StoreError(_UNKNOWN) from error
    if documents is None:
        raise StoreError(_UNKNOWN)
    return _with_messages(documents)


def _with_messages(documents: list[Document]) -> list[Document]:
    if not (found := [document for document in documents if document.messages]):
        raise StoreError("there is no message in this export; choose another file")
    return found


def _chatgpt(given: Any) -> Document:
    one = msgspec.convert(given, _GptConversation)
    nodes: dict[str, _Node] = {}
    for key, node in one.mapping.items():
        message = node.message or _GptMessage()
        said, thought = _gpt_texts(message)
        hidden = (message.metadata or {}).get("is_visually_hidden_from_conversation") is True
        spoken = message.recipient in (None, "all") and not hidden
        role = message.author.role if spoken and message.author is not None else ""
        nodes[key] = _Node(node.parent, node.children or (), role, said, thought, message.create_time or 0.0)
    return _document(one.title, (one.create_time, one.update_time), nodes, one.current_node)


def _gpt_texts(message: _GptMessage) -> tuple[str, str]:
    """Returns what a message says and what was thought."""
    content = message.content or _Content()
    text = content.text if isinstance(content.text, str) else ""
    if content.content_type == "thoughts":
        given = content.thoughts if isinstance(content.thoughts, list) else []
        thoughts = [one.get("content") or "" for one in given if isinstance(one, dict)]
        return "", "\n\n".join(filter(None, map(str, thoughts)))
    if content.content_type == "code":
        return f"```\n{text}\n```", ""
    if content.content_type not in ("text", "multimodal_text"):
        return "", ""
    return _texts(content.parts or text), ""


def _webui(given: Any) -> Document:
    one = msgspec.convert(given, _WebuiConversation)
    nodes: dict[str, _Node] = {}
    for key, message in one.chat.history.messages.items():
        said = _texts(message.content or "")
        thoughts = [_unquoted(found) for found in _REASONING.findall(said)]
        said = _CALLS.sub("", _REASONING.sub("", said)) if message.role == "assistant" else said
        links = (message.parent_id, message.children_ids or ())
        nodes[key] = _Node(*links, message.role, said, "\n\n".join(thoughts), message.timestamp or 0.0)
    times = (one.created_at, one.updated_at)
    return _document(one.title or one.chat.title, times, nodes, one.chat.history.current_id, one.chat.system or "")


def _unquoted(thought: str) -> str:
    """Returns a thought, whose lines Open WebUI quotes with "> ", and in later versions escapes as HTML."""
    thought = thought.strip()
    thought = html.unescape(thought) if thought.startswith("&gt;") else thought
    return thought.removeprefix("> ").replace("\n> ", "\n")


def _studio(given: Any) -> Document:
    one = msgspec.convert(given, _StudioConversation)
    nodes: dict[str, _Node] = {}
    parent: str | None = None
    for place, message in enumerate(one.messages):
        for number, version in enumerate(message.versions):
            thinks = [step.style is not None and step.style.type == "thinking" for step in version.steps]
            said = [_texts(step.content) for step in version.steps]
            text = "".join(part for part, is_thought in zip(said, thinks, strict=True) if not is_thought)
            thought = "".join(part for part, is_thought in zip(said, thinks, strict=True) if is_thought)
            nodes[f"{place}.{number}"] = _Node(parent, (), version.role, _texts(version.content) + text, thought)
        if message.versions:
            parent = f"{place}.{max(0, min(message.currently_selected, len(message.versions) - 1))}"
    return _document(one.name, (one.created_at, one.created_at), nodes, parent, one.system_prompt or "")


_READERS = {"mapping": _chatgpt, "chat": _webui, "messages": _studio}


def _texts(content: list[Any] | str) -> str:
    """Returns the texts of a content, which may have other parts, such as pictures."""
    if isinstance(content, str):
        return content
    texts = [part.get("text", _NO_TEXT) if isinstance(part, dict) else part for part in content]
    return "\n\n".join(text for text in texts if isinstance(text, str) and text)


# --- from a tree to a document ----------------------------------------------------------------


def _document(
    title: str | None,
    times: tuple[float | None, float | None],
    nodes: Mapping[str, _Node],
    current: str | None,
    system: str = "",
) -> Document:
    """Returns a tree as a document. times: of its beginning and of its last change. current: the end of the branch that
    is shown."""
    if len(nodes) > MOST_MESSAGES:
        raise StoreError(f"a conversation has {len(nodes):,} messages, but at most {MOST_MESSAGES:,} can be read")
    messages, ends = _Writer(nodes).write()
    shown = dict[int | None, int]()
    branch = set(_ancestors(nodes, current))
    for place, (message, end) in enumerate(zip(messages, ends, strict=True)):
        if end in branch or message.parent not in shown:
            shown[message.parent] = place
    return Document(
        messages=tuple(replace(message, shown=shown.get(place)) for place, message in enumerate(messages)),
        title=clean_title(title or ""),
        created_s=_seconds(times[0] or 0.0),
        updated_s=_seconds(times[1] or times[0] or 0.0),
        settings=ChatSettings(system=clean(system)),
        shown=shown.get(None),
    )


class _Writer:
    """Writes the questions and replies of a tree, parents first. Messages of the assistant that follow each other, with
    calls of tools between them, are one reply."""

    def __init__(self, nodes: Mapping[str, _Node]) -> None:
        self._nodes = nodes
        self._below = _below(nodes)
        self._messages: list[MessageDocument] = []
        self._ends: list[str] = []  # of each message, the node that it ends with
        self._characters = 0

    def write(self) -> tuple[list[MessageDocument], list[str]]:
        """Returns the messages, and the last node of each."""
        order = self._order()
        if len(order) != len(self._nodes):
            raise StoreError("a conversation cannot be imported: its messages follow each other in a circle")
        goes_on: set[str] = set()  # nodes after which the assistant speaks next, at least on one branch
        for key in reversed(order):
            below = self._below.get(key, ())
            if any(self._nodes[one].role == "assistant" or (self._passes(one) and one in goes_on) for one in below):
                goes_on.add(key)
        state: dict[str, tuple[int | None, _Node | None]] = {}  # after each node: the last message, a reply so far
        for key in order:
            node = self._nodes[key]
            above, reply = state.get(node.parent or "", (None, None))
            if node.role == "assistant":
                reply = _joined(reply, _told_apart(node))
            if reply is not None and (node.role == "user" or key not in goes_on):
                end = node.parent or "" if node.role == "user" else key
                above, reply = self._add(above, "assistant", reply, end), None
            if node.role == "user":
                above = self._add(above, "user", node, key)
            state[key] = above, reply
        return self._messages, self._ends

    def _passes(self, key: str) -> bool:
        return self._nodes[key].role not in ("user", "assistant")

    def _order(self) -> list[str]:
        """Returns the nodes, parents first, and versions in their order."""
        order: list[str] = []
        stack = list(reversed(self._below.get(None, ())))
        while stack:
            order.append(key := stack.pop())
            stack += reversed(self._below.get(key, ()))
        return order

    def _add(self, above: int | None, role: Role, node: _Node, end: str) -> int | None:
        """Adds a message and returns its place; a reply that says nothing is left out."""
        if role == "assistant":
            if not node.text and not node.thought:
                return above
            if above is None or self._messages[above].role == "assistant":
                above = self._add(above, "user", _Node(None, (), "user"), end)
        self._characters += len(node.text) + len(node.thought)
        if len(self._messages) >= MOST_MESSAGES or self._characters > MOST_CHARACTERS:
            raise StoreError("a conversation is too large to be imported")
        self._messages.append(
            MessageDocument(
                role=role,
                text=clean(node.text),
                thought=clean(node.thought),
                created_s=_seconds(node.created_s),
                parent=above,
            )
        )
        self._ends.append(end)
        return len(self._messages) - 1


def _told_apart(node: _Node) -> _Node:
    """Returns a message of the assistant; a thought that tags mark where its text begins is no part of the text."""
    tagged = _TAGGED_THOUGHT.match(node.text)
    if tagged is None:
        return node
    thought = "\n\n".join(filter(None, (node.thought, tagged["thought"].strip())))
    return replace(node, text=node.text[tagged.end() :], thought=thought)


def _joined(reply: _Node | None, node: _Node) -> _Node:
    """Returns a reply with another message of the assistant at its end."""
    if reply is None:
        return node
    text = "\n\n".join(filter(None, (reply.text, node.text)))
    return replace(reply, text=text, thought="\n\n".join(filter(None, (reply.thought, node.thought))))


def _below(nodes: Mapping[str, _Node]) -> dict[str | None, list[str]]:
    """Returns the nodes below each node, of None the first ones, in the order that their parent says."""
    below: dict[str | None, list[str]] = {}
    for key, node in nodes.items():
        below.setdefault(node.parent if node.parent in nodes else None, []).append(key)
    for parent, keys in below.items():
        places = {key: place for place, key in enumerate(nodes[parent].children)} if parent is not None else {}
        keys.sort(key=lambda key: places.get(key, len(places)))
    return below


def _ancestors(nodes: Mapping[str, _Node], key: str | None) -> Iterator[str]:
    """Yields a node and those above it."""
    for _ in range(len(nodes)):
        if key is None or key not in nodes:
            return
        yield key
        key = nodes[key].parent


def _seconds(time: float) -> float:
    """Returns a time in Unix seconds that was given in seconds, milliseconds, microseconds or nanoseconds."""
    while _LATEST_S < time < math.inf:
        time /= 1000
    return time if 0 <= time < math.inf else 0.0
