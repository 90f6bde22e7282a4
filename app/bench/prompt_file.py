"""Prompts in Spec-Bench's format: JSON Lines of {"question_id", "category", "turns": [...]}."""

from importlib import resources
from pathlib import Path
from typing import Annotated

import msgspec

from engine.errors import UsageError
from models.training.training_prompts import read_prompts

_Turn = Annotated[str, msgspec.Meta(pattern=r"\S")]


class Question(msgspec.Struct, frozen=True):
    """A question. turns: the user's messages."""

    id: int | str = msgspec.field(name="question_id")
    category: str
    turns: Annotated[tuple[_Turn, ...], msgspec.Meta(min_length=1)]


def read_questions(path: Path | None, limit: int | None = None, every: int = 1) -> list[Question]:
    """Returns the questions of a file, or Redline's own twelve: every `every`-th from the first, at most `limit`.

    Lines end at "\\n" only, as JSON may contain the other line ends of `splitlines`.
    Raises UsageError for an unreadable or empty file, or for a malformed line.
    """
    name = "the built-in prompts" if path is None else str(path)
    questions: dict[int | str, Question] = {}
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if line.strip():
            question = _question(line, f"{name}, line {number}")
            if question.id in questions:
                raise UsageError(f"{name}, line {number}: question_id {question.id!r} appears twice: renumber")
            questions[question.id] = question
    if not questions:
        raise UsageError(f"{name} has no question: write one JSON object per line, as in Spec-Bench")
    return list(questions.values())[::every][:limit]


def read_questions_or_lines(path: Path | None, limit: int | None = None, every: int = 1) -> list[Question]:
    """Like `read_questions`, but a file that does not begin with a JSON object holds one prompt per line."""
    try:
        plain = path is not None and path.read_bytes().lstrip()[:1] != b"{"
    except (OSError, ValueError):  # `read_questions` reports it
        plain = False
    if path is None or not plain:
        return read_questions(path, limit, every)
    texts = enumerate(read_prompts(path), start=1)
    return [Question(number, "prompts", (text,)) for number, text in texts][::every][:limit]


def _text(path: Path | None) -> str:
    if path is None:
        return (resources.files("resources") / "prompts" / "bench.jsonl").read_text(encoding="utf-8")
    try:
        return path.read_bytes().decode("utf-8")
    except (OSError, ValueError) as error:  # a NUL in the path is a ValueError
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{str(path)!r} cannot be read ({reason}): choose a prompt file in JSON Lines") from error


def _question(line: str, where: str) -> Question:
    try:
        return msgspec.json.decode(line, type=Question)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: {error}: give question_id, category and turns as JSON") from error
