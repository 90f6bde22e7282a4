"""The process that reads tokenizers and runs chat templates: `python -m models.tokenizer_worker`.

Both come with a model, so strangers wrote them: a template is a program, and a tokenizer's expressions and
normalizers can ask for any amount of time and memory. Nothing inside a process can bound that, so they run in one that
`models.tokenizer_process` kills when it takes too long or too much memory. Requests come on standard input and answers
go to standard output, each a line of JSON.

The tokenizers library reads tokenizer.json and turns text into ids. transformers adds what tokenizer_config.json says
of special tokens, and renders the chat template, tools included (Jinja, sandboxed; no code of the model's is run).
"""

import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from models.chat_templates import load_program, program_of, read_templates
from models.template_switches import Switches, Value, switches_of
from models.tool_formats import UNKNOWN, ToolFormat, tool_format
from models.tool_parsers import ParsedCall, parse_calls
from models.turn_shape import PROBE_TOOLS, TurnShape, common_length, find_shape, written_call

MOST_OPEN = 3  # a target, a drafter with a tokenizer of its own, and a model that is being compared
LONGEST_TOKEN = 1 << 16  # characters
TOKENS_THAT_MERGE = 8  # more than what a word has that goes on in another way
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
    or Unknown. variables: those of the template beside the messages. tools: as OpenAI describes them. lists: as
    `models.turn_shape.TurnShape.lists`."""

    key: int
    messages: list[dict[str, Any]]
    template: str
    variables: dict[str, Value] = {}
    tools: list[dict[str, Any]] = []
    lists: bool = False


class Compare(msgspec.Struct, tag=True):
    """Renders a conversation and ways in which it may go on: answered by Shared, Refused or Unknown. later: the whole
    messages of each; those that the template refuses are left out. The rest as in Chat."""

    key: int
    messages: list[dict[str, Any]]
    later: list[list[dict[str, Any]]]
    template: str
    variables: dict[str, Value] = {}
    tools: list[dict[str, Any]] = []
    lists: bool = False


class Probe(msgspec.Struct, tag=True):
    """Tries a template on small conversations: answered by Probed, Refused or Unknown."""

    key: int
    template: str


class ParseCalls(msgspec.Struct, tag=True):
    """Finds the calls of tools in a text, as `models.tool_parsers.parse_calls`: answered by Calls or Refused."""

    format: ToolFormat
    text: str
    tools: list[dict[str, Any]]


class Ready(msgspec.Struct, tag=True):
    """The worker reads requests."""


class Opened(msgspec.Struct, tag=True):
    """A tokenizer was read. decoder: a tokenizer.json that is good for decoding alone. eos: id of its own
    end-of-sequence token. template, tool_template: for conversations without and with tools, None where the model has
    none. digest: of everything that ids depend on."""

    decoder: str
    eos: int | None
    template: str | None
    tool_template: str | None
    digest: str


class Probed(msgspec.Struct, tag=True):
    """What a template lets one choose, and the turns that it takes. works: whether it writes a single question. tools:
    how the model writes calls, None where that is not known."""

    switches: Switches
    shape: TurnShape
    works: bool
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


class Shared(msgspec.Struct, tag=True):
    """With how many of a prompt's first tokens each of the later prompts begins, ascending, each number once."""

    lengths: list[int]


class Refused(msgspec.Struct, tag=True):
    """The libraries raised an error."""

    reason: str


class Unknown(msgspec.Struct, tag=True):
    """No tokenizer has this key any more: open it again."""


Request = Open | Encode | Chat | Compare | Probe | ParseCalls
Answer = Ready | Opened | Probed | Rendered | Ids | Shared | Calls | Refused | Unknown


@dataclass(frozen=True)
class OpenTokenizer:
    """fast: the tokenizers library's. special: the special tokens that a template may print, by name. names: of all
    tokens that are never split."""

    fast: Any
    special: dict[str, Any]
    names: str = ""


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
    known: dict[int, OpenTokenizer] = {}
    decoder = msgspec.json.Decoder(Request)
    for answer in _answers(known, decoder, requests):
        answers.write(msgspec.json.encode(answer) + b"\n")
        answers.flush()


def _answers(known: dict[int, OpenTokenizer], decoder: Any, requests: BinaryIO) -> Iterator[Answer]:
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
                yield Calls(parse_calls(request.format, request.text, request.tools))
            elif request.key not in known:
                yield Unknown()
            elif isinstance(request, Encode):
                yield Ids(_encode(known[request.key], request.text, request.special))
            elif isinstance(request, Compare):
                yield Shared(_shared(known[request.key], request))
            elif isinstance(request, Probe):
                yield probe(known[request.key], request.template)
            else:
                text = render(known[request.key], request)
                yield Rendered(len(text))
                yield Ids(_encode(known[request.key], text, special=False))
        except BaseException as error:  # noqa: BLE001  broad: a template raises anything, tokenizers also Rust's panic
            yield Refused(f"{type(error).__name__}: {' '.join(str(error)[:2000].split())[:200]}")


def _open(folder: Path) -> tuple[OpenTokenizer, Opened]:
    """Reads tokenizer.json as it is. AutoTokenizer of transformers 5 builds some of the declared classes anew from
    vocabulary and merges, with another split of the text and so other ids, and fails for configurations that it does
    not know (transformers issue 45812)."""
    from transformers import PreTrainedTokenizerFast

    whole: Any = PreTrainedTokenizerFast.from_pretrained(str(folder), local_files_only=True)
    fast = whole.backend_tokenizer
    fast.no_truncation()  # a tokenizer.json may keep the settings of whoever trained with it
    fast.no_padding()
    templates = read_templates(folder)
    names = " ".join(token.content for token in fast.get_added_tokens_decoder().values())
    found = OpenTokenizer(fast, dict(whole.special_tokens_map), names)
    text = fast.to_str()
    digest = hashlib.blake2b(f"{text}\0{templates}\0{found.special}\0{whole.eos_token_id}".encode()).hexdigest()
    eos = whole.eos_token_id if type(whole.eos_token_id) is int else None
    return found, Opened(decoder_of(text), eos, templates.default, templates.tool_use, digest)


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


def probe(tokenizer: OpenTokenizer, template: str) -> Probed:
    """Tries a template on small conversations."""
    user, system = {"role": "user", "content": "question"}, {"role": "system", "content": "system"}
    on: dict[str, Value] = {}

    def write(
        turns: list[dict[str, Any]],
        tools: Sequence[dict[str, Any]] = (),
        lists: bool = False,
        variables: dict[str, Value] = on,
    ) -> str | None:
        """Returns what the template writes, None where it fails. variables: those that switch thinking on, once they
        are known."""
        try:
            return render(tokenizer, Chat(0, turns, template, variables, list(tools), lists))
        except Exception:  # noqa: BLE001  broad: a template raises anything
            return None

    lists = write([user]) is None and write([user], lists=True) is not None

    def ask(variables: dict[str, Value]) -> str | None:
        """Writes a question alone and after a system prompt, if the template knows one."""
        alone, after = (write(turns, (), lists, variables) for turns in ([user], [system, user]))
        return None if alone is None else f"{alone}\0{after}"

    switches = switches_of(template, ask)
    on.update(switches.on)
    offering = (write(turns, PROBE_TOOLS) or "" for turns in ([user], [system, user]))
    if not any(PROBE_TOOLS[0]["function"]["name"] in text for text in offering):
        switches = msgspec.structs.replace(switches, tools="")
    tools = (tool_format(template) or tool_format(tokenizer.names) or UNKNOWN) if switches.tools else None
    shape = find_shape(write, template, bool(switches.tools), tools, lists)
    if switches.tools and shape.calls != "text":
        tools = tool_format(template, *written_call(write, shape))
    return Probed(switches, shape, write([user], lists=lists) is not None, tools)


def render(tokenizer: OpenTokenizer, request: Chat) -> str:
    """Returns the text of a conversation and the beginning of the assistant's turn, as transformers'
    `apply_chat_template` writes them. Raises ValueError where that has far more characters than the messages, and
    whatever the template raises."""
    from transformers.utils.chat_template_utils import render_jinja_template

    if program := program_of(request.template):
        return _written_by(program, request)
    _let_lists_change(request.template)
    offered = {"xml_tools": request.tools, "functions": json.dumps(request.tools)}  # SmolLM3's, Firefunction's
    (text,), _ = render_jinja_template(
        conversations=[request.messages],
        tools=request.tools or ([] if request.lists else None),
        chat_template=request.template,
        add_generation_prompt=True,
        **{**tokenizer.special, **request.variables, **offered},
    )
    if len(text) > longest_prompt(request.messages, request.tools):
        raise ValueError(f"it writes {len(text):,} characters")
    text.encode()
    return str(text)


def _written_by(program: str, request: Chat) -> str:
    """Returns the text of a conversation as a program of mlx-lm's writes it, which changes what it is given."""
    about: dict[str, Any] = {"tools": request.tools or None, **request.variables}
    return str(
        load_program(program).apply_chat_template(deepcopy(request.messages), add_generation_prompt=True, **about)
    )


def _let_lists_change(template: str) -> None:
    """Lets a template append to its own lists, as Kimi K2's does. transformers' sandbox forbids it, to keep what an
    application passes in as it is; here everything was made for this one rendering. Jinja's other sandbox, which
    allows it, guards the interpreter alike."""
    from jinja2.sandbox import SandboxedEnvironment
    from transformers.utils.chat_template_utils import _compile_jinja_template

    environment = _compile_jinja_template(template).environment
    environment.is_safe_attribute = SandboxedEnvironment.is_safe_attribute.__get__(environment)


def longest_prompt(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> int:
    """Returns how many characters a template may make of messages: it repeats none, and adds some to each."""
    contents = sum(1000 + 4 * len(json.dumps(message.get("content"))) for message in messages)
    calls = 8 * len(json.dumps([message.get("tool_calls", ()) for message in messages]))
    return 1_000_000 + contents + calls + 8 * len(json.dumps(tools))


def _shared(tokenizer: OpenTokenizer, request: Compare) -> list[int]:
    """Returns how many tokens a prompt shares with later ones, whatever they go on with. Where the texts part, the
    last tokens before may be others as well, so the place is moved back: behind a token that is never split, or by
    TOKENS_THAT_MERGE where there is none."""
    form = (request.template, request.variables, request.tools, request.lists)
    text = render(tokenizer, Chat(0, request.messages, *form))
    encoding = tokenizer.fast.encode(text, add_special_tokens=False)
    whole = set(tokenizer.fast.get_added_tokens_decoder())
    found = set()
    for messages in request.later:
        try:
            later = render(tokenizer, Chat(0, messages, *form))
        except Exception:  # noqa: BLE001  broad: a template raises anything
            continue
        same = common_length(text, later)
        length = next((i for i, (_, end) in enumerate(encoding.offsets) if end > same), len(encoding.ids))
        least = max(0, length - TOKENS_THAT_MERGE)
        found.add(next((i for i in range(length, least, -1) if encoding.ids[i - 1] in whole), least))
    return sorted(found)


def _encode(tokenizer: OpenTokenizer, text: str, special: bool) -> list[int]:
    return list(tokenizer.fast.encode(text, add_special_tokens=special).ids)


if __name__ == "__main__":
    main()
