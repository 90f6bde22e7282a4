"""Which drafter `--drafter` means: names, folders of every kind, what auto comes to; texts stay the target's."""

import dataclasses
import json
import shutil
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from app.inference import pair_loader
from app.inference.conversation import open_conversation
from app.inference.learnt_rounds import expected_length
from app.inference.options import Options
from engine.drafters.draft_model import DraftModel
from engine.drafters.drafter_group import DrafterGroup
from engine.drafters.eagle3 import Eagle3
from engine.drafters.medusa import Medusa
from engine.drafters.prompt_lookup import PromptLookup
from engine.errors import ModelError, PairError, UsageError
from engine.policy.expected_length import PROBS, AcceptanceCounts
from engine.settings import SamplingSettings
from models import builtin
from models.convert.atomic_folder import MANIFEST
from models.drafters.eagle3 import save_eagle3
from models.drafters.medusa import save_medusa
from models.drafters.target_match import made_for
from models.loader import Loaded, load
from tests.toys.folders import make_stranger
from tests.toys.heads import random_eagle3, random_medusa

TREE = [(0,), (1,), (0, 0), (0, 0, 0)]


@pytest.fixture(scope="module")
def target(toy_folder: Path) -> Loaded:
    return load(toy_folder)


@pytest.fixture(scope="module")
def heads(target: Loaded, toy_drafter_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A drafter of each kind for the toy target, as they would lie in resources/drafters."""
    root, about = tmp_path_factory.mktemp("drafters"), {"target": made_for(target)}
    rows = target.model.vocabulary
    eagle3 = random_eagle3(vocab_size=rows, draft_vocab_size=40, taps=(0, 1, 2))
    save_eagle3(root / "eagle3", eagle3, about)
    save_medusa(root / "medusa", random_medusa(vocabulary=rows, draft_vocab_size=40), about, TREE)
    (root / "draft").symlink_to(toy_drafter_folder)
    return root


@pytest.fixture
def shipping(heads: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As if `heads` were what is shipped."""
    monkeypatch.setattr(builtin, "_shipped", lambda name: heads / name)
    return heads


def as_builtin(target: Loaded, folder: Path) -> Loaded:
    """The same model, by its manifest imported from the wheel's GGUF."""
    folder.mkdir()
    (folder / MANIFEST).write_text(json.dumps({"source": {"name": builtin._FILE}}))
    return dataclasses.replace(target, folder=dataclasses.replace(target.folder, path=folder))


# --- names and folders ----------------------------------------------------------------------------


def test_names_and_folders_of_every_kind_open(shipping: Path, target: Loaded) -> None:
    kinds: dict[str, Any] = {
        "eagle3": Eagle3,
        "medusa": Medusa,
        "draft": DraftModel,
        "lookup": PromptLookup,
    }
    for name, kind in kinds.items():
        for spec in (name, str(shipping / name)) if name != "lookup" else (name,):
            drafter = pair_loader.open_drafter(spec, target)
            assert isinstance(drafter.drafter, kind) and drafter.spec == spec and drafter.note == ""
            assert drafter.name == name
    assert pair_loader.open_drafter("none", target).drafter is None


def test_auto_is_the_shipped_head_for_the_builtin_and_lookup_for_others(
    shipping: Path, target: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = pair_loader.open_drafter("auto", target)
    assert (other.spec, other.note) == (
        "lookup",
        "auto took prompt lookup, because there is no drafter for target on this machine",
    )
    own = pair_loader.open_drafter("auto", as_builtin(target, tmp_path / "own"))
    assert isinstance(own.drafter, DrafterGroup)
    assert [type(member) for member in own.drafter.members] == [PromptLookup, Eagle3]
    assert (own.spec, own.note) == (
        "lookup+eagle3",
        "auto took prompt lookup and eagle3, which is shipped for this model",
    )
    monkeypatch.setattr(builtin, "_shipped", lambda name: tmp_path / name)
    bare = pair_loader.open_drafter("auto", as_builtin(target, tmp_path / "bare"))
    assert (bare.spec, bare.note) == ("lookup", "auto took prompt lookup, because the shipped eagle3 is missing")
    with pytest.raises(ModelError, match="this copy of Redline does not have the drafter 'medusa'"):
        pair_loader.open_drafter("medusa", target)


def test_a_shipped_drafter_is_refused_for_another_target(shipping: Path, tmp_path: Path) -> None:
    other = load(make_stranger(tmp_path / "other"))  # tokens that no shipped drafter knows
    for name in builtin.SHIPPED:
        with pytest.raises(PairError) as caught:
            pair_loader.open_drafter(name, other)
        assert str(shipping / name) in str(caught.value) and "\n" not in str(caught.value)


def test_a_drafter_is_expected_to_be_as_good_as_its_folder_says(
    heads: Path, toy_drafter_folder: Path, target: Loaded, tmp_path: Path
) -> None:
    said = {"acceptance_by_position": [0.75, 0.5]}
    for source in (heads / "eagle3", toy_drafter_folder):
        folder = shutil.copytree(source, tmp_path / source.name)
        config = json.loads((folder / "config.json").read_text())
        for about, first in ((said, 0.75), ({}, mean(PROBS))):
            (folder / "config.json").write_text(json.dumps({**config, "redline": about}))
            expected = expected_length(pair_loader.open_drafter(str(folder), target), AcceptanceCounts())
            assert expected.expected(None)[1] == pytest.approx(1 + first, abs=0.03)


@pytest.mark.parametrize("nonsense", [0.4, ["much"], [1.5], [-0.1], [True]])
def test_a_folder_that_promises_nonsense_is_refused(
    heads: Path, target: Loaded, tmp_path: Path, nonsense: object
) -> None:
    folder = shutil.copytree(heads / "eagle3", tmp_path / "head")
    config = json.loads((folder / "config.json").read_text())
    config["redline"]["acceptance_by_position"] = nonsense
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=r"acceptance_by_position .* a list of numbers from 0 to 1"):
        pair_loader.open_drafter(str(folder), target)


def test_what_is_no_drafter_is_a_usage_error(target: Loaded) -> None:
    for spec in ("", "nonsense", "x" * 300, "a\0b"):
        with pytest.raises(UsageError, match="give auto, none, lookup, eagle3, medusa, draft, builtin, a folder"):
            pair_loader.open_drafter(spec, target)


# --- trees ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["eagle3", "medusa"])
def test_a_head_drafts_trees_where_the_target_verifies_them_and_says_where_not(
    name: str, shipping: Path, target: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafter = pair_loader.open_drafter(name, target, trees=True)
    assert isinstance(drafter.drafter, Eagle3 | Medusa) and drafter.drafter.traits.branches and drafter.note == ""
    monkeypatch.setattr("models.drafters.head_files.why_no_trees", lambda _: "its memory is no tree's")
    drafter = pair_loader.open_drafter(name, target, trees=True)
    assert isinstance(drafter.drafter, Eagle3 | Medusa) and not drafter.drafter.traits.branches
    assert drafter.note == "drafts chains, not trees: its memory is no tree's"
    assert pair_loader.open_drafter(name, target).note == ""


# --- what comes of it -----------------------------------------------------------------------------


def test_a_conversation_names_its_drafter_and_what_auto_came_to(shipping: Path, toy_folder: Path) -> None:
    options = Options(target=str(toy_folder), sampling=SamplingSettings(draft_length=3))
    conversation = open_conversation(options, "", lambda _: None)
    why = "auto took prompt lookup, because there is no drafter for target on this machine"
    assert f"drafter lookup, draft length 3 ({why})" in conversation.describe()
    conversation.change(dataclasses.replace(options, drafters=("medusa",)))
    assert "drafter medusa, draft length 3 ·" in conversation.describe()


def test_a_conversation_on_a_head_survives_ctrl_c(shipping: Path, toy_folder: Path) -> None:
    """Whatever a broken pass left behind, the next reply is what a fresh conversation would say."""
    sampling = SamplingSettings(max_tokens=12, draft_length=3)
    options = Options(target=str(toy_folder), drafters=("eagle3",), sampling=sampling)
    texts = []
    for broken in (True, False):
        conversation = open_conversation(options, "", lambda _: None)
        if broken:
            replying = conversation.ask("one", lambda: False)
            next(replying)
            with pytest.raises(KeyboardInterrupt):
                replying.throw(KeyboardInterrupt)
            conversation.clear()
        list(conversation.ask("two", lambda: False))
        list(conversation.ask("three", lambda: False))
        texts.append(conversation.messages)
    assert texts[0] == texts[1]
