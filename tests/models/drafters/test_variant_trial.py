"""A head that is read in the wrong way is found out by a trial, which is made once."""

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import mlx.core as mx
import pytest

from engine.drafters import DraftContext, Drafter
from engine.drafters.gemma4_assistant import AssistantHead, SharedKV
from engine.errors import MachineLostError
from engine.sampling import Sampler, TokenCounts
from engine.session import Prompt, Session
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from models.drafters import variant_trial
from models.drafters.drafter_kind import LoadedDrafter
from models.drafters.gemma4_assistant import FILES
from models.drafters.variant_trial import TOKENS, choose_variant
from models.loader import Loaded, load
from tests.engine.conversations import read
from tests.engine.replies import PROMPT, Scripted, attach
from tests.models.drafters.oracle_heads import ORACLES
from tests.toys.architectures import _config, build


@pytest.fixture(scope="module")
def truth(target: Loaded) -> tuple[int, list[int]]:
    """The length of the trial's prompt, and the target's own answer to it."""
    prompt = target.tokenizer.chat([{"role": "user", "content": variant_trial._PROMPT}])
    session = Session(target.model, target.tokenizer, 500)
    return len(prompt), read(list(session.continue_tokens(Prompt(prompt), SamplingSettings(max_tokens=TOKENS)))).ids


@pytest.fixture
def heads(truth: tuple[int, list[int]]) -> Callable[[int], Callable[[], Drafter]]:
    """Makes makers of drafters that are wrong at every n-th token."""

    def maker(every: int) -> Callable[[], Drafter]:
        prompt, answer = truth
        wrong = frozenset(place for place in range(len(answer)) if place % every == 0)
        return lambda: Scripted(prompt, answer, wrong, 300)

    return maker


def pair_of(**variants: Callable[[], Drafter]) -> LoadedDrafter:
    return LoadedDrafter(next(iter(variants.values()))(), note="a note", variants=variants)


def test_the_variant_that_is_accepted_most_is_kept_and_named(
    heads: Callable[[int], Callable[[], Drafter]], target: Loaded, toy_folder: Path, tmp_path: Path
) -> None:
    right, wrong = heads(9), heads(2)
    kept = choose_variant(pair_of(wrong=wrong, right=right), toy_folder, target, tmp_path)
    assert kept.note.startswith("a note; uses right: ") and kept.note.endswith("% with wrong")
    assert kept.drafter is not None and kept.drafter._wrong == right()._wrong  # type: ignore[attr-defined]
    first, alone = pair_of(right=right, wrong=wrong), LoadedDrafter(right())
    assert choose_variant(first, toy_folder, target, tmp_path / "other") is first
    assert choose_variant(alone, toy_folder, target, tmp_path / "none") is alone and not (tmp_path / "none").exists()


@pytest.mark.slow
def test_a_trial_is_made_once_for_a_head_and_a_target(
    heads: Callable[[int], Callable[[], Drafter]],
    target: Loaded,
    toy_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[int] = []
    real = variant_trial.try_variants

    def counted(variants: object, of: Loaded) -> list[float]:
        made.append(1)
        return real(variants, of)  # type: ignore[arg-type]

    monkeypatch.setattr(variant_trial, "try_variants", counted)
    pair = pair_of(one=heads(2), two=heads(9))
    notes = {choose_variant(pair, toy_folder, target, tmp_path).note for _ in range(3)}
    assert len(made) == 1 and len(notes) == 1
    head = tmp_path / "head"
    head.mkdir()
    (head / "config.json").write_text("{}")
    choose_variant(pair, head, target, tmp_path)
    assert len(made) == 2
    files = list((tmp_path / "trials").iterdir())
    assert len(files) == 2
    for file in files:
        file.write_text("damaged")
    choose_variant(pair, toy_folder, target, tmp_path)
    assert len(made) == 3
    choose_variant(pair, toy_folder, target, tmp_path)
    assert len(made) == 3


def test_the_latest_trials_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variant_trial, "_MOST_TRIALS", 3)
    for number in range(8):
        variant_trial._trials(tmp_path).write(str(number), b'{"one": 0.1}')
        for age, file in enumerate(sorted((tmp_path / "trials").iterdir(), key=lambda file: -file.stat().st_mtime)):
            os.utime(file, (1_000_000 - age, 1_000_000 - age))
    assert [bool(variant_trial._kept_rates(str(number), tmp_path)) for number in range(8)] == [False] * 5 + [True] * 3


def test_a_lost_machine_is_no_finding(
    heads: Callable[[int], Callable[[], Drafter]], target: Loaded, toy_folder: Path, tmp_path: Path
) -> None:
    def lost() -> Drafter:
        raise RuntimeError("[ring] connection to a peer was lost")

    for variants in ({"one": heads(2), "two": lost}, {"one": lost, "two": heads(2)}):
        with pytest.raises(MachineLostError):
            choose_variant(LoadedDrafter(heads(2)(), variants=variants), toy_folder, target, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_trial_of_the_same_variants_in_another_order_is_not_taken_for_this_one(tmp_path: Path) -> None:
    """A pack that says how it is to be read turns the order round; the first variant has an advantage."""
    variant_trial._trials(tmp_path).write("key", b'{"after": 0.1, "before": 0.8}')
    assert list(variant_trial._kept_rates("key", tmp_path).items()) == [("after", 0.1), ("before", 0.8)]


# --- Gemma 4's assistants ----------------------------------------------------------------------


@pytest.fixture
def gemma(toy_folder: Path) -> Loaded:
    """A toy Gemma 4 under another toy's tokenizer."""
    found, network = load(toy_folder), build("gemma4_text")
    folder = dataclasses.replace(found.folder, config={**_config("gemma4_text"), "model_type": "gemma4_text"})
    return dataclasses.replace(found, folder=folder, network=network, model=CachedModel(network))


@pytest.mark.parametrize(("rates", "ahead"), [([0.6, 0.3], 0), ([0.3, 0.6], 1)])
def test_an_assistant_stands_where_more_of_its_drafts_are_accepted(
    rates: list[float], ahead: int, gemma: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sources disagree about the position, so both are tried when it is first used."""
    path = ORACLES / "gemma4_plain"
    found = FILES.load(path, gemma, False)
    monkeypatch.setattr(variant_trial, "try_variants", lambda *_: rates)
    kept = choose_variant(found, path, gemma, tmp_path)
    assert ("uses the position after the last token seen: 60% of its drafts" in kept.note) == bool(ahead)
    drafter, places = kept.drafter, []
    call = AssistantHead.__call__

    def noted(self: AssistantHead, embedded: mx.array, state: mx.array, cache: Sequence[SharedKV]) -> mx.array:
        places.append(cache[0].offset)
        return call(self, embedded, state, cache)

    monkeypatch.setattr(AssistantHead, "__call__", noted)
    attach(drafter, gemma.model)
    gemma.model.feed(PROMPT[:-1])
    sampler = Sampler(SamplingSettings(), gemma.model.vocabulary)
    drafter.propose(DraftContext(PROMPT, TokenCounts(sampler.distribution, PROMPT), sampler), 3)
    assert places == [len(PROMPT) - 2 + ahead] * 3
