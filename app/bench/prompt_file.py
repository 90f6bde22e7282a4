"""Prompts in Spec-Bench's format: JSON Lines of {"question_id", "category", "turns": [...]}."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from engine.errors import UsageError


@dataclass(frozen=True)
class Question:
    """A question. turns: the user's messages."""

    id: int | str
    category: str
    turns: tuple[str, ...]


def read_questions(path: Path | None, limit: int | None = None, every: int = 1) -> list[Question]:
    """Reads the questions of a file, or Redline's own twelve: the first of every `every`, at most `limit`.

    Lines end at "\\n" only, as JSON may contain the other line ends of `splitlines`.
    Raises UsageError for an unreadable or empty file, or for a malformed line.
    """
    name = "the built-in prompts" if path is None else str(path)
    questions: list[Question] = []
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if line.strip():
            questions.append(_question(line, f"{name}, line {number}"))
            if any(known.id == questions[-1].id for known in questions[:-1]):
                raise UsageError(f"{name}, line {number}: question_id {questions[-1].id!r} appears twice: renumber")
    if not questions:
        raise UsageError(f"{name} has no question: write one JSON object per line, as in Spec-Bench")
    return questions[::every][:limit]


def _text(path: Path | None) -> str:
    if path is None:
        return (resources.files("resources") / "prompts" / "bench.jsonl").read_text(encoding="utf-8")
    try:
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}): choose a prompt file in JSON Lines") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not text ({error.reason}): choose a prompt file in JSON Lines") from error
    except ValueError as error:  # a NUL in the path
        raise UsageError(f"{str(path)!r} cannot be read ({error}): choose a prompt file in JSON Lines") from error


def _question(line: str, where: str) -> Question:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:  # a plain ValueError is a number of thousands of digits
        raise UsageError(f"{where}: not JSON ({_reason(error)}): write one object per line") from error
    if not isinstance(value, dict):
        raise UsageError(f"{where}: not a JSON object: give question_id, category and turns")
    id_, category, turns = (value.get(key) for key in ("question_id", "category", "turns"))
    if isinstance(id_, bool) or not isinstance(id_, int | str):
        raise UsageError(f"{where}: question_id is {_shown(id_)}: give a number or a name")
    if not isinstance(category, str):
        raise UsageError(f"{where}: category is {_shown(category)}: give its name")
    if not isinstance(turns, list) or not turns or not all(isinstance(turn, str) and turn.strip() for turn in turns):
        raise UsageError(f"{where}: turns is {_shown(turns)}: give a list of at least one text, none empty")
    if any("\ud800" <= letter <= "\udfff" for turn in turns for letter in turn):
        raise UsageError(f"{where}: turns is {_shown(turns)}: it contains half a surrogate pair")
    return Question(id_, category, tuple(turns))


def _reason(error: ValueError | RecursionError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at column {error.colno}"
    return "nested too deeply" if isinstance(error, RecursionError) else "a number is too long"


def _shown(value: object) -> str:
    return "missing" if value is None else json.dumps(value)[:60]
