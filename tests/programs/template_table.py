"""What holds for each chat template of a folder: how conversations, thoughts, calls and switches fare with it.

    python -m tests.programs.template_table FOLDER [--failures]

FOLDER holds chat templates, NAME.jinja. Their tokenizers are not needed: each template is given two small ones, in
which the names that it writes between brackets are tokens, and in which they are ordinary text. Columns:

    renders   a question, a system prompt, further turns, two questions in a row, a system prompt later
    kept      the share of this prompt's characters with which the next turn's prompt begins, up to the assistant's
              header: what a cache that is pinned there can reuse
    thought   a thought and an answer as the model writes them are told apart, in both tokenizers
    call      a call with awkward text is written, and read back exactly; two: two calls at once; result: of a call
    history   a turn with text, thought and call, and its result, keep their texts
    any       random conversations: several questions, calls and results in a row, system prompts between them, ids of
              clients; no text is lost, and the order is kept
    switches  each choice that is offered changes the prompt, and none raises

"-" is what the model cannot do: the template knows no tools, or no thoughts. Exit status 1 if a cell fails.
"""

import argparse
import itertools
import json
import random
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tokenizers import AddedToken

from app.inference.tool_call_reader import call_reader
from engine.errors import RedlineError
from engine.events import Finished, Round
from engine.reply_text import ReplyText
from models.reply_format import TAGS, paired
from models.tokenizer import FolderTokenizer
from models.turn_shape import common_length
from tests.toys.folders import make_tokenizer

COLUMNS = ("renders", "kept", "thought", "call", "two", "result", "history", "any", "switches")
NOT_POSSIBLE = "-"
CONVERSATIONS = 30  # random ones for each template
_NAMES = re.compile(
    r"<\uff5c[^<>\uff5c]{1,40}\uff5c>|<\|[^<>|\s]{1,40}\|>|<\|?/?[a-zA-Z_:]{2,30}\|?>|\[/?[A-Z_]{3,30}\]"
)
_AWKWARD = {"path": "a b.py", "content": '    if x < 1:\n\t"quoted" \\ {é}\n', "count": 3, "deep": {"list": [1, None]}}
_TOOL = {
    "type": "function",
    "function": {
        "name": "write_file",
        "description": "Writes a file.",
        "parameters": {
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "content": {"type": "string"},
                "count": {"type": "integer"},
                "deep": {"type": "object", "additionalProperties": {"type": "string"}},
            },
            "required": ["path"],
        },
    },
}
_QUESTION = {"role": "user", "content": "why-is-it-so"}
_ANSWER = {"role": "assistant", "content": "because-of-that"}
_SYSTEM = {"role": "system", "content": "be-brief"}
_MORE = {"role": "user", "content": "and-then"}
_THOUGHT = "let me see"


def turn(text: str = "", thought: str = "", calls: Sequence[dict[str, str]] = ()) -> dict[str, Any]:
    return {"role": "assistant", "content": text, "thought": thought, "calls": list(calls)}


def call(number: int = 0, arguments: dict[str, Any] = _AWKWARD) -> dict[str, str]:
    return {"id": f"call-{number}-of-some-client", "name": "write_file", "arguments": json.dumps(arguments)}


def result(number: int = 0) -> dict[str, str]:
    return {"role": "tool", "content": f"written-{number}", "call_id": f"call-{number}-of-some-client"}


class Cell(Exception):
    """Why a cell does not hold."""


class Impossible(Exception):
    """Why the model cannot do what a cell asks for."""


class Case:
    """A template with the two tokenizers."""

    def __init__(self, path: Path, work: Path) -> None:
        self.name, self.template = path.stem, path.read_text(encoding="utf-8")
        self.text = FolderTokenizer(_write(work / "text", self.template, []))
        said = self.template
        for messages in ([_QUESTION, turn("a", _THOUGHT)], [_QUESTION, turn("", "", [call()])]):
            with suppress(RedlineError):  # some names are put together as the template runs
                said += self.written(messages)
        found = set(_NAMES.findall(said)) | {tag for pair in TAGS for tag in pair if tag in said}
        closing = {pair[1] for name in found if (pair := paired(name))}
        self.tokens = FolderTokenizer(_write(work / "tokens", self.template, sorted(found | closing)))

    def written(self, messages: Sequence[dict[str, Any]], tools: bool = False, **switches: Any) -> str:
        ids = self.text.chat(messages, tools=[_TOOL] if tools else (), **switches)
        return self.text._fast.decode(ids, skip_special_tokens=False)

    def check_texts(self, messages: Sequence[dict[str, Any]], tools: bool = False, *more: str) -> str:
        """Returns the rendering. Raises Cell where it lacks the text of a message."""
        text = self.written(messages, tools)
        for wanted in (*(message["content"] for message in messages), *more):
            if wanted not in text:
                raise Cell(f"{wanted!r} is lost")
        return text

    # --- the columns -------------------------------------------------------------------------------------

    def renders(self) -> str:
        for messages in (
            [_QUESTION],
            [_SYSTEM, _QUESTION],
            [_SYSTEM, _QUESTION, _ANSWER, _MORE],
            [_QUESTION, _MORE],
            [_QUESTION, _ANSWER, _SYSTEM, _MORE],
            [_ANSWER, _QUESTION],
        ):
            self.check_texts(messages)
        return "yes"

    def kept(self) -> str:
        messages = [_SYSTEM, {"role": "user", "content": "why " * 60}]
        shares = []
        for turns in (messages, [*messages, _ANSWER, {"role": "user", "content": "and " * 60}]):
            ids = self.tokens.chat(turns)
            later = self.tokens.chat([*turns, _ANSWER, _MORE])
            common = common_length(ids, later)
            stable = min(self.tokens.stable_prompt_lengths(turns), default=0)
            if stable > common:
                raise Cell(f"{stable} tokens are said to stay, {common} do")
            if common < len(ids) / 2:
                raise Impossible("its template moves the system prompt to the last question")
            shares.append(stable / common)
        if min(shares) < 0.95:
            raise Cell(f"{min(shares):.2f}")
        return f"{min(shares):.2f}"

    def thought(self) -> str:
        form = self._thought_form()
        for tokenizer in (self.tokens, self.text):
            if tokenizer is self.text and not any(tag in form for tag in tokenizer._tags.texts if "|" not in tag):
                continue  # marks of headers are always tokens
            prompt, ids = tokenizer.chat([_QUESTION], **self._thinking), tokenizer.pieces(form)
            for size in (1, 2, 5, len(ids)):
                found = _parts(tokenizer, prompt, [ids[at : at + size] for at in range(0, len(ids), size)])
                if tuple(part.strip() for part in found) != (_THOUGHT, _ANSWER["content"]):
                    kind = "tokens" if tokenizer is self.tokens else "text"
                    raise Cell(f"{kind}, {size} at once: {form!r} is {found}")
        return "yes"

    @property
    def _thinking(self) -> dict[str, Any]:
        """The switches with which the model thinks."""
        efforts = [effort for effort in self.tokens.switches.efforts if effort != "none"]
        return {"thinking": True, **({"effort": efforts[-1]} if efforts else {})}

    def _thought_form(self) -> str:
        """Returns a thought and an answer as the model writes them: as the template writes an earlier one, or between
        the tags that it speaks of."""
        ids = self.tokens.chat([_QUESTION], **self._thinking)
        whole = self.tokens.chat([_QUESTION, turn(_ANSWER["content"], _THOUGHT)], **self._thinking)
        prompt, form = self._fast_text(ids), self._fast_text(whole[common_length(ids, whole) :])
        if _THOUGHT in form and form.index(_THOUGHT) < form.index(_ANSWER["content"]):
            return form[: form.index(_ANSWER["content"]) + len(_ANSWER["content"])]
        if "[BEGIN FINAL RESPONSE]" in self.template:
            end = f"[BEGIN FINAL RESPONSE]\n{_ANSWER['content']}\n[END FINAL RESPONSE]"
            return f"Here are my reasoning steps:\n{_THOUGHT}\n{end}"
        pairs = [pair for pair in self.text._tags.pairs if all(tag in self.template for tag in pair)]
        if not pairs:
            raise Impossible("its template speaks of no thoughts")
        start, end = next(iter(self.text._tags.wrappers), ("", ""))
        opening = "" if prompt.rstrip().endswith(pairs[0][0]) else pairs[0][0]
        return f"{opening}{_THOUGHT}{pairs[0][1]}{start}{_ANSWER['content']}{end}"

    def call(self) -> str:
        return self._calls(1)

    def two(self) -> str:
        return self._calls(2)

    def _calls(self, count: int) -> str:
        """Writes calls as the template writes earlier ones, and reads them."""
        self._need_tools()
        asked = [call(number) for number in range(count)]
        before = self.tokens.chat([_QUESTION], tools=[_TOOL])
        text = self._fast_text(before)
        whole = self._fast_text(self.tokens.chat([_QUESTION, turn(calls=asked)], tools=[_TOOL]))
        if whole.count("write_file") <= text.count("write_file"):  # calls are written with their results alone
            turns = [_QUESTION, turn(calls=asked), *map(result, range(count))]
            whole = self._fast_text(self.tokens.chat(turns, tools=[_TOOL])).partition("written-0")[0]
        if self.tokens.tools is None:
            raise Cell("how it writes calls is not known")
        closing = common_length(text[::-1], whole[::-1])  # the header of the next turn
        closing -= 0 if whole[len(whole) - closing :].startswith(("<", "[", "\n", " ")) else closing
        begins = common_length(text, whole)
        within_tag = re.search(r"[<\[][^<>\[\]\s]*$", whole[:begins])
        written = whole[begins if within_tag is None else within_tag.start() : len(whole) - closing]
        ids = self.tokens.pieces(written)
        channels = self.tokens.channels(before if _ends_thought(written) else [])
        reply, reader = ReplyText(self.tokens.stream(), (), (), channels), call_reader(self.tokens, [_TOOL])
        rounds = [one for token in ids for one in reply.push(Round(0, (token,), (), 0, (1.0,), (), 1, 0.0))]
        rest, tail = reply.finish()
        found = [call for one in [*rounds, *rest] for call in reader.push(one)[1]]
        found += reader.finish(Finished("eos", len(ids), 0.0, text=tail))[1]
        read = [(one.name, json.loads(one.arguments)) for one in found]
        wanted = [(one["name"], json.loads(one["arguments"])) for one in asked]
        if self.tokens._tool_shape.calls == "apart":
            wanted = wanted[:1]
        if read[: len(wanted)] != wanted:
            raise Cell(f"{written[:200]!r} is read as {read}")
        return "yes"

    def _fast_text(self, ids: Sequence[int]) -> str:
        return self.tokens._fast.decode(list(ids), skip_special_tokens=False)

    def result(self) -> str:
        self._need_tools()
        self.check_texts([_QUESTION, turn(calls=[call()]), result()], True)
        self.check_texts([_QUESTION, turn(calls=[call(0), call(1)]), result(0), result(1)], True)
        self.check_texts([_QUESTION, turn(calls=[call()]), result(), _ANSWER, _MORE], True)
        return "yes"

    def history(self) -> str:
        self._need_tools()
        asked = call(0, {"path": "one-path"})
        turns = [_QUESTION, turn("first-i-look", _THOUGHT, [asked]), result()]
        if self.text._tool_shape.preamble == "lost":
            raise Impossible("its template has no place for text before calls")
        text = self.check_texts(turns, True, "one-path")
        if _THOUGHT not in text and _THOUGHT in self.written([_QUESTION, turn("", _THOUGHT, [asked]), result()], True):
            raise Cell("the thought is lost")
        return "yes"

    def any(self) -> str:
        rng = random.Random(1)
        shape = self.text._tool_shape if self.text.takes_tools else self.text._shape
        for _ in range(CONVERSATIONS):
            messages = conversation(rng, self.text.takes_tools)
            text = self.written(messages, self.text.takes_tools, thinking=True)
            # What stands before calls is a thought to some templates, which leave earlier thoughts out.
            kept = [one for one in messages if not one.get("calls") or shape.preamble not in ("thought", "lost")]
            if lost := [one["content"] for one in kept if one["content"] not in text]:
                raise Cell(f"{lost} is lost of {[(one['role'], one['content']) for one in messages]}")
            places = [text.rindex(one["content"]) for one in messages if one["role"] in ("user", "tool")]
            if places != sorted(places):
                raise Cell(f"the order is another: {[(one['role'], one['content']) for one in messages]}")
        return "yes"

    def switches(self) -> str:
        switches = self.text.switches
        texts: dict[str, str] = {"": self.written([_QUESTION])}
        if switches.thinking:
            texts |= {f"thinking {on}": self.written([_QUESTION], thinking=on) for on in (True, False)}
            if texts["thinking True"] == texts["thinking False"]:
                raise Cell(f"{switches.thinking} changes nothing")
        texts |= {effort: self.written([_QUESTION], effort=effort) for effort in switches.efforts}
        if switches.efforts and len({texts[effort] for effort in ("", *switches.efforts)}) == 1:
            raise Cell(f"{switches.efforts} change nothing")
        return " ".join([*([switches.thinking] if switches.thinking else []), *switches.efforts]) or "none"

    def _need_tools(self) -> None:
        if not self.text.takes_tools:
            raise Impossible("its template takes no tools")


def conversation(rng: random.Random, tools: bool) -> list[dict[str, Any]]:
    """Returns a random conversation that ends with a question or a result; no two texts of it are alike."""
    numbers = itertools.count()
    messages = [{"role": "system", "content": f"s{next(numbers)}x"}] if rng.random() < 0.4 else []
    for _ in range(rng.randint(1, 3)):
        messages += [{"role": "user", "content": f"u{next(numbers)}x"} for _ in range(rng.choice((1, 1, 2)))]
        if rng.random() < 0.15:
            messages.append({"role": "system", "content": f"s{next(numbers)}x"})
        for _ in range(rng.choice((0, 1, 2)) if tools else 0):
            count = rng.choice((1, 1, 2, 3))
            number = next(numbers) if rng.random() < 0.7 else 0  # some clients begin anew in each turn
            asked = [call(number + n, {"path": f"p{next(numbers)}x"}) for n in range(count)]
            text, thought = rng.choice(("", f"b{next(numbers)}x")), rng.choice(("", f"t{next(numbers)}x"))
            messages.append(turn(text, thought, asked))
            results = [{**result(number + n), "content": f"r{next(numbers)}x"} for n in range(count)]
            messages += results
        if rng.random() < 0.8:
            messages.append(turn(f"a{next(numbers)}x", rng.choice(("", f"t{next(numbers)}x"))))
    if messages[-1]["role"] == "assistant":
        messages.append({"role": "user", "content": f"u{next(numbers)}x"})
    return messages


def _write(folder: Path, template: str, names: Sequence[str]) -> Path:
    folder.mkdir(parents=True)
    tokenizer = make_tokenizer(4096)
    tokenizer.add_tokens([AddedToken(name, special="|" in name, normalized=False) for name in names])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>", "bos_token": "<|endoftext|>"}
        )
    )
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    return folder


def _ends_thought(written: str) -> bool:
    """Whether a thought that the prompt begins ends in what was written; else the template takes it back."""
    return re.search(r"<\|?/[a-z:]*think|close\|>think|END_THINKING|channel|FINAL RESPONSE", written) is not None


def _parts(tokenizer: FolderTokenizer, prompt: list[int], split: Sequence[Sequence[int]]) -> tuple[str, str]:
    """Returns the thought and the answer of a reply."""
    text = ReplyText(tokenizer.stream(), (), (), tokenizer.channels(prompt))
    rounds = [one for ids in split for one in text.push(Round(0, tuple(ids), (), 0, (1.0,) * len(ids), (), 1, 0.0))]
    rest, tail = text.finish()
    thought, answer = ("".join(one.text_in(name) for one in [*rounds, *rest]) for name in ("thought", "answer"))
    return thought, answer + tail


def cell(check: Callable[[], str]) -> tuple[str, str]:
    """Returns what stands in a cell, and why where that is not good."""
    try:
        return check(), ""
    except Impossible as reason:
        return NOT_POSSIBLE, str(reason)
    except (Cell, RedlineError, ValueError, LookupError) as reason:
        return "NO", f"{type(reason).__name__}: {reason}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--failures", action="store_true", help="print why cells fail, and nothing else")
    options = parser.parse_args()
    failed: dict[str, int] = dict.fromkeys(COLUMNS, 0)
    paths = sorted(options.folder.glob("*.jinja"))
    for path in paths:
        with tempfile.TemporaryDirectory() as work:
            case = Case(path, Path(work))
            cells = {column: cell(getattr(case, column)) for column in COLUMNS}
        for column, (told, why) in cells.items():
            failed[column] += told == "NO"
            if options.failures and told == "NO":
                print(f"{case.name[:36]:36} {column}: {why[:400]}")
        if not options.failures:
            print(f"{case.name[:36]:36}", *(f"{told:8}" for told, _ in cells.values()), flush=True)
    print(f"{len(paths)} templates; cells that fail:", failed)
    return 1 if any(failed.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
