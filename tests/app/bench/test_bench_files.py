"""What the benchmark reads and writes: every malformed line is named, every document is whole."""

import errno
import json
from pathlib import Path

import pytest

from app.bench import bench_document
from app.bench.prompt_file import read_questions
from app.command_line import check_writable
from engine.errors import RedlineError, UsageError
from tests.app.command import Redline


def test_our_own_prompts_are_a_dozen() -> None:
    own = read_questions(None)
    assert len(own) == 12
    assert len(read_questions(None, 5)) == 5
    assert read_questions(None, 2, every=5) == [own[0], own[5]]
    assert len({question.category for question in own}) == 12


_GOOD = '{"question_id": 1, "category": "a", "turns": ["b"]}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no question"),
        (f"{_GOOD}\n{{", "line 2: Input data was truncated"),
        ("[1]", "line 1: Expected `object`"),
        (f"\n\n{_GOOD[:-1]}, \n", "line 3: Input data was truncated"),
        ('{"question_id": true, "category": "a", "turns": ["b"]}', r"line 1: .*got `bool` - at `\$.question_id`"),
        ('{"question_id": 1, "category": "a"}', "line 1: .*missing required field `turns`"),
        ('{"question_id": 1, "category": "a", "turns": []}', "line 1: .*length >= 1"),
        ('{"question_id": 1, "category": "a", "turns": ["b", " "]}', "line 1: Expected `str` matching"),
        (f"{_GOOD}\n{_GOOD}", "line 2: question_id 1 appears twice"),
        (_GOOD.replace("1", "1" * 5000), "line 1: Integer value out of range"),
        (f"{_GOOD}\r\n\r\n{_GOOD[:-1]}", "line 3: Input data was truncated"),
        (_GOOD.replace('"b"', '"b", "\\ud800"'), "line 1: Input data was truncated"),
    ],
)
def test_a_malformed_prompt_file_is_refused_by_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_bytes(text.encode())
    with pytest.raises(UsageError, match=message) as error:
        read_questions(path)
    assert "\n" not in str(error.value)


def test_a_prompt_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name in ("missing", "binary", ".", "x" * 300, "a\0b"):
        with pytest.raises(UsageError, match=r"cannot be read|is not text"):
            read_questions(tmp_path / name)


@pytest.mark.parametrize("letter", ["\u2028", "\u2029", "\u0085"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_only_a_newline_ends_a_line(tmp_path: Path, letter: str, end: str) -> None:
    path = tmp_path / "prompts.jsonl"
    lines = [f'{{"question_id": {i}, "category": "a", "turns": ["b{letter}c"]}}' for i in range(2)]
    path.write_bytes((end.join(lines) + end).encode())
    assert [(one.id, one.turns) for one in read_questions(path)] == [(i, (f"b{letter}c",)) for i in range(2)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--limit", "0"], "limit is 0"),
        (["--every", "0"], "every is 0"),
        (["--peer", "mlx-lm", "--stop", "x"], "--peer mlx-lm does not support stop strings"),
        (["--json", "/nowhere/at/all.json"], "cannot be written"),
        (["--json", "a\0b"], "cannot be written"),
        (["--json", "."], "cannot be written"),
        (["--drafter", "no-such-drafter"], "give auto, none, lookup"),
        (["--context", "513"], "at most 512 tokens"),
        (["--temperature", "0", "--temperature", "-1"], "temperature is -1.0"),
        (["--draft-length", "2", "--draft-length", "99"], "draft-length is 99"),
    ],
)
def test_nonsense_is_refused(arguments: list[str], message: str, toy_folder: Path, redline: Redline) -> None:
    done = redline("bench", "--target", toy_folder, *arguments)
    assert done.code == 2 and message in done.complaint


def test_a_document_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    bench_document.write_document(path, {"a": 1.5})
    with pytest.raises(ValueError, match="Out of range"):
        bench_document.write_document(path, {"a": float("nan")})
    assert json.loads(path.read_text()) == {"a": 1.5}
    assert list(tmp_path.iterdir()) == [path]


def test_a_name_as_long_as_may_be_is_written(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 250 + ".json")
    check_writable(path, "--json")
    bench_document.write_document(path, {"a": 1})
    assert json.loads(path.read_text()) == {"a": 1}


def test_a_full_disk_is_a_failure_that_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_the_disk(monkeypatch)
    with pytest.raises(RedlineError, match="No space left on device") as error:
        bench_document.write_document(tmp_path / "out.json", {"a": 1})
    assert not isinstance(error.value, UsageError)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_table_is_shown_even_if_the_document_cannot_be_written(
    toy_folder: Path, tmp_path: Path, redline: Redline, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_the_disk(monkeypatch)
    words = ["--target", toy_folder, "--limit", "1", "--max-tokens", "4", "--draft-length", "2"]
    done = redline("bench", *words, "--json", tmp_path / "out.json")
    assert done.code == 1 and "1 of 1 replies are identical" in done.out
    assert "No space left on device" in done.complaint


def fill_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(self: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", replace)
