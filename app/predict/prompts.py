"""The prompts of `redline predict`: Spec-Bench's format, or one a line."""

from __future__ import annotations

from pathlib import Path

from app.bench.questions import Question, read_questions
from models.fit.prompts import read_prompts

CATEGORY = "prompts"  # of those that come without one


def read(path: Path | None, limit: int | None = None, every: int = 1) -> list[Question]:
    """Of a file, or Redline's own twelve: one in `every`, from the first on, and `limit` of those.

    Raises UsageError: unreadable, without any prompt, or a malformed line, naming it.
    """
    if path is None or _holds_objects(path):
        return read_questions(path, limit, every)
    texts = read_prompts(path)
    return [Question(number, CATEGORY, (text,)) for number, text in enumerate(texts, start=1)][::every][:limit]


def _holds_objects(path: Path) -> bool:
    try:
        return path.read_bytes().lstrip()[:1] == b"{"
    except (OSError, ValueError):  # which reading it says better
        return False
