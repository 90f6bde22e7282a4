"""The acceptance rate of a drafter is measured once, and remembered for this drafter and this target."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.errors import ModelError, StoppedError
from engine.session import Prompt, Session
from engine.settings import SamplingSettings
from models.drafters import acceptance_trial
from models.drafters.acceptance_trial import measure_acceptance, remembered_acceptance
from models.loader import Loaded
from tests.engine.conversations import read
from tests.engine.replies import Scripted

TOKENS = 32


def scripted(target: Loaded, every: int) -> Scripted:
    """A drafter that knows the answer to the one prompt of the trial, but for every n-th token."""
    prompt = target.tokenizer.chat([{"role": "user", "content": acceptance_trial.PROMPTS[0]}])
    session = Session(target.model, target.tokenizer, 500)
    answer: Sequence[int] = read(list(session.continue_tokens(Prompt(prompt), SamplingSettings(max_tokens=TOKENS)))).ids
    session.forget()
    return Scripted(len(prompt), answer, frozenset(range(0, len(answer), every)), 300)


@pytest.fixture(autouse=True)
def one_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptance_trial, "PROMPTS", acceptance_trial.PROMPTS[:1])
    monkeypatch.setattr(acceptance_trial, "TOKENS", TOKENS)


def test_the_rate_is_that_of_the_tokens_that_were_judged(target: Loaded, toy_folder: Path, tmp_path: Path) -> None:
    always = measure_acceptance(scripted(target, TOKENS + 1), toy_folder, target, tmp_path, lambda: None)
    assert always is not None and always > 0.95
    half = measure_acceptance(scripted(target, 2), toy_folder, target, tmp_path, lambda: None)
    assert half == pytest.approx(0.5, abs=0.1)


def test_it_is_remembered_for_this_drafter_and_this_target(
    target: Loaded, toy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert remembered_acceptance(toy_folder, target, tmp_path) is None
    rate = measure_acceptance(scripted(target, 3), toy_folder, target, tmp_path, lambda: None)
    assert rate == remembered_acceptance(toy_folder, target, tmp_path) != 0
    other = shutil.copytree(toy_folder, tmp_path / "other")
    (other / "config.json").write_text((toy_folder / "config.json").read_text() + "\n")
    assert remembered_acceptance(other, target, tmp_path) is None
    assert remembered_acceptance(tmp_path / "gone", target, tmp_path) is None
    monkeypatch.setattr(target.model, "kv_bits", 8)
    assert remembered_acceptance(toy_folder, target, tmp_path) is None


def test_a_rate_that_is_none_is_not_read(target: Loaded, toy_folder: Path, tmp_path: Path) -> None:
    measure_acceptance(scripted(target, 3), toy_folder, target, tmp_path, lambda: None)
    (kept,) = tmp_path.iterdir()
    for wrong in ("1e6", "NaN", '"a"', "-0.1"):
        kept.write_text(re.sub(r'("rates": \[\s*)[^\s\]]+', rf"\g<1>{wrong}", kept.read_text()))
        assert remembered_acceptance(toy_folder, target, tmp_path) is None


def test_a_chat_template_that_refuses_the_prompts_says_nothing(
    target: Loaded, toy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> list[int]:
        raise ModelError("roles must alternate")

    drafter = scripted(target, 2)
    monkeypatch.setattr(target.tokenizer, "chat", refuse)
    assert measure_acceptance(drafter, toy_folder, target, tmp_path, lambda: None) is None


def test_a_short_answer_says_nothing(
    target: Loaded, toy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafter = scripted(target, 2)
    monkeypatch.setattr(acceptance_trial, "TOKENS", 8)
    assert measure_acceptance(drafter, toy_folder, target, tmp_path, lambda: None) is None
    assert not list(tmp_path.iterdir())


def test_it_can_be_broken_off_at_any_time(target: Loaded, toy_folder: Path, tmp_path: Path) -> None:
    drafter, calls = scripted(target, 2), 0
    for last in (1, 2, 9):
        calls = 0

        def stop() -> None:
            nonlocal calls
            calls += 1
            if calls == last:  # noqa: B023  called before the next round of the loop
                raise StoppedError

        with pytest.raises(StoppedError):
            measure_acceptance(drafter, toy_folder, target, tmp_path, stop)
        assert not list(tmp_path.iterdir()) and target.model.length == 0 and target.model.owner is None
