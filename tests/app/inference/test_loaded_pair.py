"""A pair whose pass was interrupted is made whole again without two copies of its drafter."""

import gc
import json
import weakref
from pathlib import Path

import pytest

from app.inference import pair_loader
from app.inference.loaded_pair import LoadedPair, open_target
from app.inference.options import Options
from app.inference.pair_loader import NamedDrafter
from engine.drafters.prompt_lookup import PromptLookup
from engine.session import Session
from models.loader import Loaded, load
from models.tokenizer import NO_TEMPLATE
from tests.toys.folders import make_folder


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


def test_a_target_without_a_chat_template_is_opened_with_a_word_about_it(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "base")
    about = json.loads((folder / "tokenizer_config.json").read_text())
    about.pop("chat_template", None)
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    assert NO_TEMPLATE in open_target(Options(target=str(folder), cache_root=tmp_path)).note
