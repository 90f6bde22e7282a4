"""What the target is asked."""

import random
from pathlib import Path

import pytest

from engine.errors import FitError, UsageError
from models.loader import Loaded
from models.tokenizer import FolderTokenizer
from models.training.training_prompts import (
    load_prompts,
    prompts_that_fit,
    read_prompts,
    save_prompts,
    template_question,
    user_turn_end,
    user_turn_prefix,
)


def test_the_opening_and_the_closing_of_a_turn_are_found_in_any_template(
    target: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = target.tokenizer._fast
    assert fast.decode(user_turn_prefix(target.tokenizer), skip_special_tokens=False) == "<|im_start|>user\n"
    end = user_turn_end(target.tokenizer)
    assert end is not None and fast.id_to_token(end) == "<|im_end|>"
    monkeypatch.setattr(FolderTokenizer, "has_template", False)
    assert user_turn_prefix(target.tokenizer) == [] and user_turn_end(target.tokenizer) is None


def test_questions_are_whole_and_many() -> None:
    made = [template_question(random.Random(number)) for number in range(2000)]
    assert not any("{" in text or "}" in text for text in made)
    assert len(set(made)) > 1500
    assert made == [template_question(random.Random(number)) for number in range(2000)]


def test_prompts_are_lines_or_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "prompts"
    path.write_text(
        'Why is the sky blue?\n\n  "Quoted," she said.  \n"A JSON text"\n{"prompt": "one"}\n'
        '{"question_id": 1, "turns": ["two", "three"]}\n{"text": "four\\nlines"}\n'
    )
    texts = ["Why is the sky blue?", '"Quoted," she said.', "A JSON text", "one", "two", "four\nlines"]
    assert read_prompts(path) == texts
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())  # as some editors begin a file
    assert read_prompts(path) == texts


def test_prompts_are_a_json_array_too(tmp_path: Path) -> None:
    path = tmp_path / "prompts.json"
    path.write_text('[\n "one",\n {"prompt": "two"}\n]\n')
    assert read_prompts(path) == ["one", "two"]
    path.write_text('["one", 2]')
    with pytest.raises(UsageError, match="text 2: has no text"):
        read_prompts(path)
    path.write_text("[sic] is Latin\n[1] is a footnote\n")
    assert read_prompts(path) == ["[sic] is Latin", "[1] is a footnote"]


def test_missing_stored_prompts_are_not_replaced_by_others(tmp_path: Path) -> None:
    path = tmp_path / "prompts.json"
    save_prompts(path, ["one"])
    assert load_prompts(path) == ["one"]
    path.write_text('{"prompts": ["one", 2]}')
    with pytest.raises(FitError, match=r"damaged .*no list of texts.*start again"):
        load_prompts(path)
    path.unlink()
    with pytest.raises(FitError, match="no such file"):
        load_prompts(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "holds no prompt"),
        (b"fine\n{broken\n", "line 2: begins like JSON and is not"),
        (b'{"prompt": 3}\n', "line 1: has no text"),
        (b'{"prompt": " "}\n', "line 1: has no text"),
        (b'{"other": "x"}\n', "line 1: has no text"),
        (b'"\\ud800"\n', "line 1: half a surrogate pair"),
        (b"\xff\xfe", "is not text"),
    ],
)
def test_a_malformed_file_of_prompts_says_where(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_prompts(tmp_path / "prompts")
    (tmp_path / "prompts").write_bytes(content)
    with pytest.raises(UsageError, match=said):
        read_prompts(tmp_path / "prompts")


def test_prompts_that_are_too_long_or_there_already_are_left_out(target: Loaded) -> None:
    given = ["short", "x" * 400, "other", "short"]
    kept = prompts_that_fit(given, target.tokenizer, 96)
    assert list(kept) == ["short", "other"]
    assert kept["other"] == len(target.tokenizer.chat([{"role": "user", "content": "other"}]))
    with pytest.raises(FitError, match="longer than 96 tokens"):
        prompts_that_fit(["x" * 400], target.tokenizer, 96)
