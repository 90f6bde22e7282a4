"""Templates and tokenizers that want more than they need end in one line, and the next request is answered."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ModelError, StoppedError
from models import tokenizer, tokenizer_process
from models.tokenizer import FolderTokenizer
from models.tokenizer_process import TokenizerProcess, WorkerLostError
from models.tokenizer_worker import Encode, Refused
from tests.models.test_loader import change

LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
GROWS = "{% set n = namespace(s='ab') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}{{ n.s }}"


@pytest.fixture
def folder(toy_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(toy_folder, tmp_path / "model"))


def on_demand(folder: Path, template: str) -> FolderTokenizer:
    """A tokenizer whose template does as it says only where the message is "go"."""
    whole = "{% if messages[0].content == 'go' %}" + template + "{% endif %}{{ messages[0].content }}"
    change(folder, "tokenizer_config.json", "chat_template", whole)
    return FolderTokenizer(folder)


def said(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


# --- the process: a toy that imports nothing does as it is told ------------------------------------


@pytest.fixture
def toy() -> Iterator[TokenizerProcess]:
    process = TokenizerProcess("tests.toys.tokenizer_worker")
    yield process
    process.end()


def told(
    process: TokenizerProcess, what: str, cancelled: Callable[[], bool] = lambda: False, limit_s: float = 2
) -> str:
    """The answer of the toy, which does what a text says."""
    answer = process.ask(Encode(0, what, False), limit_s, cancelled, lambda answer: None)
    assert isinstance(answer, Refused)
    return answer.reason


@pytest.mark.parametrize(
    ("what", "limit_s", "reason"),
    [
        ("loop", 0.1, "it took too long"),
        ("sleep", 0.01, "it took too long"),
        ("grow", 2, "it took more than 0.0 GB of memory"),
        ("flood", 9, "its result was too large"),
        ("abort", 9, r"it ended the process that ran it \(SIGABRT\)"),
        ("leave", 9, r"it ended the process that ran it \(exit code 3\)"),
    ],
    ids=["time", "waiting", "memory", "answer", "abort", "exit"],
)
def test_a_request_is_bounded(
    toy: TokenizerProcess, monkeypatch: pytest.MonkeyPatch, what: str, limit_s: float, reason: str
) -> None:
    monkeypatch.setattr(tokenizer_process, "MOST_BYTES", 30 << 20)
    monkeypatch.setattr(tokenizer_process, "MOST_ANSWER_BYTES", 1 << 20)
    assert told(toy, "hello") == "hello"
    with pytest.raises(WorkerLostError, match=reason):
        told(toy, what, limit_s=limit_s)
    assert told(toy, "hello") == "hello"


def test_a_stop_ends_a_request_within_half_a_second(toy: TokenizerProcess) -> None:
    assert told(toy, "hello") == "hello"
    began_s = time.monotonic()
    with pytest.raises(StoppedError):
        told(toy, "loop", lambda: time.monotonic() > began_s + 0.1)
    assert time.monotonic() - began_s < 0.6
    assert told(toy, "hello") == "hello"


def test_a_stop_that_comes_too_late_ends_no_worker(toy: TokenizerProcess) -> None:
    assert told(toy, "hello") == "hello"
    before = toy._process
    assert told(toy, "hello", lambda: True) == "hello"
    assert toy._process is before


def test_a_request_that_ctrl_c_ends_leaves_no_answer_for_the_next_one(toy: TokenizerProcess) -> None:
    def interrupt() -> bool:
        raise KeyboardInterrupt

    assert told(toy, "zero") == "zero"
    with pytest.raises(KeyboardInterrupt):
        told(toy, "loop", interrupt)
    assert [told(toy, what) for what in ("one", "two")] == ["one", "two"]


@pytest.mark.slow
def test_a_template_that_computes_without_end_is_refused_while_it_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """jinja2 computes what is constant when it compiles."""
    monkeypatch.setattr("models.tokenizer.OPEN_S", 1.0)
    change(folder, "tokenizer_config.json", "chat_template", "{{ 9**(9**9) }}")
    with pytest.raises(ModelError, match="took too long"):
        FolderTokenizer(folder)


def test_a_worker_that_died_between_two_requests_is_replaced(toy: TokenizerProcess) -> None:
    assert told(toy, "hello") == "hello"
    assert toy._process is not None
    toy._process.kill()
    toy._process.wait()
    assert told(toy, "hello") == "hello"


# --- the tokenizer -------------------------------------------------------------------------------


def test_a_template_that_writes_too_much_is_named(folder: Path) -> None:
    limited = on_demand(folder, "{{ 'a' * 2000000 }}")
    with pytest.raises(ModelError, match=r"tokenizer_config.json: the chat template failed.*writes 2,000,002 char"):
        limited.chat(said("go"))
    assert limited.decode(limited.chat(said("hi"))) == "hi"


@pytest.mark.slow
@pytest.mark.parametrize(("template", "reason"), [(LOOPS, "took too long"), (GROWS, "GB of memory")])
def test_a_template_without_end_is_named_and_the_next_reply_works(folder: Path, template: str, reason: str) -> None:
    limited = on_demand(folder, template)
    expected = limited.chat(said("hi"))
    with pytest.raises(ModelError, match=f"tokenizer_config.json: the chat template failed.*{reason}") as error:
        limited.chat(said("go"))
    assert "\n" not in str(error.value)
    assert limited.chat(said("hi")) == expected


@pytest.mark.slow
def test_a_tokenizer_that_changed_while_it_was_loaded_gives_no_ids(folder: Path) -> None:
    limited = on_demand(folder, "")
    expected = limited.chat(said("hi"))
    change(folder, "tokenizer_config.json", "chat_template", "{{ 'other' }}")
    assert limited.chat(said("hi")) == expected
    tokenizer_process.shared().end()
    with pytest.raises(ModelError, match="has changed since it was loaded: load the model again"):
        limited.chat(said("hi"))
    change(folder, "tokenizer_config.json", "chat_template", str(limited._template))
    assert limited.chat(said("hi")) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("normalizer", {"type": "Prepend", "prepend": "a" * 10_000_000}),
        ("pre_tokenizer", {"type": "Split", "behavior": "Isolated", "invert": False, "pattern": {"Regex": "(a+)+$"}}),
        ("decoder", {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 30_000_000}),
    ],
)
def test_a_tokenizer_that_wants_more_is_refused_in_a_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, place: str, value: dict[str, Any]
) -> None:
    content = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps(content | {place: value}))
    monkeypatch.setattr(tokenizer, "ENCODE_S", 0.3)
    monkeypatch.setattr(tokenizer_process, "MOST_BYTES", 300 << 20)
    with pytest.raises(ModelError, match=r"(tokenizer|template).*download the model again") as error:
        FolderTokenizer(folder).encode("a" * 4000 + "b")
    assert "\n" not in str(error.value)


def test_dates_are_found_in_a_template_of_any_length(folder: Path) -> None:
    from datetime import date

    change(folder, "tokenizer_config.json", "chat_template", "{{ strftime_now('" * 50_000)
    began_s = time.process_time()
    assert FolderTokenizer(folder).on(date(2024, 7, 26)).has_template
    assert time.process_time() - began_s < 1.0


def test_decoding_does_not_depend_on_what_only_encoding_needs(folder: Path) -> None:
    from tokenizers import Tokenizer

    whole, bare = Tokenizer.from_file(str(folder / "tokenizer.json")), FolderTokenizer(folder)
    ids = whole.encode("<|im_start|>user\nthe sky is blue \u00e9\U0001f600<|im_end|>", add_special_tokens=False).ids
    assert bare.decode(ids) == whole.decode(ids)
    assert [bare.piece(token) for token in ids][:2] == ["<|im_start|>", "user"]


def test_a_pipe_in_place_of_a_file_is_refused(folder: Path) -> None:
    from models.model_folder import check_folder

    os.mkfifo(folder / "added_tokens.json")
    with pytest.raises(ModelError, match="is a pipe or a device"):
        check_folder(folder)


def test_folders_in_folders_without_end_are_refused(folder: Path) -> None:
    from models.model_folder import check_folder

    (folder / "/".join("a" * 40)).mkdir(parents=True)
    with pytest.raises(ModelError, match="nested more than 16 levels deep"):
        check_folder(folder)
