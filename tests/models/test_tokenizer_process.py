"""Templates and tokenizers that want more than they need end in one line, and the next request is answered."""

import json
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from engine.errors import ModelError, StoppedError
from models import tokenizer, tokenizer_process
from models.tokenizer import FolderTokenizer
from models.tokenizer_process import TokenizerProcess, WorkerLostError
from models.tokenizer_worker import Encode, Refused
from tests.models.test_loader import change

FAR_S = 300.0  # only what hangs takes as long, on any machine
LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
GROWS = "{% set n = namespace(s='ab') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}{{ n.s }}"


# --- the process: a toy that imports nothing does as it is told ------------------------------------


@pytest.fixture
def toy() -> Iterator[TokenizerProcess]:
    """A worker that has answered once."""
    process = TokenizerProcess("tests.toys.tokenizer_worker")
    assert answer_to(process, "hello") == "hello"
    yield process
    assert answer_to(process, "and after all this") == "and after all this"
    process.end()


def answer_to(
    process: TokenizerProcess, text: str, cancelled: Callable[[], bool] = lambda: False, limit_s: float = 60.0
) -> str:
    """The answer of the toy, which does what a text says, or says it again. limit_s: of the toy's processor time, of
    which an answer takes next to none."""
    answer = process.ask(Encode(0, text, False), limit_s, cancelled, lambda answer: None)
    assert isinstance(answer, Refused)
    return answer.reason


@pytest.mark.parametrize(
    ("text", "limit_s", "reason"),
    [
        ("loop", 0.1, "it took too long"),
        ("sleep", 0.01, "it took too long"),
        ("grow", FAR_S, "it took more than 0.0 GB of memory"),
        ("flood", FAR_S, "its result was too large"),
        ("abort", FAR_S, r"it ended the process that ran it \(SIGABRT\)"),
        ("leave", FAR_S, r"it ended the process that ran it \(exit code 3\)"),
    ],
    ids=["time", "waiting", "memory", "answer", "abort", "exit"],
)
def test_a_request_is_bounded(
    toy: TokenizerProcess, monkeypatch: pytest.MonkeyPatch, text: str, limit_s: float, reason: str
) -> None:
    monkeypatch.setattr(tokenizer_process, "MOST_BYTES", 30 << 20)
    monkeypatch.setattr(tokenizer_process, "MOST_ANSWER_BYTES", 1 << 20)
    with pytest.raises(WorkerLostError, match=reason):
        answer_to(toy, text, limit_s=limit_s)


def test_a_stop_ends_a_request_that_is_never_answered(toy: TokenizerProcess) -> None:
    with pytest.raises(StoppedError):
        answer_to(toy, "loop", lambda: True, limit_s=60)


def test_a_stop_that_comes_too_late_ends_no_worker(toy: TokenizerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_process, "STOP_S", FAR_S)
    before = toy._process
    assert answer_to(toy, "hello", lambda: True) == "hello"
    assert toy._process is before


def test_a_request_that_ctrl_c_ends_leaves_no_answer_for_the_next_one(toy: TokenizerProcess) -> None:
    def interrupt() -> bool:
        raise KeyboardInterrupt

    process = toy._process
    with pytest.raises(KeyboardInterrupt):
        answer_to(toy, "loop", interrupt)
    was_killed = process is not None and process.poll() is not None
    if not was_killed:
        toy.end()  # it would answer in a minute
    assert was_killed
    assert [answer_to(toy, text) for text in ("one", "two")] == ["one", "two"]


def test_a_worker_that_died_between_two_requests_is_replaced(toy: TokenizerProcess) -> None:
    assert toy._process is not None
    toy._process.kill()
    toy._process.wait()
    assert answer_to(toy, "hello") == "hello"


# --- the tokenizer -------------------------------------------------------------------------------


def tokenizer_on_go(folder: Path, template: str) -> FolderTokenizer:
    """A tokenizer whose template does as it says only where the message is "go"."""
    whole = "{% if messages[0].content == 'go' %}" + template + "{% endif %}{{ messages[0].content }}"
    change(folder, "tokenizer_config.json", "chat_template", whole)
    return FolderTokenizer(folder)


def message(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


@pytest.mark.slow
def test_a_template_that_computes_without_end_while_it_is_compiled_is_refused_when_it_is_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """jinja2 computes what is constant when it compiles."""
    monkeypatch.setattr(tokenizer, "PROBE_S", 0.5)
    monkeypatch.setattr(tokenizer, "RENDER_S", 0.5)
    change(folder, "tokenizer_config.json", "chat_template", "{{ 9**(9**9) }}")
    opened = FolderTokenizer(folder)
    with pytest.raises(ModelError, match=r"tokenizer_config.json: the chat template failed.*took too long"):
        opened.chat(message("hi"))
    assert opened.decode(opened.encode("hi")) == "hi"


def test_a_template_that_writes_too_much_is_named(folder: Path) -> None:
    limited = tokenizer_on_go(folder, "{{ 'a' * 2000000 }}")
    with pytest.raises(ModelError, match=r"tokenizer_config.json: the chat template failed.*writes 2,000,002 char"):
        limited.chat(message("go"))
    assert limited.decode(limited.chat(message("hi"))) == "hi"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("template", "limit_s", "reason"),
    [(LOOPS, 0.5, "took too long"), (GROWS, FAR_S, "GB of memory")],
    ids=["loops", "grows"],
)
def test_a_template_without_end_is_named_and_the_next_reply_works(
    folder: Path, monkeypatch: pytest.MonkeyPatch, template: str, limit_s: float, reason: str
) -> None:
    monkeypatch.setattr(tokenizer, "RENDER_S", limit_s)
    limited = tokenizer_on_go(folder, template)
    expected = limited.chat(message("hi"))
    with pytest.raises(ModelError, match=f"tokenizer_config.json: the chat template failed.*{reason}") as error:
        limited.chat(message("go"))
    assert "\n" not in str(error.value)
    assert limited.chat(message("hi")) == expected


@pytest.mark.slow
def test_a_tokenizer_that_changed_while_it_was_loaded_gives_no_ids(folder: Path) -> None:
    limited = tokenizer_on_go(folder, "")
    expected = limited.chat(message("hi"))
    change(folder, "tokenizer_config.json", "chat_template", "{{ 'other' }}")
    assert limited.chat(message("hi")) == expected
    tokenizer_process.shared().end()
    with pytest.raises(ModelError, match="has changed since it was loaded: load the model again"):
        limited.chat(message("hi"))
    change(folder, "tokenizer_config.json", "chat_template", str(limited._template))
    assert limited.chat(message("hi")) == expected


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
    """In a time that grows with its length: with its square, this would not end."""
    change(folder, "tokenizer_config.json", "chat_template", "{{ strftime_now('" * 50_000)
    assert FolderTokenizer(folder).on(date(2024, 7, 26)).has_template


def test_decoding_does_not_depend_on_what_only_encoding_needs(folder: Path) -> None:
    whole, bare = Tokenizer.from_file(str(folder / "tokenizer.json")), FolderTokenizer(folder)
    ids = whole.encode("<|im_start|>user\nthe sky is blue \u00e9\U0001f600<|im_end|>", add_special_tokens=False).ids
    assert bare.decode(ids) == whole.decode(ids)
    assert [bare.piece(token) for token in ids][:2] == ["<|im_start|>", "user"]
