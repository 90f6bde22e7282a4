"""What is present: found wherever it lies, judged without loading, and never taken for whole when it is not."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from models.local.completeness import missing_part
from models.local.inventory import HUB_SHARERS, Installed, installed, note_use, read_uses
from models.local.locations import ModelLocations, find_locations
from tests.models.hub.tiny import NAME, NEVER, tiny, tiny_files, wanted
from tests.models.local.model_placement import write_folder, write_in_hub

SIZE = sum(map(len, wanted(tiny()).values()))
SECOND, THIRD = "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors"


def only_model(places: ModelLocations) -> Installed:
    (model,) = installed(places)
    return model


def test_a_model_in_the_hugging_face_cache(places: ModelLocations) -> None:
    folder = write_in_hub(places.hub)
    assert only_model(places) == Installed(
        name=NAME,
        path=folder,
        origin="hub",
        kind="model",
        size_bytes=SIZE,
        total_bytes=SIZE,
        last_used_s=None,
        complete=True,
        revision=folder.name,
        shared_with=(HUB_SHARERS,),
    )


def test_a_model_of_lm_studio_and_one_of_our_own(places: ModelLocations) -> None:
    studio = write_folder(places.lm_studio[0] / "mlx-community" / "Tiny")
    own = write_folder(places.own / "My-Import")
    write_folder(places.own / ".unfinished.partial")
    found = installed(places)
    assert [(model.name, model.path, model.origin, model.complete) for model in found] == [
        ("mlx-community/Tiny", studio, "lm-studio", True),
        ("My-Import", own, "redline", True),
    ]
    assert found[0].shared_with == ("LM Studio",) and found[1].shared_with == ()


def test_gguf_is_told_and_not_taken_for_a_model(places: ModelLocations) -> None:
    folder = places.lm_studio[0] / "someone" / "Thing-GGUF"
    folder.mkdir(parents=True)
    (folder / "thing.gguf").write_bytes(b"GGUF")
    model = only_model(places)
    assert (model.kind, model.complete) == ("gguf", False) and "redline models import" in model.trouble


def test_what_is_no_model_is_passed_over(places: ModelLocations) -> None:
    write_in_hub(places.hub, "someone/bert-tokenizer")
    for path in places.hub.rglob("*.safetensors*"):
        path.unlink()
    (places.lm_studio[0] / "a" / "empty").mkdir(parents=True)
    (places.hub / "datasets--a--b" / "snapshots").mkdir(parents=True)
    (places.hub / "nonsense").write_text("")
    assert installed(places) == []


def test_older_revisions_are_listed_by_their_commit(places: ModelLocations) -> None:
    old = write_in_hub(places.hub, main=False)
    new = write_in_hub(places.hub, config=b" ")
    found = {model.name: model for model in installed(places)}
    assert {name: model.path for name, model in found.items()} == {NAME: new, f"{NAME}@{old.name[:8]}": old}
    assert found[NAME].shared_with == (HUB_SHARERS, f"revision {old.name[:8]}")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: (folder / SECOND).unlink(), f"1 of its weight files is missing: {SECOND}"),
        (
            lambda folder: (folder / SECOND).unlink() or (folder / THIRD).unlink(),
            f"2 of its weight files are missing, such as {SECOND}",
        ),
        (
            lambda folder: (folder / "model.safetensors.index.json").unlink() or (folder / SECOND).unlink(),
            "1 of its weight files is missing",
        ),
        (lambda folder: (folder / SECOND).write_bytes((folder / SECOND).read_bytes()[:-1]), "cut short"),
        (lambda folder: (folder / "config.json").unlink(), "has no config.json"),
        (lambda folder: (folder / "config.json").write_bytes(b"{"), "not valid JSON"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "its tokenizer is missing"),
        (lambda folder: (folder / "x.json").symlink_to("/etc/passwd"), "links to a place outside"),
        (
            lambda folder: (folder / "sub").mkdir() or (folder / "sub" / "x.jinja").symlink_to("/etc/passwd"),
            "links to a place outside",
        ),
        (lambda folder: (folder / "x.json").symlink_to("gone"), "links to a file that is missing"),
    ],
)
def test_a_partial_model_is_never_whole(places: ModelLocations, spoil: Callable[[Path], object], said: str) -> None:
    folder = write_folder(places.lm_studio[0] / "a" / "b")
    assert missing_part(folder) == ""
    spoil(folder)
    assert said in missing_part(folder)
    assert [model.complete for model in installed(places)] == [False]


def test_a_head_needs_no_tokenizer(places: ModelLocations) -> None:
    folder = write_folder(places.own / "head")
    (folder / "tokenizer.json").unlink()
    (folder / "config.json").write_text(json.dumps({"draft_vocab_size": 2}))
    assert only_model(places).complete and only_model(places).kind == "eagle3"


def test_nothing_that_could_run_makes_a_model(tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes(tiny_files()[name])
    (tmp_path / NEVER[1]).write_bytes(b"")
    assert "pickle" in missing_part(tmp_path)


# --- last used ----------------------------------------------------------------------------------


def test_last_use_is_kept_and_what_is_gone_is_forgotten(places: ModelLocations) -> None:
    first, second = write_folder(places.own / "first"), write_folder(places.own / "second")
    note_use(first, places.root, now_s=1000.0)
    note_use(second, places.root, now_s=2000.0)
    assert {model.name: model.last_used_s for model in installed(places)} == {"first": 1000.0, "second": 2000.0}
    first.rename(places.own / "third")
    note_use(second, places.root, now_s=3000.0)
    assert read_uses(places.root) == {os.path.realpath(second): 3000.0}


def test_only_the_user_may_read_where_models_are(places: ModelLocations) -> None:
    assert places.root is not None
    record = places.root / "models-used.json"
    model = write_folder(places.own / "first")
    record.write_text("{}")
    record.chmod(0o644)
    note_use(model, places.root)
    assert record.stat().st_mode & 0o777 == 0o600 and read_uses(places.root)


@pytest.mark.parametrize("text", ["{", "[]", '{"used_s": {"/x": "yesterday"}}'])
def test_a_record_that_cannot_be_read_says_never(places: ModelLocations, text: str) -> None:
    write_folder(places.own / "first")
    assert places.root is not None
    (places.root / "models-used.json").write_text(text)
    assert only_model(places).last_used_s is None
    note_use(places.own / "first", places.root, now_s=5.0)
    assert only_model(places).last_used_s == 5.0


# --- where --------------------------------------------------------------------------------------


def test_lm_studios_folder_is_found_where_lm_studio_says(tmp_path: Path) -> None:
    home, moved, told = tmp_path / "home", tmp_path / "moved", tmp_path / "told"
    assert find_locations(home, hub=tmp_path).lm_studio == ()
    for folder in (home / ".lmstudio/models", home / ".cache/lm-studio/models", moved / "models", told):
        folder.mkdir(parents=True)
    assert find_locations(home, hub=tmp_path).lm_studio == (home / ".lmstudio/models", home / ".cache/lm-studio/models")
    (home / ".lmstudio-home-pointer").write_text(f"{moved}\n")
    assert find_locations(home, hub=tmp_path).lm_studio[0] == moved / "models"
    (moved / "settings.json").write_text(json.dumps({"downloadsFolder": str(told)}))
    assert find_locations(home, hub=tmp_path).lm_studio[:2] == (told, moved / "models")


@pytest.mark.parametrize("text", ["{", "[1]", '{"downloadsFolder": 3}', '{"downloadsFolder": "relative"}'])
def test_nonsense_in_lm_studios_settings_is_passed_over(tmp_path: Path, text: str) -> None:
    (tmp_path / ".lmstudio" / "models").mkdir(parents=True)
    (tmp_path / ".lmstudio" / "settings.json").write_text(text)
    assert find_locations(tmp_path, hub=tmp_path).lm_studio == (tmp_path / ".lmstudio" / "models",)
