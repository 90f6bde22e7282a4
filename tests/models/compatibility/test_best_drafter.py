"""Verdicts on drafters of every kind from their folders alone, and the best of several."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from models.builtin import is_builtin
from models.catalogue.entries import Catalogue, Drafter, Target
from models.compatibility.best_drafter import (
    PAYING_RATE,
    UsableModel,
    auto_drafter,
    best_drafter,
    expected_speedup,
    shipped_drafters,
)
from models.compatibility.pair_check import check_compatibility
from models.drafters import variant_trial
from models.drafters.eagle3 import FILES as EAGLE3_FILES
from models.drafters.eagle3 import save_eagle3
from models.drafters.medusa import FILES as MEDUSA_FILES
from models.drafters.medusa import save_medusa
from models.drafters.target_match import made_for
from models.loader import Loaded, load
from models.model_folder import ModelFolder, check_folder
from tests.toys.folders import make_folder
from tests.toys.heads import random_eagle3, random_medusa

TREE = [(0,), (1,), (0, 0)]


@pytest.fixture(scope="module")
def target(toy_folder: Path) -> Loaded:
    return load(toy_folder)


@pytest.fixture(scope="module")
def heads(target: Loaded, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root, about, rows = tmp_path_factory.mktemp("heads"), {"target": made_for(target)}, target.model.vocabulary
    save_eagle3(root / "eagle3", random_eagle3(vocab_size=rows, draft_vocab_size=40, taps=(0, 1, 2)), about)
    save_medusa(root / "medusa", random_medusa(vocabulary=rows, draft_vocab_size=40), about, TREE)
    return root


def copy_with(folder: Path, to: Path, **fields: Any) -> Path:
    """A copy whose config.json says something else."""
    shutil.copytree(folder, to)
    path = to / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    return to


def usable(path: Path, size_bytes: int = 0, repository: str | None = None) -> UsableModel:
    return UsableModel(
        repository or path.name, path, size_bytes or sum(f.stat().st_size for f in path.iterdir()), repository
    )


# --- one pair -------------------------------------------------------------------------------------


LOADERS: dict[str, Any] = {"eagle3": EAGLE3_FILES.load_head, "medusa": MEDUSA_FILES.load_head}


@pytest.mark.parametrize("kind", LOADERS)
def test_a_head_fits_by_its_folder_as_it_does_when_loaded(kind: str, heads: Path, target: Loaded) -> None:
    verdict = check_compatibility(target.folder, heads / kind)
    assert verdict.fits and verdict.kind == kind
    assert verdict.reason == "same hidden size (32) and vocabulary (310)"
    LOADERS[kind](heads / kind, target)


@pytest.mark.parametrize(
    ("kind", "fields", "reason"),
    [
        (
            "eagle3",
            {"eagle_aux_hidden_state_layer_ids": [0, 1, 3]},
            "different number of layers (reads layer 3; target has 2)",
        ),
        ("eagle3", {"redline": {"target": {"name": "x", "vocabulary_sha256": "0"}}}, "made for x, not for target"),
        ("medusa", {"vocab_size": 320}, "320; target has 310"),
        ("medusa", {"redline": {"tree": "oak"}}, "has an invalid tree"),
    ],
)
def test_what_loading_a_head_refuses_its_verdict_refuses_for_the_same_reason(
    kind: str, fields: dict[str, Any], reason: str, heads: Path, target: Loaded, tmp_path: Path
) -> None:
    path = copy_with(heads / kind, tmp_path / kind, **fields)
    verdict = check_compatibility(target.folder, path)
    assert not verdict.fits and reason in verdict.reason and str(path) not in verdict.reason
    with pytest.raises(Exception, match=re.escape(reason)):
        LOADERS[kind](path, target)


def test_a_head_for_another_width_is_refused_before_anything_is_loaded(heads: Path, target: Loaded) -> None:
    wider = replace(target.folder, config={**target.folder.config, "hidden_size": 64})
    reason = check_compatibility(wider, heads / "eagle3").reason
    assert "different hidden size (96 numbers a token; target has 192)" in reason
    silent = replace(target.folder, config={})
    assert "config.json has no hidden_size" in check_compatibility(silent, heads / "eagle3").reason


def test_other_templates_ends_contexts_and_sizes_are_notes_and_no_refusal(
    toy_folder: Path, toy_drafter_folder: Path, tmp_path: Path
) -> None:
    target, same = check_folder(toy_folder), check_compatibility(check_folder(toy_folder), toy_drafter_folder)
    path = copy_with(toy_drafter_folder, tmp_path / "other", max_position_embeddings=64, eos_token_id=5)
    (path / "chat_template.jinja").write_text("another")
    verdict = check_compatibility(replace(target, weights_bytes=target.weights_bytes * 8), path)
    assert verdict.fits and verdict.reason == same.reason == "same 310 tokens"
    assert verdict.notes == (
        "different chat template (the target's is used)",
        "different end-of-text tokens (the target's are used)",
        "made for contexts of 64 tokens (target: 512)",
    )
    assert same.notes == ("100% of the target's size, too large to save time",)


def test_whatever_is_wrong_with_a_drafters_folder_is_a_verdict(target: Loaded, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "pickle").mkdir()
    (tmp_path / "pickle" / "config.json").write_text('{"draft_vocab_size": 9}')
    (tmp_path / "pickle" / "pytorch_model.bin").write_bytes(b"x")
    for name, reason in (
        ("empty", ""),
        ("pickle", "are a pickle, which can run code and is never loaded"),
        ("absent", ""),
    ):
        verdict = check_compatibility(target.folder, tmp_path / name)
        assert not verdict.fits and verdict.reason and "\n" not in verdict.reason and reason in verdict.reason


# --- the best of several --------------------------------------------------------------------------


def catalogue(*drafters: str, trouble: str = "") -> Catalogue:
    """A target o/target whose drafters are these."""
    rest = {"licence": "MIT", "source": ("s",)}
    sizes: dict[str, Any] = {"parameters_b": 1.0, "bits": 4.5, "size_bytes": 9, "size": "estimated"}
    names = {"repository": "o/target", "name": "t", "family": "f", "good_at": "tests", "architecture": "llama"}
    target = Target(**names, drafters=drafters, **sizes, **rest)
    known = [Drafter(repository=one, name=one, kind="eagle3", obstacle=trouble, **rest) for one in drafters]
    return Catalogue((target,), tuple(known))


@pytest.fixture
def folder(target: Loaded) -> ModelFolder:
    """The target, so large that its sibling is small."""
    return replace(target.folder, weights_bytes=1 << 30)


def test_known_then_trained_then_a_small_sibling_then_lookup(
    folder: ModelFolder, heads: Path, toy_drafter_folder: Path
) -> None:
    own = usable(folder.path, 1 << 30, "o/target")
    trained, sibling = usable(heads / "medusa"), usable(toy_drafter_folder)
    known = replace(usable(heads / "eagle3"), repository="o/head", name="o/head")
    everything = [own, sibling, trained, known]
    assert best_drafter(folder, everything, catalogue("o/head")).why == "o/head, known for this target"
    assert best_drafter(folder, everything[:3], catalogue("o/head")).why == "medusa, trained for this target"
    assert (
        best_drafter(folder, [own, sibling], catalogue("o/head")).why == "drafter, a small model with the same tokens"
    )
    assert best_drafter(folder, [own], catalogue("o/head")).why == "there is no drafter for target on this machine"
    assert best_drafter(folder, [own], None).drafter is None


def test_the_catalogues_order_decides_and_what_does_not_load_is_passed_over(
    folder: ModelFolder, heads: Path, tmp_path: Path
) -> None:
    own = usable(folder.path, 1, "o/target")
    first, second = usable(heads / "medusa", 1, "o/b"), usable(heads / "eagle3", 1, "o/a")
    assert best_drafter(folder, [own, first, second], catalogue("o/a", "o/b")).drafter == second
    assert best_drafter(folder, [own, first, second], catalogue("o/b", "o/a")).drafter == first
    untold = copy_with(heads / "eagle3", tmp_path / "untold", redline={})
    stopped = best_drafter(folder, [own, usable(untold, 1, "o/a")], catalogue("o/a", trouble="is a pickle"))
    assert stopped.drafter is None


def test_a_known_drafter_that_does_not_fit_gives_way_to_one_that_does(
    folder: ModelFolder, heads: Path, toy_drafter_folder: Path, tmp_path: Path
) -> None:
    own = usable(folder.path, 1, "o/target")
    broken = usable(copy_with(heads / "medusa", tmp_path / "m", vocab_size=9), 1, "o/head")
    chosen = best_drafter(folder, [own, broken, usable(toy_drafter_folder)], catalogue("o/head"))
    assert chosen.drafter is not None and chosen.drafter.path == toy_drafter_folder
    assert best_drafter(folder, [own, broken], catalogue("o/head")).why == (
        "the one drafter found for target is incompatible; `redline models pairs` says why"
    )


def test_a_sibling_too_large_to_pay_or_of_other_tokens_is_not_taken(
    folder: ModelFolder, toy_drafter_folder: Path, tmp_path: Path
) -> None:
    large = usable(toy_drafter_folder, folder.weights_bytes // 2 + 1)
    assert best_drafter(folder, [large], None).why == "there is no drafter for target on this machine"
    assert best_drafter(folder, [replace(large, size_bytes=folder.weights_bytes // 2)], None).drafter is not None
    other = make_folder(tmp_path / "other", words=300)
    assert best_drafter(folder, [usable(other)], None).why.startswith("the one drafter found for target")


def test_a_model_with_other_tokens_is_taken_once_a_trial_has_shown_that_it_pays(
    folder: ModelFolder, tmp_path: Path
) -> None:
    other = usable(make_folder(tmp_path / "other", words=300))
    key = variant_trial._trial_key(other.path, folder.path)
    for rates, taken in (([0.1, PAYING_RATE - 0.01], False), ([0.1, 0.55], True)):
        found = json.dumps(dict(zip("ab", rates, strict=True))).encode()
        variant_trial._trials(tmp_path / "cache").write(key, found)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(variant_trial, "cache_dir", lambda _root: tmp_path / "cache")
            choice = best_drafter(folder, [other], None)
        assert (choice.drafter == other) == taken, choice.why
    assert choice.why == "other (55% of its drafted tokens were accepted in a trial)"


@pytest.mark.parametrize(("share", "other"), [(0.05, 0.3), (0.05, 0.002), (0.3, 0.45), (0.33, 0.001)])
def test_of_two_siblings_the_one_that_promises_more_is_taken(
    share: float, other: float, folder: ModelFolder, toy_drafter_folder: Path, tmp_path: Path
) -> None:
    """Neither the smallest, which is seldom right, nor one that takes half as long as the target."""
    copy = Path(shutil.copytree(toy_drafter_folder, tmp_path / "copy"))
    sizes = [int(one * folder.weights_bytes) for one in (share, other)]
    better, worse = usable(toy_drafter_folder, sizes[0]), usable(copy, sizes[1])
    for order in ([better, worse], [worse, better]):
        assert best_drafter(folder, order, None).drafter == better


def test_a_draft_model_of_a_third_of_its_target_promises_what_was_measured() -> None:
    """A 0.5B draft model of a 1.5B target was nearly twice as fast as plain decoding; it is offered."""
    assert 1.3 < expected_speedup(0.33) < 1.92
    assert 1.05 < expected_speedup(0.5) < 1.3


def test_auto_is_lookup_beside_the_best_and_alone_where_there_is_none(
    folder: ModelFolder, toy_drafter_folder: Path, tmp_path: Path
) -> None:
    found = auto_drafter(folder, [usable(toy_drafter_folder)], None)
    assert found.spec == f"lookup+{toy_drafter_folder}"
    assert found.why == "prompt lookup and drafter, a small model with the same tokens"
    plus = Path(shutil.copytree(toy_drafter_folder, tmp_path / "a+b"))
    assert auto_drafter(folder, [usable(plus)], None).spec == str(plus)  # a plus would part its name
    assert auto_drafter(folder, [], None).why == "prompt lookup, because there is no drafter for target on this machine"


def test_the_shipped_drafters_fit_the_built_in_by_their_folders(builtin_folder: Path) -> None:
    target = check_folder(builtin_folder)
    assert is_builtin(builtin_folder) and [one.name for one in shipped_drafters()] == ["eagle3", "medusa", "draft"]
    assert all(check_compatibility(target, one.path).fits for one in shipped_drafters())
    assert auto_drafter(target, [], None).spec == "lookup+eagle3"
