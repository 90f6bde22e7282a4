"""Deleting: said first, what others need stays, and nothing outside the places of models is touched."""

import dataclasses
from pathlib import Path

import pytest
from huggingface_hub import scan_cache_dir

from engine.errors import HubError, ModelError
from models.hub.repo_cache import PARTIAL, RepoCache, write_plan
from models.hub.repo_files import HubFile, RepoListing
from models.local.inventory import HUB_SHARERS, Installed, installed
from models.local.locations import ModelLocations
from models.local.removal import plan_removal, remove
from tests.models.hub.tiny import NAME, read_folder, tiny, wanted
from tests.models.local.model_placement import write_folder, write_in_hub

SIZE = sum(map(len, wanted(tiny()).values()))
CONFIG = len(tiny().files["config.json"])


def model_named(places: ModelLocations, name: str) -> Installed:
    return next(model for model in installed(places) if model.name == name)


def test_a_model_of_the_hub_goes_with_all_its_files_and_a_copy_with_its_commit_stays(places: ModelLocations) -> None:
    write_in_hub(places.hub)
    write_in_hub(places.hub, "another/One")
    removal = plan_removal([model_named(places, NAME)], places)
    assert (removal.frees_bytes, removal.stays_bytes, removal.losers, removal.keepers) == (SIZE, 0, (HUB_SHARERS,), ())
    assert model_named(places, NAME).complete  # planning deletes nothing
    assert remove(removal, places) == SIZE
    assert [model.name for model in installed(places)] == ["another/One"]
    assert not RepoCache(places.hub, NAME).folder.exists()


def test_what_another_revision_needs_stays(places: ModelLocations) -> None:
    old = write_in_hub(places.hub, main=False)
    new = write_in_hub(places.hub, config=b" ")
    before = read_folder(new)
    removal = plan_removal([model_named(places, f"{NAME}@{old.name[:8]}")], places)
    assert (removal.frees_bytes, removal.stays_bytes) == (CONFIG, SIZE - CONFIG)
    assert removal.keepers == (f"revision {new.name[:8]}",)
    remove(removal, places)
    assert read_folder(new) == before
    assert not scan_cache_dir(places.hub).warnings


def test_an_unfinished_download_goes(places: ModelLocations) -> None:
    cache, file = RepoCache(places.hub, NAME), HubFile("config.json", 900, "git", "a" * 40)
    write_plan(cache, RepoListing(NAME, "main", "c" * 40, (file,), 0))
    (cache.folder / "blobs").mkdir()
    (cache.folder / "blobs" / f"{'a' * 40}{PARTIAL}").write_bytes(b"0" * 500)
    (model,) = installed(places)
    assert (model.complete, model.size_bytes, model.total_bytes) == (False, 500, 900)
    assert model.trouble == "500 bytes of 900 bytes is here"
    assert remove(plan_removal([model], places), places) == 500
    assert not cache.folder.exists()


def test_what_is_being_pulled_is_not_deleted(places: ModelLocations) -> None:
    folder = write_in_hub(places.hub)
    removal = plan_removal(installed(places), places)
    with RepoCache(places.hub, NAME).alone(), pytest.raises(HubError, match="pulled by another process"):
        remove(removal, places)
    assert folder.exists()


def test_lm_studios_files_are_said_to_be_lm_studios(places: ModelLocations) -> None:
    folder = write_folder(places.lm_studio[0] / "someone" / "Tiny")
    removal = plan_removal(installed(places), places)
    assert removal.losers == ("LM Studio",) and "belong to LM Studio" in removal.note
    assert remove(removal, places) == SIZE
    assert not folder.exists()


def test_of_a_linked_folder_the_link_goes_and_the_files_stay(places: ModelLocations, tmp_path: Path) -> None:
    files = write_folder(tmp_path / "disk" / "Tiny")
    (places.lm_studio[0] / "someone").mkdir(parents=True)
    link = places.lm_studio[0] / "someone" / "Tiny"
    link.symlink_to(files)
    removal = plan_removal(installed(places), places)
    assert removal.frees_bytes == 0 and str(files) in removal.note
    remove(removal, places)
    assert not link.exists() and len(read_folder(files)) == 8


def test_what_lies_elsewhere_is_never_deleted(places: ModelLocations, tmp_path: Path) -> None:
    write_folder(places.own / "My-Import")
    elsewhere = write_folder(tmp_path / "documents")
    removal = plan_removal(installed(places), places)
    moved = dataclasses.replace(removal.models[0], path=elsewhere)
    with pytest.raises(ModelError, match="in none of the folders of models"):
        remove(dataclasses.replace(removal, models=(moved,)), places)
    assert len(read_folder(elsewhere)) == 8


def test_a_revision_that_huggingface_hub_cannot_read_is_left(places: ModelLocations) -> None:
    write_in_hub(places.hub)
    (model,) = installed(places)
    with pytest.raises(ModelError, match="not a snapshot that huggingface_hub can read"):
        plan_removal([dataclasses.replace(model, revision="0" * 40)], places)
