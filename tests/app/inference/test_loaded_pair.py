"""A pair whose pass was interrupted is made whole again without two copies of its drafter."""

import gc
import weakref
from pathlib import Path

import pytest

from app.inference import pair_loader
from app.inference.loaded_pair import LoadedPair
from app.inference.pair_loader import NamedDrafter
from engine.drafters.prompt_lookup import PromptLookup
from engine.session import Session
from models.loader import Loaded, load


@pytest.fixture(scope="module")
def target(toy_folder: Path) -> Loaded:
    return load(toy_folder)


def test_the_old_drafter_is_gone_before_the_new_one_is_loaded(
    target: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = LoadedPair(
        target, Session(target.model, target.tokenizer, 100), NamedDrafter("head", PromptLookup()), cache_root=tmp_path
    )
    old = weakref.ref(pair.drafter.drafter)
    seen: list[object] = []

    def opened(spec: str, _target: Loaded, _trees: bool, _root: Path) -> NamedDrafter:
        gc.collect()
        seen.append(old())
        return NamedDrafter(spec, PromptLookup())

    monkeypatch.setattr(pair_loader, "open_drafter", opened)
    pair.reset()
    assert seen == [None] and pair.has_drafter and pair.drafter.spec == "head"


def test_a_drafter_that_does_not_load_again_is_lost(
    target: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = LoadedPair(
        target, Session(target.model, target.tokenizer, 100), NamedDrafter("head", PromptLookup()), cache_root=tmp_path
    )
    monkeypatch.setattr(pair_loader, "open_drafter", lambda *_: 1 / 0)
    pair.reset()
    assert pair.lost and pair.refusal and not pair.has_drafter and pair.drafter.spec == "head"
