"""A model folder's tokenizer, as the engine needs it.

transformers reads the folder and renders the chat template (Jinja, sandboxed; no code of the
model's is run); the tokenizers library turns ids back into text as they come.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from datetime import date
from pathlib import Path
from typing import Any

from tokenizers.decoders import DecodeStream

from engine.errors import ModelError, RedlineError, UsageError
from engine.reply_channels import ChannelParser
from engine.text import Message
from models.reply_format import Switches, reply_format, switches_of

_PRINTS_DATE = re.compile(r"""strftime_now\(\s*(?P<quote>["'])(?P<format>.*?)(?P=quote)\s*\)""")


class FolderTokenizer:
    """Implements `engine.text.Tokenizer` for a model folder that has a tokenizer.json.

    eos: ids that end a reply, from the model's configuration and the tokenizer's own. format: how the model marks its
    thoughts, None if it has no tokens for that. switches: those of its chat template. rows: of the model's embedding,
    which reads past its end for ids that it has no row for.
    """

    def __init__(self, folder: Path, eos: Sequence[int] = (), rows: int | None = None) -> None:
        from transformers import AutoTokenizer

        with _boundary(f"the tokenizer in {folder} cannot be read"):
            self._tokenizer: Any = AutoTokenizer.from_pretrained(
                str(folder), trust_remote_code=False, local_files_only=True
            )
            self._fast: Any = self._tokenizer.backend_tokenizer
            self._fast.no_truncation()  # a tokenizer.json may keep the settings of whoever trained with it
            self._fast.no_padding()
            own = self._tokenizer.eos_token_id
        self._rows = rows
        self._template: str | None = None  # in place of the folder's
        self.eos = frozenset(eos) | (frozenset() if own is None else {own})
        added = {token.content: number for number, token in self._fast.get_added_tokens_decoder().items()}
        self.format = reply_format(added, self.pieces)
        self.switches = switches_of(self._tokenizer.get_chat_template()) if self.has_template else Switches()

    @property
    def has_template(self) -> bool:
        return bool(self._tokenizer.chat_template)

    def on(self, day: date) -> FolderTokenizer:
        """Returns the same tokenizer, whose chat template prints `day` instead of today's date, if it prints a date.

        transformers lets no function into a template, so the date stands in it as text.
        """
        other = copy(self)
        if self.has_template:
            template: str = self._tokenizer.get_chat_template()
            other._template = _PRINTS_DATE.sub(lambda call: json.dumps(day.strftime(call["format"])), template)
        return other

    def chat(self, messages: Sequence[Message], **switches: Any) -> list[int]:
        """Returns the ids of the conversation and of the opening of the assistant's turn. A model without a chat
        template gets the texts of the messages as they are, a blank line between them.

        Earlier thoughts are given to the template, which takes those that its model is to see again, mostly none.
        switches: as `models.reply_format.Switches.variables`; those that the template does not have change nothing.
        """
        if not self.has_template:
            return self.encode("\n\n".join(m["content"] for m in messages))
        for message in messages:
            _check_text(message["content"])
            _check_text(message.get("thought", ""))
        with _boundary("the model's chat template refuses this conversation"):
            text = self._tokenizer.apply_chat_template(
                [_for_template(message) for message in messages],
                chat_template=self._template,
                add_generation_prompt=True,
                tokenize=False,
                **self.switches.variables(**switches),
            )
            text.encode()
        return self._ids(text, special=False)

    def encode(self, text: str) -> list[int]:
        """Returns the ids of plain text, with the special tokens that the model wants around it."""
        return self._ids(text, special=True)

    def pieces(self, text: str) -> list[int]:
        """Ids of a part of a text, without special tokens around it."""
        return self._ids(text, special=False)

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids, without special tokens."""
        return str(self._fast.decode(list(ids), skip_special_tokens=True))

    def piece(self, token: int) -> str:
        """Returns the text of one id inside a text, its leading space included; the name of a special token."""
        once, twice = (self._fast.decode([token] * n, skip_special_tokens=False) for n in (1, 2))
        return str(twice[len(once) :])

    def channels(self, prompt: Sequence[int]) -> ChannelParser | None:
        """Returns what tells thought and answer of the reply to a prompt apart, None where no tokens mark them."""
        return self.format.after(prompt) if self.format is not None else None

    def stream(self) -> FolderStream:
        return FolderStream(self._fast)

    def _ids(self, text: str, special: bool) -> list[int]:
        _check_text(text)
        with _boundary("the model's tokenizer has no ids for this text"):
            ids = list(self._fast.encode(text, add_special_tokens=special).ids)
        if self._rows is not None and ids and max(ids) >= self._rows:
            name = str(self._fast.id_to_token(max(ids)))[:40]
            what = f"the text has the token {name!r}, number {max(ids)}, and the model knows {self._rows}"
            raise ModelError(f"{what}: leave it out, or choose another model")
        return ids


class FolderStream:
    """Detokenizes one reply with the tokenizers library's DecodeStream."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._stream = DecodeStream(skip_special_tokens=True)
        self._ids: list[int] = []
        self._emitted = 0

    def push(self, token: int) -> str:
        self._ids.append(token)
        text = self._stream.step(self._tokenizer, token) or ""
        self._emitted += len(text)
        return text

    def finish(self) -> str:
        whole = self._tokenizer.decode(self._ids, skip_special_tokens=True)
        return str(whole[self._emitted :])


def _for_template(message: Message) -> dict[str, str]:
    """Returns a message as templates read it. Most call an earlier thought reasoning_content, gpt-oss's thinking."""
    plain = {"role": message["role"], "content": message["content"]}
    thought = message.get("thought", "").strip()
    return {**plain, "reasoning_content": thought, "thinking": thought} if thought else plain


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
