"""The prompts of `redline predict`: in Spec-Bench's format, or one per line."""

from __future__ import annotations

from pathlib import Path

from app.bench.prompt_file import Question, read_questions
from models.training.training_prompts import read_prompts

CATEGORY = "prompts"  # of prompts without one


def read(path: Path | None, limit: int | None = None, every: int = 1) -> list[Question]:
    """Returns the prompts of a file, or Redline's own twelve: every `every`-th from the first, at most `limit`.

    Raises UsageError: unreadable, without any prompt, or a malformed line, naming it.
    """
    if path is None or _is_json(path):
        return read_questions(path, limit, every)
    texts = read_prompts(path)
    return [Question(number, CATEGORY, (text,)) for number, text in enumerate(texts, start=1)][::every][:limit]


def _is_json(path: Path) -> bool:
    try:
        return path.read_bytes().lstrip()[:1] == b"{"
    except (OSError, ValueError):  # `read_questions` reports it
        return False
