"""Which shape of a turn a chat template takes, found by rendering small conversations with it.

Messages have no one form that every template reads. Some want the arguments of a call as text and some as an object;
some take one call a turn, or ids of nine letters; some know no system turn, or call a thought by another name; some
leave calls out. `find_shape` tries the forms in the order in which most templates want them, and takes the first that
loses nothing. `shaped` then writes any conversation in that form.
"""

import hashlib
import json
import re
import string
from collections.abc import Callable, Mapping, Sequence
from itertools import product, takewhile
from typing import Any, Literal

import msgspec

from engine.reply_text import Message
from models.call_text import call_text
from models.tool_formats import ToolFormat

Turn = dict[str, Any]
Turns = list[Turn]
Render = Callable[[Turns, Sequence[dict[str, Any]], bool], str | None]  # turns, tools, lists; None where it fails

THOUGHT_NAMES = ("reasoning_content", "thinking", "reasoning", "thought")
_SHORT_ID, _SYMBOLS = 9, string.ascii_letters + string.digits  # the ids that Mistral's templates insist on
_BETWEEN = "\n\n"  # texts that become one


class TurnShape(msgspec.Struct, frozen=True):
    """How a template wants its turns.

    content: as text, or as a list of parts, as templates of vision models want it. arguments: of a call, as an object
    or as JSON text. empty: the content of a turn without text. calls: all in one turn, one a turn, or as text in the
    content where the template knows none. ids: as they are, of nine letters, or the name of the function and the number
    of the call. results: in turns of their own role, or of the user's. thought: under the names that templates use, as
    a part of the content, or between tags in it. preamble: text before calls in the same turn, in the thought where the
    template takes only one of them, or in a turn of its own; lost where no form keeps it. bridge: the answer that must
    stand between a result and a question, "none" where none must. system: as a turn at the beginning, or within the
    first or the last question. later: whether a system turn is taken between others; if not, its text goes into the
    next question. repeats: whether turns of the same role may follow each other; if not, they are joined.
    assistant_first: whether the assistant may begin; if not, an empty question stands before it. lists: whether the
    template wants an empty list of tools where there are none. tells_tools: whether it describes tools without a system
    turn; if not, an empty one stands first.
    """

    content: Literal["text", "parts"] = "text"
    arguments: Literal["object", "text"] = "object"
    empty: Literal["", "none"] = ""
    calls: Literal["together", "apart", "text"] = "together"
    ids: Literal["any", "letters", "function"] = "any"
    results: Literal["tool", "user"] = "tool"
    thought: Literal["named", "part", "tags"] = "named"
    preamble: Literal["content", "thought", "turn", "lost"] = "content"
    bridge: Literal["", "none", "..."] = "none"
    system: Literal["turn", "first", "last"] = "turn"
    later: bool = True
    repeats: bool = True
    assistant_first: bool = True
    lists: bool = False
    tells_tools: bool = True


# --- writing a conversation in a shape ----------------------------------------------------------------------------


def shaped(
    messages: Sequence[Message], shape: TurnShape, tools: ToolFormat | None = None, offered: bool = False
) -> Turns:
    """Returns a conversation as a template of this shape reads it. tools: how the model writes calls, for templates
    that leave them out. offered: whether it is given tools."""
    if offered and not shape.tells_tools and all(message["role"] != "system" for message in messages):
        messages = [{"role": "system", "content": ""}, *messages]
    turns = _with_ids(_spread(messages, shape), shape)
    turns = _with_questions(turns, shape)
    return [_written(turn, shape, tools) for turn in turns]


def _spread(messages: Sequence[Message], shape: TurnShape) -> Turns:
    """Returns turns that hold what a template takes in one. The results of a turn stand in the order of its calls, as
    many templates write no ids; each follows its own call where calls stand apart."""
    turns: Turns = []
    place = 0
    while place < len(messages):
        message, place = dict(messages[place]), place + 1
        calls = list(message.get("calls") or ())
        results = [dict(one) for one in takewhile(_is_result, messages[place:])] if calls else []
        place += len(results)
        order = {call["id"]: number for number, call in enumerate(calls)}
        numbered = [(order.get(one.get("call_id"), number), one) for number, one in enumerate(results)]
        numbered.sort(key=lambda pair: pair[0])
        if calls and message["content"].strip() and shape.calls != "text":
            message = _without_preamble(message, shape, turns)
        each = shape.calls == "apart" and len(calls) > 1
        for number, call in enumerate(calls if each else ()):
            more = {} if number == 0 else {"content": "", "thought": ""}
            turns.append({**message, **more, "calls": [call]})
            turns += [one for of, one in numbered if of == number]
        turns += [one for of, one in numbered if of >= len(calls)] if each else [message, *(one for _, one in numbered)]
    return turns


def _is_result(message: Message) -> bool:
    return bool(message["role"] == "tool")


def _without_preamble(message: Turn, shape: TurnShape, turns: Turns) -> Turn:
    """Moves the text before calls to where the template takes it."""
    if shape.preamble == "turn":
        turns.append({"role": "assistant", "content": message["content"]})
        return message | {"content": ""}
    if shape.preamble == "thought" and message.get("thought", "").strip():
        thought = message["thought"].strip() + _BETWEEN + message["content"].strip()
        return message | {"content": "", "thought": thought}
    return message


def _with_ids(turns: Turns, shape: TurnShape) -> Turns:
    """Gives calls and results the ids that the template wants, and results the names of their functions."""
    names: dict[str, str] = {}
    ids: dict[str, str] = {}
    count = 0
    for turn in turns:
        turn["calls"] = [dict(call) for call in turn.get("calls") or ()]
        for call in turn["calls"]:
            names[call["id"]] = call["name"]
            ids[call["id"]] = call["id"] = _id_of(call, count, shape)
            count += 1
        if turn["role"] == "tool":
            given = turn.get("call_id", "")
            turn["name"] = turn.get("name") or names.get(given, "")
            turn["call_id"] = ids.get(given) or _id_of({"id": given, "name": turn["name"]}, count, shape)
    return turns


def _id_of(call: Mapping[str, Any], number: int, shape: TurnShape) -> str:
    given = str(call["id"])
    if shape.ids == "function":
        return given if re.fullmatch(r"functions\..+:\d+", given) else f"functions.{call['name']}:{number}"
    if shape.ids == "any" or (len(given) == _SHORT_ID and given.isascii() and given.isalnum()):
        return given
    digest = hashlib.blake2b(given.encode(), digest_size=_SHORT_ID).digest()
    return "".join(_SYMBOLS[byte % len(_SYMBOLS)] for byte in digest)


def _with_questions(turns: Turns, shape: TurnShape) -> Turns:
    """Puts what the template takes no turns for into questions, and joins turns of one role where it must. given: the
    turns for the template so far. waiting: system texts for the next question."""
    given: Turns = []
    waiting: list[str] = []
    last = max((place for place, turn in enumerate(turns) if turn["role"] == "user"), default=-1)
    for place, turn in enumerate(turns):
        first = all(one["role"] == "system" for one in given)
        if turn["role"] == "system" and not (shape.system == "turn" if first else shape.later):
            waiting.append(turn["content"])
            continue
        if turn["role"] == "tool" and shape.results == "user":
            turn = turn | {"role": "user"}
        if turn["role"] == "user" and given and given[-1]["role"] == "tool" and shape.bridge != "none":
            given.append({"role": "assistant", "content": shape.bridge})
        if turn["role"] == "user" and waiting and (shape.system != "last" or place == last):
            turn = turn | {"content": _BETWEEN.join([*waiting, turn["content"]])}
            waiting = []
        if turn["role"] == "assistant" and first and (waiting or not shape.assistant_first):
            given.append({"role": "user", "content": _BETWEEN.join(waiting)})
            waiting = []
        _append(given, turn, shape)
    if waiting:
        _append(given, {"role": "user", "content": _BETWEEN.join(waiting)}, shape)
    return given


def _append(given: Turns, turn: Turn, shape: TurnShape) -> None:
    """Adds a turn, or joins it to the last one of the same role where the template takes only one of them."""
    last = given[-1] if given else None
    joins = last is not None and last["role"] == turn["role"] != "tool" and not last.get("calls")
    if last is None or not joins or shape.repeats or (turn.get("calls") and shape.preamble == "turn"):
        given.append(turn)
        return
    thoughts = [one["thought"] for one in (last, turn) if one.get("thought")]
    texts = [one["content"] for one in (last, turn) if one["content"]]
    given[-1] = last | turn | {"content": _BETWEEN.join(texts), "thought": _BETWEEN.join(thoughts)}


def _written(turn: Turn, shape: TurnShape, tools: ToolFormat | None) -> Turn:
    """Returns a turn with the names that templates read."""
    content, thought, calls = turn["content"], turn.get("thought", "").strip(), turn.get("calls") or ()
    if calls and shape.calls == "text":
        content, calls = content + call_text(tools, calls), ()
    fields: Turn = {"role": turn["role"], "content": content}
    if shape.content == "parts":
        fields["content"] = [{"type": "text", "text": content}]
    if calls:
        fields["tool_calls"] = [_call(call, shape) for call in calls]
        if not content and shape.empty == "none":
            fields["content"] = None
    if thought:
        fields |= _with_thought(content, thought, shape)
    if turn["role"] == "tool":
        fields |= {"tool_call_id": turn.get("call_id", ""), "name": turn.get("name", "")}
    return fields


def _call(call: Mapping[str, Any], shape: TurnShape) -> Turn:
    arguments = call["arguments"] if shape.arguments == "text" else json.loads(call["arguments"])
    return {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": arguments}}


def _with_thought(content: str, thought: str, shape: TurnShape) -> Turn:
    if shape.thought == "part":
        text = [{"type": "text", "text": content}] if content else []
        return {"content": [{"type": "thinking", "thinking": thought}, *text]}
    if shape.thought == "tags":
        return {"content": f"<think>\n{thought}\n</think>\n\n{content}"}
    return dict.fromkeys(THOUGHT_NAMES, thought)


# --- finding the shape --------------------------------------------------------------------------------------------

_QUESTION = {"role": "user", "content": "question-of-the-probe"}
_SECOND = {"role": "user", "content": "second-of-the-probe"}
_ANSWER = {"role": "assistant", "content": "answer-of-the-probe"}
_SYSTEM = {"role": "system", "content": "system-of-the-probe"}
_CALLS = [
    {"id": f"call_of-the-probe-{number}", "name": name, "arguments": json.dumps({"probekey": f"probe-value-{number}"})}
    for number, name in enumerate(("probe_alpha", "probe_beta"))
]
_RESULTS = [
    {"role": "tool", "content": f"result-of-the-probe-{n}", "call_id": call["id"], "name": call["name"]}
    for n, call in enumerate(_CALLS)
]
_THOUGHT = "thought-of-the-probe"
PROBE_TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": call["name"],
            "description": "",
            "parameters": {"type": "object", "properties": {"probekey": {"type": "string"}}, "required": []},
        },
    }
    for call in _CALLS
]
_LIST = re.compile(r"""["']thinking["']:""")  # of parts, written as if it were text
# What is in the text of a call where the template writes its arguments, or a missing content, in the wrong form.
_WRONG = ("{'probekey", '\\"probekey', "None", '"{')


class _Probe:
    """Renders conversations in the shapes that are tried. offered: the tools that conversations with calls have."""

    def __init__(self, render: Render, offered: Sequence[dict[str, Any]], tools: ToolFormat | None) -> None:
        self._render, self._offered, self._tools = render, offered, tools

    def text(self, messages: Sequence[Message], shape: TurnShape, offered: bool = False) -> str | None:
        """Returns the rendering, None where the template fails."""
        turns = shaped(messages, shape, self._tools, offered and bool(self._offered))
        return self._render(turns, self._offered if offered else (), shape.lists)

    def shows(self, shape: TurnShape, messages: Sequence[Message], *texts: str) -> bool:
        """Returns whether all texts are in the rendering."""
        rendered = self.text(messages, shape)
        return rendered is not None and all(text in rendered for text in texts)

    def first(self, shape: TurnShape, good: Callable[[TurnShape], bool], **values: Sequence[Any]) -> TurnShape:
        """Returns the first shape with values of these for which `good` holds, `shape` where none does."""
        for chosen in product(*values.values()):
            tried = msgspec.structs.replace(shape, **dict(zip(values, chosen, strict=True)))
            if good(tried):
                return tried
        return shape


def find_shape(
    render: Render, template: str, takes_tools: bool = False, tools: ToolFormat | None = None, lists: bool = False
) -> TurnShape:
    """Returns the shape that a template takes; the usual one where it takes nothing. render: writes turns and tools
    with it. takes_tools: whether it reads tools. tools: how the model writes calls. lists: of the shape."""
    probe = _Probe(render, PROBE_TOOLS if takes_tools else (), tools)
    shape = _of_texts(probe, TurnShape(lists=lists))
    if takes_tools:
        name = PROBE_TOOLS[0]["function"]["name"]
        shape = probe.first(
            shape, lambda tried: name in (probe.text([_QUESTION], tried, True) or ""), tells_tools=(True, False)
        )
    shape = _of_calls(probe, shape)
    return _of_thoughts(probe, shape, "</think>" in template)


def written_call(render: Render, shape: TurnShape) -> tuple[str, str, str]:
    """Returns what a template writes for a call whose first argument is a text of two lines, "" where it fails; the
    name of the tool, and the id of the call."""
    call = {**_CALLS[0], "arguments": json.dumps({"probekey": "first line\nsecond line", "more": 3})}
    turn = {"role": "assistant", "content": "", "calls": [call]}
    # Some templates write a call only once its result is there.
    tried: list[list[Message]] = [[_QUESTION], [_QUESTION, turn], [_QUESTION, turn, _RESULTS[0]]]
    before, *wholes = (render(shaped(turns, shape, None, True), PROBE_TOOLS, shape.lists) or "" for turns in tried)
    whole = next((text for text in wholes if text.count(call["name"]) > before.count(call["name"])), "")
    shared = common_length(before, whole)
    within_tag = re.search(r"[<\[][^<>\[\]\s]*$", whole[:shared])
    text = whole[shared if within_tag is None else within_tag.start() :]
    return text.partition(_RESULTS[0]["content"])[0], str(call["name"]), _id_of(call, 0, shape)


def common_length(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Returns with how many of the same characters, or of other things, both begin."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _of_texts(probe: _Probe, shape: TurnShape) -> TurnShape:
    """Finds how turns of text alone may follow each other."""
    both = (_QUESTION["content"], _SECOND["content"])
    either = (True, False)

    def asks(tried: TurnShape) -> bool:
        return probe.shows(tried, [_QUESTION], _QUESTION["content"])

    def repeats(tried: TurnShape) -> bool:
        return probe.shows(tried, [_QUESTION, _SECOND], *both)

    def system(tried: TurnShape) -> bool:
        return probe.shows(tried, [_SYSTEM, _QUESTION], _SYSTEM["content"], both[0])

    def later(tried: TurnShape) -> bool:
        other = _SYSTEM | {"content": "later-instruction"}
        turns = [_SYSTEM, _QUESTION, _ANSWER, other, _SECOND]
        return probe.shows(tried, turns, _SYSTEM["content"], other["content"], *both)

    def begins(tried: TurnShape) -> bool:
        return probe.shows(tried, [_ANSWER, _QUESTION], _ANSWER["content"], both[0])

    shape = probe.first(shape, asks, content=("text", "parts"))
    shape = probe.first(shape, repeats, repeats=either)
    shape = probe.first(shape, system, system=("turn", "first"))
    shape = probe.first(shape, later, later=either)
    return probe.first(shape, begins, assistant_first=either)


def _of_calls(probe: _Probe, shape: TurnShape) -> TurnShape:
    """Finds how a call and its result are given, then two of them, what may follow them, and text before them."""
    base = probe.text([_QUESTION], shape, offered=True) or ""

    def writes(tried: TurnShape, count: int = 1, thought: str = "") -> bool:
        calls = {"role": "assistant", "content": "", "calls": _CALLS[:count], "thought": thought}
        text = probe.text([_QUESTION, calls, *_RESULTS[:count]], tried, offered=True)
        if text is None or any(text.count(wrong) > base.count(wrong) for wrong in _WRONG):
            return False
        wanted = [value for n in range(count) for value in (f"probe-value-{n}", f"result-of-the-probe-{n}")]
        names = [call["name"] for call in _CALLS[:count]]
        return (
            all(one in text for one in wanted)
            and all(text.count(name) > base.count(name) for name in names)
            and (not thought or thought in text)
        )

    # The last one changes first: what templates differ in most.
    order: dict[str, Sequence[Any]] = {
        "results": ("tool", "user"),
        "ids": ("any", "function", "letters"),
        "empty": ("", "none"),
        "arguments": ("object", "text"),
    }
    found = probe.first(shape, writes, calls=("together", "text"), **order)
    if found.calls == "together":
        found = probe.first(found, lambda tried: writes(tried, 2), calls=("together", "apart", "text"))
    found = _of_loops(probe, found)
    return _of_preambles(probe, found, writes(found, thought=_THOUGHT))


def _of_preambles(probe: _Probe, shape: TurnShape, thinks: bool) -> TurnShape:
    """Finds where text before calls goes. thinks: whether the template shows the thoughts before calls; then text and
    thought must both be there. What the next turns keep of it comes second: some templates drop it with the thought."""

    def text_of(tried: TurnShape, thought: str, *more: Message) -> str | None:
        said = [
            {
                "role": "assistant",
                "content": f"text-before-{n}",
                "calls": [call],
                "thought": thought and f"{thought}-{n}",
            }
            for n, call in enumerate(_CALLS)
        ]
        turns: list[Message] = [_QUESTION, said[0], _RESULTS[0], said[1], _RESULTS[1], *more]
        return probe.text(turns, tried, offered=True)

    def keeps(tried: TurnShape, *more: Message) -> bool:
        wanted = [f"{what}-{n}" for n in range(2) for what in ("text-before", "probe-value", "result-of-the-probe")]
        plain = text_of(tried, "", *more)
        whole = text_of(tried, _THOUGHT, *more) if thinks and not more else plain
        thoughts = [f"{_THOUGHT}-{n}" for n in range(2)] if thinks and not more else []
        return (
            plain is not None
            and whole is not None
            and all(one in plain for one in wanted)
            and all(one in whole for one in [*wanted, *thoughts])
        )

    forms = ("content", "thought", "turn")
    later = (_ANSWER, _SECOND)
    best = probe.first(shape, lambda tried: keeps(tried) and keeps(tried, *later), preamble=forms)
    if keeps(best) and keeps(best, *later):
        return best
    lost = msgspec.structs.replace(shape, preamble="lost")
    return probe.first(lost, lambda tried: keeps(tried) and text_of(tried, "", *later) is not None, preamble=forms)


def _of_loops(probe: _Probe, shape: TurnShape) -> TurnShape:
    """Finds what must stand between a result and a question, and whether a system text outlives a result."""
    calls = {"role": "assistant", "content": "", "calls": _CALLS[:1]}
    asked: list[Message] = [_SYSTEM, _QUESTION, calls, _RESULTS[0]]

    def goes_on(tried: TurnShape) -> bool:
        return _SECOND["content"] in (probe.text([*asked[1:], _SECOND], tried, offered=True) or "")

    def tells(tried: TurnShape) -> bool:
        return _SYSTEM["content"] in (probe.text(asked, tried, offered=True) or "")

    shape = probe.first(shape, goes_on, bridge=("none", "", "..."))
    return shape if tells(shape) else probe.first(shape, tells, system=("last", "first"))


def _of_thoughts(probe: _Probe, shape: TurnShape, reads_tags: bool) -> TurnShape:
    """Finds under which name a thought is taken; the usual names where the template leaves earlier thoughts out.
    reads_tags: whether the template looks for tags in the content."""
    answer = _ANSWER | {"thought": _THOUGHT}
    calls = {"role": "assistant", "content": "", "calls": _CALLS[:1], "thought": _THOUGHT}
    tries: list[tuple[list[Message], bool]] = [
        ([_QUESTION, calls, _RESULTS[0]], True),
        ([_QUESTION, answer], False),
        ([_QUESTION, answer, _SECOND], False),
    ]
    forms: list[Literal["named", "part", "tags"]] = ["named", "part"]
    tagged = probe.text([_QUESTION, answer, _SECOND], msgspec.structs.replace(shape, thought="tags"))
    if reads_tags and tagged is not None and _THOUGHT not in tagged:  # it takes them out of earlier answers
        forms.append("tags")
    for one, offered in tries:
        for form in forms:
            tried = msgspec.structs.replace(shape, thought=form)
            text = probe.text(one, tried, offered)
            if text is not None and _THOUGHT in text and _LIST.search(text) is None:
                return tried
    return shape
