"""The process that reads tokenizers and runs chat templates: `python -m models.tokenizer_worker`.

Both come with a model, so strangers wrote them: a template is a program, and a tokenizer's expressions and
normalizers can ask for any amount of time and memory. Nothing inside a process can bound that, so they run in one that
`models.tokenizer_process` kills when it takes too long or too much memory. Requests come on standard input and answers
go to standard output, each a line of JSON.

The tokenizers library reads tokenizer.json and turns text into ids. transformers adds what tokenizer_config.json says
of special tokens, and renders the chat template, tools included (Jinja, sandboxed; no code of the model's is run).
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from models.chat_templates import read_templates
from models.reply_format import Switches, switches_of
from models.tool_parsers import ParsedCall, ToolFormat, parse_calls, tool_format

MOST_OPEN = 3  # a target, a drafter with a tokenizer of its own, and a model that is being compared
LONGEST_TOKEN = 1 << 16  # characters
_BARE = {"truncation": None, "padding": None, "normalizer": None, "pre_tokenizer": None, "post_processor": None}
_PARENT_CHECK_S = 0.5


class Open(msgspec.Struct, tag=True):
    """Reads the tokenizer of a folder, known as `key` from then on. Answered by Opened or Refused."""

    key: int
    folder: str


class Encode(msgspec.Struct, tag=True):
    """Answered by Ids, Refused, or Unknown. special: with the special tokens that the model wants around a text."""

    key: int
    text: str
    special: bool


class Chat(msgspec.Struct, tag=True):
    """Renders a conversation and opens the assistant's turn: answered by Rendered and then as Encode is, or by Refused
    or Unknown. variables: what the template is told beside the messages. tools: as OpenAI describes them."""

    key: int
    messages: list[dict[str, Any]]
    template: str
    variables: dict[str, bool | str] = {}
    tools: list[dict[str, Any]] = []


class ParseCalls(msgspec.Struct, tag=True):
    """Finds the calls of tools in a text, as `models.tool_parsers.parse_calls`: answered by Calls or Refused."""

    parser: str
    text: str
    tools: list[dict[str, Any]]


class Ready(msgspec.Struct, tag=True):
    """The worker reads requests."""


class Opened(msgspec.Struct, tag=True):
    """A tokenizer was read. decoder: a tokenizer.json that is good for decoding alone. eos: id of its own
    end-of-sequence token. template, tool_template: for conversations without and with tools, None where the model has
    none. digest: of everything that ids depend on. thinking, efforts: as in
    `models.reply_format.Switches`. takes_tools: whether its template takes tools. tools: how it writes calls, None
    where that is not known."""

    decoder: str
    eos: int | None
    template: str | None
    tool_template: str | None
    digest: str
    thinking: str = ""
    efforts: tuple[str, ...] = ()
    takes_tools: bool = False
    tools: ToolFormat | None = None


class Calls(msgspec.Struct, tag=True):
    """The calls of tools in a text."""

    calls: list[ParsedCall]


class Rendered(msgspec.Struct, tag=True):
    """The template has written so many characters, which will be encoded now."""

    characters: int


class Ids(msgspec.Struct, tag=True):
    """The ids of a text."""

    ids: list[int]


class Refused(msgspec.Struct, tag=True):
    """The libraries raised an error."""

    reason: str


class Unknown(msgspec.Struct, tag=True):
    """No tokenizer has this key any more: open it again."""


Request = Open | Encode | Chat | ParseCalls
Answer = Ready | Opened | Rendered | Ids | Calls | Refused | Unknown


@dataclass(frozen=True)
class _OpenTokenizer:
    """fast: the tokenizers library's. special: the special tokens that a template may print, by name."""

    fast: Any
    special: dict[str, Any]


def main() -> None:
    """Answers requests until standard input ends, or the parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which stops this process if it must
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)  # what libraries print is no answer
    threading.Thread(target=_leave_with, args=(os.getppid(),), daemon=True).start()
    import transformers  # noqa: F401  takes a second, before the first request rather than within it

    serve(requests, answers)


def _leave_with(parent: int) -> None:
    """Ends this process soon after its parent has ended, whatever it is busy with."""
    while os.getppid() == parent:
        time.sleep(_PARENT_CHECK_S)
    os._exit(1)


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answers every line of `requests`."""
    known: dict[int, _OpenTokenizer] = {}
    decoder = msgspec.json.Decoder(Request)
    for answer in _answers(known, decoder, requests):
        answers.write(msgspec.json.encode(answer) + b"\n")
        answers.flush()


def _answers(known: dict[int, _OpenTokenizer], decoder: Any, requests: BinaryIO) -> Iterator[Answer]:
    yield Ready()
    for line in requests:
        request = decoder.decode(line)
        try:
            if isinstance(request, Open):
                known[request.key], opened = _open(Path(request.folder))
                for oldest in list(known)[:-MOST_OPEN]:
                    del known[oldest]
                yield opened
            elif isinstance(request, ParseCalls):
                yield Calls(parse_calls(request.parser, request.text, request.tools))
            elif request.key not in known:
                yield Unknown()
            elif isinstance(request, Encode):
                yield Ids(_encode(known[request.key], request.text, request.special))
            else:
                text = render(known[request.key], request)
                yield Rendered(len(text))
                yield Ids(_encode(known[request.key], text, special=False))
        except BaseException as error:  # noqa: BLE001  broad: a template raises anything, tokenizers also Rust's panic
            yield Refused(f"{type(error).__name__}: {' '.join(str(error)[:2000].split())[:200]}")


def _open(folder: Path) -> tuple[_OpenTokenizer, Opened]:
    """Reads tokenizer.json as it is. AutoTokenizer of transformers 5 builds some of the declared classes anew from
    vocabulary and merges, with another split of the text and so other ids, and fails for configurations that it does
    not know (transformers issue 45812)."""
    from transformers import PreTrainedTokenizerFast

    whole: Any = PreTrainedTokenizerFast.from_pretrained(str(folder), local_files_only=True)
    fast = whole.backend_tokenizer
    fast.no_truncation()  # a tokenizer.json may keep the settings of whoever trained with it
    fast.no_padding()
    templates = read_templates(folder)
    found = _OpenTokenizer(fast, dict(whole.special_tokens_map))
    text = fast.to_str()
    digest = hashlib.blake2b(f"{text}\0{templates}\0{found.special}\0{whole.eos_token_id}".encode()).hexdigest()
    eos = whole.eos_token_id if type(whole.eos_token_id) is int else None
    switches = switches_of(templates.default) if templates.default else Switches()
    takes_tools = templates.tool_use is not None and switches_of(templates.tool_use).tools
    tools = tool_format(whole, templates.tool_use or "") if takes_tools else None
    about = (switches.thinking, switches.efforts, takes_tools, tools)
    return found, Opened(decoder_of(text), eos, templates.default, templates.tool_use, digest, *about)


def decoder_of(tokenizer_json: str) -> str:
    """Returns a tokenizer.json that decodes as this one does, but has nothing that only encoding needs. Every token
    has been decoded with it once, so whoever reads it in another process knows that this works."""
    from tokenizers import Tokenizer

    content = json.loads(tokenizer_json)
    content |= _BARE
    if "merges" in content["model"]:
        content["model"]["merges"] = []
    bare = json.dumps(content, ensure_ascii=False)
    tokenizer = Tokenizer.from_str(bare)
    ids = sorted(tokenizer.get_vocab().values())
    if any(len(token) > LONGEST_TOKEN for token in tokenizer.get_vocab()):
        raise ValueError("it has a token that is longer than any text")
    if sum(len(tokenizer.decode([number], skip_special_tokens=False)) for number in ids) > LONGEST_TOKEN * 1024:
        raise ValueError("its tokens stand for more text than any tokens do")
    return bare


def render(tokenizer: _OpenTokenizer, request: Chat) -> str:
    """Returns the text of a conversation, as transformers' `apply_chat_template` writes it. Raises ValueError where it
    has far more characters than the messages, and anything else."""
    from transformers.utils.chat_template_utils import render_jinja_template

    (text,), _ = render_jinja_template(
        conversations=[request.messages],
        tools=request.tools or None,
        chat_template=request.template,
        add_generation_prompt=True,
        **{**tokenizer.special, **request.variables},
    )
    if len(text) > longest_prompt(request.messages, request.tools):
        raise ValueError(f"it writes {len(text):,} characters")
    text.encode()
    return str(text)


def longest_prompt(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> int:
    """Returns how many characters a template may make of messages: it repeats none, and adds some to each."""
    told = sum(1000 + 4 * len(message["content"] or "") for message in messages)
    called = 8 * len(json.dumps([message.get("tool_calls", ()) for message in messages]))
    return 1_000_000 + told + called + 8 * len(json.dumps(tools))


def _encode(tokenizer: _OpenTokenizer, text: str, special: bool) -> list[int]:
    return list(tokenizer.fast.encode(text, add_special_tokens=special).ids)


if __name__ == "__main__":
    main()
