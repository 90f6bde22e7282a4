"""A model folder's tokenizer, as the engine needs it.

Text becomes ids in a process of its own (`models.tokenizer_process`), as tokenizer and chat template come from
strangers; the tokenizers library turns ids back into text here, as they come.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from engine.errors import ModelError, RedlineError, UsageError
from engine.reply_channels import Parser
from engine.reply_text import Message
from models import tokenizer_process
from models.chat_templates import read_templates
from models.grammar_matcher import GrammarMatchers
from models.reply_format import reply_format, text_tags
from models.template_switches import Switches, Variables
from models.tokenizer_process import WorkerLostError
from models.tokenizer_worker import (
    Answer,
    Calls,
    Chat,
    Compare,
    Encode,
    Ids,
    Open,
    Opened,
    ParseCalls,
    Probe,
    Probed,
    Refused,
    Rendered,
    Request,
    Shared,
    Unknown,
)
from models.tool_parsers import ParsedCall
from models.turn_shape import TurnShape, shaped

# Limits, in seconds on a processor.
OPEN_S = 20.0  # to read a tokenizer; those of 262,144 tokens take 3 s
RENDER_S = 2.0  # for a template to run; it takes milliseconds
PROBE_S = 5.0  # for it to be tried on a hundred small conversations
PARSE_S = 2.0  # for a call of a tool to be parsed; likewise
ENCODE_S, CHARACTERS_PER_S = 5.0, 100_000  # for text to become ids; a tenth of the usual speed
# Bounded, because a template that opens the call a thousand times would be read a thousand times to its end.
_PRINTS_DATE = re.compile(r"""strftime_now\(\s{0,9}(?P<quote>["'])(?P<format>[^"'\n]{0,99})(?P=quote)\s{0,9}\)""")
_OTHER_MODEL = "it fails for every conversation, so download the model again, or choose another"
NO_TEMPLATE = "this model has no chat template: it continues the text of the messages instead of answering"
LONGEST_OPENING = 64  # tokens of a prompt's end, in which the template may have opened a thought
_NO_IDS = "the model's tokenizer could not encode this text"
_CHANGE = "change or delete the message that it is about, start a new conversation, or choose another model"
# A reply and a question that stand for any others: no two replies begin alike.
_REPLIES = ({"role": "assistant", "content": "A"}, {"role": "assistant", "content": "z", "thought": "T"})
_NEXT = {"role": "user", "content": "q"}
_keys = count()


def _never() -> bool:
    return False


class RefusedError(ModelError):
    """The chat template raised an error for a conversation."""


class _Refusal(WorkerLostError):
    """The libraries raised an error, and the worker goes on."""


class FolderTokenizer:
    """Implements `engine.reply_text.Tokenizer` for a model folder that has a tokenizer.json.

    eos: ids that end a reply, from the model's configuration and the tokenizer's own. format: how the model marks its
    thoughts, None if it has no tokens for that. switches: those of its chat template. takes_tools: whether that tells
    the model of tools. tools: how the model writes calls of them, None where that is not known. added: the tokens that
    are never split, by name. matchers: makes the matchers of grammars. rows: of the model's embedding, which reads past
    its end for ids that it has no row for.
    """

    def __init__(self, folder: Path, eos: Sequence[int] = (), rows: int | None = None) -> None:
        self._folder, self._rows = folder, rows
        self._day: date | None = None  # that the template prints, None for today
        self._key = next(_keys)
        self._withdrawn: dict[tuple[object, ...], int] = {}
        opened = self._open(_never)
        with _boundary(f"the tokenizer in {folder} cannot be read"):
            self._fast = Tokenizer.from_str(opened.decoder)
        self._template, self._tool_template = opened.template, opened.tool_template
        self._digest = opened.digest
        self.eos = frozenset(eos) | (frozenset() if opened.eos is None else {opened.eos})
        self.matchers = GrammarMatchers(opened.decoder, self.eos)
        self.added = {token.content: number for number, token in self._fast.get_added_tokens_decoder().items()}
        templates = "\n".join({opened.template or "", opened.tool_template or ""})
        self.format, self._tags = reply_format(self.added, self.pieces, templates), text_tags(templates)
        self._tag_tokens = {self.added[tag]: tag for tag in self._tags.texts & self.added.keys()}
        probed = {template: self._probe(template) for template in {opened.template, opened.tool_template} if template}
        none = Probed(Switches(), TurnShape(), works=False)
        first = probed.get(opened.template or "", none)
        second = probed.get(opened.tool_template or "", first)
        self.switches, self._shape, self._tool_shape = first.switches, first.shape, second.shape
        self._works, tool_switches = first.works or second.works, second.switches
        self.takes_tools = bool(tool_switches.tools)
        self.tools = second.tools if self.takes_tools else None

    @property
    def has_template(self) -> bool:
        return bool(self._template)

    @property
    def note(self) -> str:
        """What the user should know of the chat template, "" if there is one."""
        return "" if self.has_template else NO_TEMPLATE

    def on(self, day: date) -> FolderTokenizer:
        """Returns the same tokenizer, whose chat template prints `day` instead of today's date, if it prints a date.

        transformers lets no function into a template, so the date stands in it as text.
        """
        other = copy(self)
        other._day = day
        other._template, other._tool_template = (_dated(one, day) for one in (self._template, self._tool_template))
        return other

    def chat(
        self,
        messages: Sequence[Message],
        cancelled: Callable[[], bool] = _never,
        tools: Sequence[dict[str, Any]] = (),
        **switches: Any,
    ) -> list[int]:
        """Returns the ids of the conversation and of the opening of the assistant's turn. A model without a chat
        template gets the texts of the messages as they are, a blank line between them.

        Earlier thoughts are given to the template, which takes those that its model is to see again, mostly none.
        tools: as OpenAI describes them. switches: as `models.template_switches.Switches.variables`. What the template
        does not have changes nothing.
        Raises ModelError where the template fails or goes beyond the limits, StoppedError once it was cancelled.
        """
        template = self._tool_template if tools else self._template
        if not self.has_template or template is None:
            return self._encode("\n\n".join(m["content"] for m in messages), True, cancelled)
        for message in messages:
            _check_text(message["content"])
            _check_text(message.get("thought", ""))
        try:
            return self._rendered(messages, template, cancelled, tools, switches)
        except RefusedError:
            plain = [self._without_marks(message) for message in messages]
            if plain == list(messages):
                raise
            return self._rendered(plain, template, cancelled, tools, switches)

    def stable_prompt_lengths(
        self,
        messages: Sequence[Message],
        cancelled: Callable[[], bool] = _never,
        tools: Sequence[dict[str, Any]] = (),
        others: bool = False,
        **switches: Any,
    ) -> tuple[int, ...]:
        """Returns with how many of this prompt's tokens the next one begins, whatever the reply is: ascending, for a
        next question and for the result of a call. Templates withdraw the end of a prompt, such as <think>, and
        earlier thoughts. others: also for a conversation with the same system prompt and tools, and another question.
        Empty where the template does not say. Arguments and errors as of `chat`."""
        template = self._tool_template if tools else self._template
        if template is None:
            return ()
        shape = self._tool_shape if tools else self._shape
        nexts: list[list[Message]] = [[*_REPLIES[:1], _NEXT], [*_REPLIES[1:], _NEXT]]
        if tools:
            called = {"id": "c" * 9, "name": tools[0]["function"]["name"], "arguments": "{}"}
            result = {"role": "tool", "content": "r", "call_id": called["id"]}
            nexts.append([{**_REPLIES[1], "content": "", "calls": [called]}, result])
        now, *later = (shaped([*messages, *more], shape, self.tools, bool(tools)) for more in ([], *nexts))
        if others:
            system = [message for message in messages[:1] if message["role"] == "system"]
            later.append(shaped([*system, _NEXT], shape, self.tools, bool(tools)))
        variables = self._variables(template, switches)
        request = Compare(self._key, now, later, template, variables, list(tools), shape.lists)
        with suppress(WorkerLostError):
            characters = sum(len(message["content"]) for message in messages)
            found = self._answer(request, RENDER_S + _encoding_s(characters), cancelled)
            return tuple(found.lengths) if isinstance(found, Shared) else ()
        return ()

    def withdrawn_tokens(self, tools: Sequence[dict[str, Any]] = (), **switches: Any) -> int:
        """Returns how many tokens at the end of a prompt the next one may lack, such as those of <think>, as a short
        conversation shows; 0 where the template does not say. tools, switches: as of `chat`."""
        key = (bool(tools), *sorted(switches.items()))
        if key not in self._withdrawn:
            self._withdrawn[key] = 0
            with suppress(ModelError):
                length = len(self.chat([_NEXT], tools=tools[:1], **switches))
                lengths = self.stable_prompt_lengths([_NEXT], tools=tools[:1], **switches)
                self._withdrawn[key] = length - min(lengths, default=length)
        return self._withdrawn[key]

    def _rendered(
        self,
        messages: Sequence[Message],
        template: str,
        cancelled: Callable[[], bool],
        tools: Sequence[dict[str, Any]],
        switches: dict[str, Any],
    ) -> list[int]:
        shape = self._tool_shape if tools else self._shape
        turns = shaped(messages, shape, self.tools, bool(tools))
        request = Chat(self._key, turns, template, self._variables(template, switches), list(tools), shape.lists)
        rendered: list[int] = []

        def encoding_s(answer: Answer) -> float | None:
            if not isinstance(answer, Rendered):
                return None
            rendered.append(answer.characters)
            return _encoding_s(answer.characters)

        try:
            return self._checked(self._ask(request, RENDER_S, cancelled, encoding_s))
        except WorkerLostError as error:
            if rendered:
                raise ModelError(f"{_NO_IDS} ({error}): {_CHANGE}") from error
            kind = RefusedError if isinstance(error, _Refusal) else ModelError
            raise kind(f"{self._no_text()} ({error}): {_CHANGE if self._works else _OTHER_MODEL}") from error

    def _variables(self, template: str, switches: dict[str, Any]) -> Variables:
        """Returns the variables of the template beside messages and tools. Firefunction's wants the date."""
        today: Variables = {"datetime": (self._day or date.today()).isoformat()} if "datetime" in template else {}
        return {**today, **self.switches.variables(**switches)}

    def _without_marks(self, message: Message) -> Message:
        """Returns a message of the assistant in which the names of special tokens are no longer such names: some
        templates refuse what an earlier answer says about them."""
        if message["role"] != "assistant":
            return message
        found = {name for name in self.added if len(name) > 2 and name.strip()}
        pattern = re.compile("|".join(re.escape(name) for name in sorted(found, key=len, reverse=True)) or r"(?!)")
        texts = {key: message[key] for key in ("content", "thought") if message.get(key)}
        return {**message, **{key: pattern.sub(_apart, text) for key, text in texts.items()}}

    def calls(self, text: str, tools: Sequence[dict[str, Any]]) -> list[ParsedCall]:
        """Returns the calls in what the model wrote between its marks; none where it is anything else, or where a
        parser takes too long for it."""
        assert self.tools is not None
        request = ParseCalls(self.tools, text, list(tools))
        with suppress(WorkerLostError):
            answer = tokenizer_process.shared().ask(request, PARSE_S, _never, lambda answer: None)
            return answer.calls if isinstance(answer, Calls) else []
        return []

    def encode(self, text: str, cancelled: Callable[[], bool] = _never) -> list[int]:
        """Returns the ids of plain text, with the special tokens that the model wants around it. Raises StoppedError
        once it was cancelled."""
        return self._encode(text, True, cancelled)

    def pieces(self, text: str) -> list[int]:
        """Ids of a part of a text, without special tokens around it."""
        return self._encode(text, False)

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids, without special tokens."""
        return str(self._fast.decode(list(ids), skip_special_tokens=True))

    def piece(self, token: int) -> str:
        """Returns the text of one id inside a text, its leading space included; the name of a special token."""
        once, twice = (self._fast.decode([token] * n, skip_special_tokens=False) for n in (1, 2))
        return str(twice[len(once) :])

    def channels(self, prompt: Sequence[int]) -> Parser:
        """Returns what tells thought and answer of the reply to a prompt apart: by tokens, or by text where the model
        has no tokens for that."""
        if self.format is not None:
            return self.format.after(prompt)
        end = self._fast.decode(list(prompt[-LONGEST_OPENING:]), skip_special_tokens=False)
        return self._tags.after(end, self.piece, self._tag_tokens)

    def stream(self, special: bool = False) -> FolderStream:
        """Returns a fresh detokenizer. special: whether special tokens have their names as text."""
        return FolderStream(self._fast, special)

    # --- the worker ----------------------------------------------------------------------------

    def _encode(self, text: str, special: bool, cancelled: Callable[[], bool] = _never) -> list[int]:
        _check_text(text)
        try:
            return self._checked(self._ask(Encode(self._key, text, special), _encoding_s(len(text)), cancelled))
        except WorkerLostError as error:
            raise ModelError(f"{_NO_IDS} ({error}): download the model again, or choose another") from error

    def _probe(self, template: str) -> Probed:
        """Tries a template. One that cannot be tried has no switches; what is wrong is said when it is used."""
        with suppress(WorkerLostError):
            answer = self._answer(Probe(self._key, template), PROBE_S, _never)
            if isinstance(answer, Probed):
                return answer
        return Probed(Switches(), TurnShape(), works=False)

    def _ask(
        self,
        request: Chat | Encode,
        limit_s: float,
        cancelled: Callable[[], bool],
        more: Callable[[Answer], float | None] = lambda answer: None,
    ) -> list[int]:
        """Returns the ids that answer a request. Raises WorkerLostError where there are none."""
        answer = self._answer(request, limit_s, cancelled, more)
        assert isinstance(answer, Ids), answer
        return answer.ids

    def _answer(
        self,
        request: Chat | Encode | Compare | Probe,
        limit_s: float,
        cancelled: Callable[[], bool],
        more: Callable[[Answer], float | None] = lambda answer: None,
    ) -> Answer:
        """Returns the answer to a request. A worker that was started after the folder was read reads it again."""
        answer = tokenizer_process.shared().ask(request, limit_s, cancelled, more)
        if isinstance(answer, Unknown):
            if self._open(cancelled).digest != self._digest:
                raise ModelError(f"{self._folder}: its tokenizer has changed since it was loaded: load the model again")
            answer = tokenizer_process.shared().ask(request, limit_s, cancelled, more)
        if isinstance(answer, Refused):
            raise _Refusal(answer.reason)
        return answer

    def _open(self, cancelled: Callable[[], bool]) -> Opened:
        """Has the worker read the folder. Raises ModelError."""
        request: Request = Open(self._key, str(self._folder.absolute()))
        try:
            answer = tokenizer_process.shared().ask(request, OPEN_S, cancelled, lambda answer: None)
            if isinstance(answer, Refused):
                raise WorkerLostError(answer.reason)
        except WorkerLostError as error:
            what = f"the tokenizer in {self._folder} cannot be read ({error})"
            raise ModelError(f"{what}: download the model again, or choose another") from error
        assert isinstance(answer, Opened), answer
        return answer

    def _no_text(self) -> str:
        """Returns that the template failed, and where it is."""
        return f"{self._folder / read_templates(self._folder).file}: the chat template failed for this conversation"

    def _checked(self, ids: list[int]) -> list[int]:
        """Returns ids that the model knows. Raises ModelError for others."""
        if self._rows is not None and ids and max(ids) >= self._rows:
            name = str(self._fast.id_to_token(max(ids)))[:40]
            has = f"but the model has only {self._rows} tokens"
            what = f"the text contains the token {name!r} with id {max(ids)}, {has}"
            raise ModelError(f"{what}: leave it out, or choose another model")
        return ids


class FolderStream:
    """Detokenizes one reply with the tokenizers library's DecodeStream.

    That raises where bytes that were written one by one turn out to be no character (tokenizers 0.23.3). They are then
    U+FFFD, as in a text that is decoded whole, and the stream begins anew behind them.
    """

    def __init__(self, tokenizer: Tokenizer, special: bool = False) -> None:
        self._tokenizer, self._special = tokenizer, special
        self._stream = DecodeStream(skip_special_tokens=not special)
        self._before: list[int] = []  # the last token whose text was given
        self._held: list[int] = []  # tokens since then

    def push(self, token: int) -> str:
        self._held.append(token)
        try:
            text = self._stream.step(self._tokenizer, token) or ""
        except Exception:  # noqa: BLE001  the library raises no narrower type
            text = self.finish()
            self._stream = DecodeStream(ids=[token], skip_special_tokens=not self._special)
            self._before, self._held = [token], []
            return text
        if text:
            self._before, self._held = [token], []
        return text

    def finish(self) -> str:
        before, whole = (
            self._tokenizer.decode(ids, skip_special_tokens=not self._special)
            for ids in (self._before, [*self._before, *self._held])
        )
        return str(whole[len(before) :])


def _dated(template: str | None, day: date) -> str | None:
    """Returns a template in which every date that it would print today is that of `day`."""
    if template is None:
        return None
    return _PRINTS_DATE.sub(lambda call: json.dumps(day.strftime(call["format"])), template)


def _apart(name: re.Match[str]) -> str:
    """Returns the name of a token with a space in it."""
    return f"{name[0][0]} {name[0][1:]}"


def _encoding_s(characters: int) -> float:
    return ENCODE_S + characters / CHARACTERS_PER_S


def _check_text(text: str) -> None:
    """Raises UsageError for text that is not Unicode: Python turns bytes that are not UTF-8 into lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"the prompt is not Unicode text ({error.reason}): give it as UTF-8") from error


@contextmanager
def _boundary(what: str) -> Iterator[None]:
    """Turns what the libraries raise for a model's tokenizer or template into a ModelError."""
    try:
        yield
    except (RedlineError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # broad: a template is a program; tokenizers raises bare Exception, or Rust's panic
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise ModelError(f"{what} ({reason}): download the model again, or choose another") from error
