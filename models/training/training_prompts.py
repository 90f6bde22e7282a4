"""The prompts of a fit: its own questions, templates filled with topics, or the prompts of a file.

A model writes questions itself when it is given the opening of a user's turn and nothing else. That opening is found
by rendering two conversations that differ in the user's text alone: what both begin with opens the turn. It works for
any chat template and needs no knowledge of it.
"""

import json
import random
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from engine.errors import FitError, ModelError, UsageError
from models.durable_files import read_json_object, replace_json
from models.tokenizer import FolderTokenizer

SELF_SHARE = 0.5  # of the prompts that the target writes itself
_SUM_SHARE = 0.12  # of the rest
_PROBES = ("Apples", "zebra")
_KEYS = ("prompt", "text", "question")


def user_turn_prefix(tokenizer: FolderTokenizer) -> list[int]:
    """Returns the ids that open a user's turn, empty where the model has no chat template to open one with."""
    if not tokenizer.has_template:
        return []
    first, second = (tokenizer.chat([{"role": "user", "content": text}]) for text in _PROBES)
    same = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), 0)
    return first[:same]


def user_turn_end(tokenizer: FolderTokenizer) -> int | None:
    """Returns the id that follows a user's text and ends a question of the target; None without a template."""
    if not tokenizer.has_template:
        return None
    rendered = [tokenizer.chat([{"role": "user", "content": text}])[::-1] for text in _PROBES]
    same = next((i for i, (a, b) in enumerate(zip(*rendered, strict=False)) if a != b), 0)
    return rendered[0][same - 1] if same else None


def template_question(rng: random.Random) -> str:
    """Returns a question made from the templates."""
    stock = _stock()
    if rng.random() < _SUM_SHARE:
        small, few = rng.randint(2, 40), rng.randint(2, 12)
        words = {"name": rng.choice(stock["names"]), "things": rng.choice(stock["things"])}
        return str(rng.choice(stock["sums"]).format(a=small, b=few, c=small * few + rng.randint(0, 9), **words))
    group = rng.choices(stock["groups"], [group["weight"] for group in stock["groups"]])[0]
    question: str = rng.choice(group["questions"])
    return question.format(*rng.sample(group["topics"], question.count("{}")))


@cache
def _stock() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((resources.files("resources") / "prompts" / "fit.json").read_text("utf-8"))
    return found


def read_prompts(path: Path) -> list[str]:
    """Returns the prompts of a file: one per line, or JSON Lines of texts, of {"prompt": text} or of {"turns": [text,
    ...]}; or a JSON array of these.

    Raises UsageError: unreadable, empty, or a line that begins like JSON and is none of these, naming it.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}): give a file of prompts, one per line") from error
    except ValueError as error:  # not UTF-8, or a NUL in the path
        raise UsageError(f"{str(path)!r} is not text ({error}): give a file of prompts in UTF-8") from error
    array = _array(text)
    if array is not None:
        found = [_text(value, f"{path}, text {number}") for number, value in enumerate(array, start=1)]
    else:
        lines = enumerate(text.split("\n"), start=1)
        found = [_prompt(line.strip(), f"{path}, line {number}") for number, line in lines if line.strip()]
    if not found:
        raise UsageError(f"{path} holds no prompt: give one per line, or JSON Lines")
    return found


def _array(text: str) -> list[Any] | None:
    """Returns the JSON array that a whole file is; None for lines, even if they begin with a bracket."""
    if not text.lstrip().startswith("["):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list) else None


def _prompt(line: str, where: str) -> str:
    if line[0] not in '{"':
        return line
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        if line[0] == '"':  # a line of plain text may well begin with a quotation
            return line
        raise UsageError(f"{where}: begins like JSON and is not: give one object or one text per line") from error
    return _text(value, where)


def _text(value: Any, where: str) -> str:
    if isinstance(value, dict):
        turns = value.get("turns")
        found = next(
            (value[key] for key in _KEYS if key in value),
            turns[0] if isinstance(turns, list | tuple) and turns else None,
        )
    else:
        found = value
    if not isinstance(found, str) or not found.strip():
        raise UsageError(f'{where}: has no text under prompt or turns: give {{"prompt": "..."}}')
    if any("\ud800" <= letter <= "\udfff" for letter in found):
        raise UsageError(f"{where}: half a surrogate pair is not text: give it whole")
    return found.strip()


def prompts_that_fit(prompts: Sequence[str], tokenizer: FolderTokenizer, longest: int) -> dict[str, int]:
    """Returns the `prompts` of at most `longest` tokens, chat template included, each once, with their lengths. Raises
    FitError if there is none."""
    once = {text: len(tokenizer.chat([{"role": "user", "content": text}])) for text in prompts}
    kept = {text: tokens for text, tokens in once.items() if tokens <= longest}
    if not kept:
        raise FitError(f"every prompt is longer than {longest} tokens, which is what fits: give shorter prompts")
    return kept


def save_prompts(path: Path, prompts: Sequence[str]) -> None:
    """Stores the prompts, so that a resumed fit uses the same. Raises OSError."""
    replace_json(path, {"prompts": list(prompts)})


def load_prompts(path: Path) -> list[str]:
    """Returns the stored prompts, [] if none were given. Raises FitError if the file is damaged or missing."""
    try:
        found = read_json_object(path).get("prompts")
        if isinstance(found, list) and all(isinstance(text, str) for text in found):
            return found
        reason = f"{path}: no list of texts"
    except ModelError as error:
        reason = str(error)
    raise FitError(f"the stored prompts are damaged ({reason}): remove {path.parent} and start again")
