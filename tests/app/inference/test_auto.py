"""What `--drafter auto` takes of what is here, and what becomes of the reply when that does not load."""

import shutil
from pathlib import Path

import pytest

from app.inference import pair_loader, pair_resolution
from engine.drafters.draft_model import DraftModel
from engine.drafters.drafter_group import DrafterGroup
from engine.drafters.prompt_lookup import PromptLookup
from models.compatibility.best_drafter import UsableModel
from models.loader import Loaded, load


@pytest.fixture(scope="module")
def target(toy_folder: Path) -> Loaded:
    return load(toy_folder)


@pytest.fixture
def snapshot(toy_drafter_folder: Path, tmp_path: Path) -> Path:
    """The drafter as it lies in the Hugging Face cache."""
    path = tmp_path / "models--o--small-4bit" / "snapshots" / ("0" * 40)
    path.parent.mkdir(parents=True)
    return Path(shutil.copytree(toy_drafter_folder, path))


@pytest.fixture
def here(snapshot: Path, monkeypatch: pytest.MonkeyPatch) -> UsableModel:
    """Only that drafter is here."""
    found = UsableModel("o/small-4bit", snapshot, 1, "o/small-4bit")
    monkeypatch.setattr(pair_resolution, "present_models", lambda root=None: [found])
    return found


def test_auto_opens_the_sibling_that_is_here_beside_lookup_and_says_so(target: Loaded, here: UsableModel) -> None:
    found = pair_loader.open_drafter("auto", target)
    assert found.spec == f"lookup+{here.path}"
    assert isinstance(found.drafter, DrafterGroup)
    assert [type(member) for member in found.drafter.members] == [PromptLookup, DraftModel]
    assert found.note == "auto took prompt lookup and o/small-4bit, a small model with the same tokens"
    assert [part.name for part in found.parts] == ["lookup", "small-4bit"]


def test_what_auto_takes_and_cannot_load_is_told_and_lookup_answers(target: Loaded, here: UsableModel) -> None:
    weights = here.path / "model.safetensors"
    data = weights.read_bytes()
    weights.write_bytes(data.replace(b"down_proj", b"town_proj"))  # whole by its header, and no model of mlx-lm's
    found = pair_loader.open_drafter("auto", target)
    assert isinstance(found.drafter, PromptLookup) and found.spec == "lookup"
    assert found.note.startswith("auto fell back to prompt lookup because its first choice does not load: ")
    assert str(here.path) in found.note
    with pytest.raises(Exception, match="does not load"):
        pair_loader.open_drafter(str(here.path), target)  # asked for by name, it is an error
