"""What the benchmark reads and writes: every malformed line is named, every document is whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.bench import document
from app.bench.questions import read_questions
from app.cli import main
from engine.errors import UsageError


def test_our_own_prompts_are_a_dozen() -> None:
    own = read_questions(None)
    assert len(own) == 12
    assert len(read_questions(None, 5)) == 5
    assert len({question.category for question in own}) == 12


_GOOD = '{"question_id": 1, "category": "a", "turns": ["b"]}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no question"),
        ("\n \n", "holds no question"),
        (f"{_GOOD}\n{{", "line 2: not JSON"),
        ("[1]", "line 1: not a JSON object"),
        ("[" * 100_000, "line 1: not JSON"),
        (f"\n\n{_GOOD[:-1]}, \n", "line 3: not JSON"),
        ('{"category": "a", "turns": ["b"]}', "line 1: question_id is missing"),
        ('{"question_id": true, "category": "a", "turns": ["b"]}', "line 1: question_id is true"),
        ('{"question_id": 1, "turns": ["b"]}', "line 1: category is missing"),
        ('{"question_id": 1, "category": "a"}', "line 1: turns is missing"),
        ('{"question_id": 1, "category": "a", "turns": []}', r"line 1: turns is \[\]"),
        ('{"question_id": 1, "category": "a", "turns": "b"}', 'line 1: turns is "b"'),
        ('{"question_id": 1, "category": "a", "turns": ["b", " "]}', "line 1: turns is"),
        (f"{_GOOD}\n{_GOOD}", "line 2: question_id 1 stands there twice"),
    ],
)
def test_a_malformed_prompt_file_is_refused_by_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text(text)
    with pytest.raises(UsageError, match=message) as error:
        read_questions(path)
    assert "\n" not in str(error.value)


def test_a_prompt_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name in ("missing", "binary", "."):
        with pytest.raises(UsageError, match=r"cannot be read|is not text"):
            read_questions(tmp_path / name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--limit", "0"], "limit is 0"),
        (["--peer", "mlx-lm", "--stop", "x"], "--peer mlx-lm knows no stop strings"),
        (["--json", "/nowhere/at/all.json"], "cannot be written"),
        (["--drafter", "/no/such/folder"], "neither none nor lookup"),
        (["--temperature", "-1"], "temperature is -1"),
    ],
)
def test_nonsense_is_refused(
    arguments: list[str], message: str, toy_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "--target", str(toy_folder), *arguments]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_a_document_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    document.write(path, {"a": 1.5})
    with pytest.raises(ValueError, match="Out of range"):
        document.write(path, {"a": float("nan")})
    assert json.loads(path.read_text()) == {"a": 1.5}
    assert list(tmp_path.iterdir()) == [path]
