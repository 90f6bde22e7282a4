"""A target whose folder brings a multi-token prediction head drafts for itself with it."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest

from engine.drafters.mtp import Mtp
from engine.policy.fixed import FixedLength
from engine.session import Session
from engine.settings import SamplingSettings
from engine.target.layer_taps import NORMED
from engine.target.model_layout import layers_of, matrix_rows, output_of, output_rows
from models.compatibility.best_drafter import auto_drafter, best_drafter
from models.compatibility.pair_check import check_compatibility
from models.drafters import kind_of, own_head
from models.drafters.draft_vocabulary_file import write_draft_vocabulary
from models.drafters.mtp import FILES
from models.drafters.mtp import FILES as MTP_FILES
from models.drafters.pair_footprint import pair_footprint
from models.drafters.target_match import copies_output
from models.drafters.variant_trial import choose_variant
from models.loader import Loaded, load
from models.model_folder import check_folder
from models.parameters import weights_bytes
from tests.engine.conversations import chat_reply, read
from tests.models.drafters.head_folders import edit, tensor
from tests.toys.architectures import build
from tests.toys.head_targets import qwen_with_head


@pytest.fixture(scope="module")
def folder(toy_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return qwen_with_head(toy_folder, tmp_path_factory.mktemp("targets") / "qwen")


@pytest.fixture(scope="module")
def target(folder: Path) -> Loaded:
    return load(folder)


def test_auto_takes_the_head_that_comes_with_the_target(folder: Path, toy_folder: Path) -> None:
    checked = check_folder(folder)
    found = best_drafter(checked, [], None)
    assert found.drafter is not None and found.drafter.path == folder
    assert found.why == "the MTP head of qwen, which comes with it"
    assert auto_drafter(checked, [], None).spec == f"lookup+{folder}"
    assert own_head(toy_folder) is None


def test_the_folder_is_a_head_for_its_own_target_alone(folder: Path, toy_folder: Path) -> None:
    kinds = kind_of(folder, folder).name, kind_of(folder, toy_folder).name, kind_of(folder).name
    assert kinds == ("mtp", "model", "model")
    checked = check_folder(folder)
    verdict = check_compatibility(checked, folder)
    assert (verdict.fits, verdict.kind) == (True, "mtp") and verdict.reason.startswith("same hidden size")
    both, alone = pair_footprint(checked, [folder])(100), pair_footprint(checked)(100)
    assert 0 < both.drafter.weights < alone.target.weights / 2


def test_a_step_is_priced_by_what_it_reads_and_not_by_the_folder(folder: Path, target: Loaded) -> None:
    """The head's own matrices, the target's output matrix, and two of its layers."""
    found = kind_of(folder, folder).files.load(folder, target, False)
    layers, read = len(layers_of(target.network)), weights_bytes(target.network)
    output = output_of(target.network).module["weight"].nbytes
    rest = found.step_price - 2 / layers - output / read
    assert 0 < rest < 1 / layers + 0.1


def test_of_a_draft_vocabulary_a_step_reads_the_rows_alone(folder: Path, target: Loaded, tmp_path: Path) -> None:
    head, rows = Path(shutil.copytree(folder, tmp_path / "head")), target.model.vocabulary
    write_draft_vocabulary(head, mx.arange(0, rows, 2), rows)
    whole, half = (kind_of(path, path).files.load(path, target, False).step_price for path in (folder, head))
    output = output_of(target.network).module["weight"].nbytes
    assert whole - half == pytest.approx(0.5 * output / weights_bytes(target.network))


def test_replies_are_those_of_the_target_alone(folder: Path, target: Loaded) -> None:
    found = kind_of(folder, folder).files.load(folder, target, False)
    assert isinstance(found.drafter, Mtp)
    messages = [{"role": "user", "content": "why is the sky blue?"}]
    coupled = SamplingSettings(max_tokens=24, temperature=0.9, seed=2, acceptance="coupled")
    for settings in (SamplingSettings(max_tokens=24), coupled):
        session = Session(target.model, target.tokenizer, 400)
        drafted = read(list(chat_reply(session, messages, settings, found.drafter, FixedLength(3))))
        session.forget()
        plain = read(list(chat_reply(session, messages, settings)))
        assert drafted.ids == plain.ids and drafted.text == plain.text
        assert sum(map(len, drafted.drafts)) > 20


@pytest.mark.parametrize(
    ("change", "shared"),
    [
        (lambda output: output.astype(mx.bfloat16), True),
        (lambda output: output[::-1], False),
        (lambda output: output + 0.05 * mx.random.normal(output.shape), False),
    ],
    ids=["rounded", "other rows", "trained on"],
)
def test_an_output_matrix_that_copies_the_targets_is_not_held_twice(
    folder: Path, target: Loaded, tmp_path: Path, change: Callable[[mx.array], mx.array], shared: bool
) -> None:
    head = Path(shutil.copytree(folder, tmp_path / "head"))
    own = change(output_rows(target.network, mx.arange(target.model.vocabulary)))
    tensor("language_model.mtp.shared_head.head.weight", own)(head)
    found = MTP_FILES.load_head(head, target)
    assert (found.project is None) is shared
    assert shared or mx.array_equal(found.lm_head.weight, own).item()


def test_a_quantized_targets_matrix_serves_for_what_it_was_quantized_from() -> None:
    network = build("qwen3")
    matrix = network.lm_head.weight
    nn.quantize(network, 32, 4, class_predicate=lambda name, _: name == "lm_head")
    quantized: Any = SimpleNamespace(network=network, model=SimpleNamespace(vocabulary=len(matrix)))
    for weight, copied in ((matrix, True), (matrix + 0.1 * mx.random.normal(matrix.shape), False)):
        own = nn.Linear(32, len(matrix), bias=False)
        own.weight = weight
        assert copies_output(partial(matrix_rows, own), quantized) is copied


def test_the_state_that_a_pack_was_measured_with_comes_first(folder: Path, target: Loaded, tmp_path: Path) -> None:
    pack = Path(shutil.copytree(folder, tmp_path / "pack"))
    edit(pack, mtplx_mtp_contract={"base_hidden_variant": "pre_norm"})
    layers = len(layers_of(target.network))
    for path, taps in ((folder, (NORMED, layers)), (pack, (layers, NORMED))):
        found = FILES.load(path, target, False)
        assert found.drafter.needs.taps == taps[:1]
        assert [make().needs.taps for make in found.variants.values()] == [(tap,) for tap in taps]


@pytest.mark.slow
def test_only_the_kept_variant_leaves_hooks_on_the_target(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pass would go on noting states that nobody reads."""
    fresh = load(folder)
    found = kind_of(folder, folder).files.load(folder, fresh, False)
    makes = list(found.variants.values())
    assert found.drafter.needs.taps != makes[1]().needs.taps
    for best, tapped in ((0, {NORMED}), (1, {len(layers_of(fresh.network))})):
        variants = found.variants if best == 0 else dict(reversed(found.variants.items()))
        first = next(iter(variants.values()))()
        kept = choose_variant(replace(found, drafter=first, variants=variants), folder, fresh, tmp_path)
        assert set(kept.drafter.needs.taps) == tapped
        assert {point for points, _ in fresh.model._known_taps for point in points} == tapped
        fresh.model.forget_taps(kept.drafter.needs.taps)
        shutil.rmtree(tmp_path / "trials")
    monkeypatch.setattr("models.drafters.variant_trial.try_variants", lambda variants, target: [0.0, 1.0])
    kept = choose_variant(replace(found, drafter=makes[0]()), folder, fresh, tmp_path)
    assert [points for points, _ in fresh.model._known_taps] == [kept.drafter.needs.taps] != [(NORMED,)]
    fresh.model.forget_taps(kept.drafter.needs.taps)
    assert not any(vars(layer).get("_hooks") for layer in layers_of(fresh.network))
