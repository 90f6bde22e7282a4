"""`redline models list`, `remove` and `where`: what is here, what deleting takes away, where everything lies."""

from pathlib import Path

import pytest

from app.cli.models.local_models import list_text
from models.architecture_references import reference_line
from models.hub.repo_cache import RepoCache, write_plan
from models.hub.repo_files import HubFile, RepoListing
from models.local.inventory import HUB_SHARERS, Installed, note_use
from models.local.locations import ModelLocations
from tests.app.command import Redline
from tests.models.hub.tiny import NAME, tiny, wanted
from tests.models.local.model_placement import write_folder, write_in_hub

SIZE = sum(map(len, wanted(tiny()).values()))
CONFIG = len(tiny().files["config.json"])


# --- list -----------------------------------------------------------------------------------------


def test_an_empty_machine_is_told_what_to_do(models: Redline, places: ModelLocations) -> None:
    done = models("list")
    assert done.code == 0 and done.out.startswith("No models are installed.")
    assert "`redline models pull OWNER/NAME`" in done.out
    assert models("list", "--json").json == {"models": []}


def test_list_is_a_table_of_all_places_and_what_is_not_whole_below(models: Redline, places: ModelLocations) -> None:
    write_in_hub(places.hub)
    note_use(write_folder(places.own / "My-Import"), places.root, now_s=4e9)  # by a clock that is ahead
    head = write_folder(places.lm_studio[0] / "someone" / "Head")
    (head / "config.json").write_text('{"draft_vocab_size": 2}')
    half = HubFile("config.json", 900, "git", "a" * 40)
    write_plan(RepoCache(places.hub, "o/half"), RepoListing("o/half", "main", "c" * 40, (half,), 0))
    (places.lm_studio[0] / "a" / "b").mkdir(parents=True)
    (places.lm_studio[0] / "a" / "b" / "x.gguf").write_bytes(b"GGUF")
    done = models("list")
    assert done.code == 0 and [line.split() for line in done.out.splitlines()[:5]] == [
        ["NAME", "SIZE", "LAST", "USED", "FROM"],
        ["My-Import", "481", "kB", "just", "now", "Redline"],
        ["someone/Head", "(eagle3", "head)", "481", "kB", "never", "LM", "Studio"],
        [NAME, "481", "kB", "never", "Hugging", "Face"],
        ["3", "models,", "1", "MB"],
    ]
    assert done.out.splitlines()[5:] == [
        "",
        "Incomplete:",
        "  a/b: is GGUF; `redline models import` makes an MLX model of it",
        f"    {places.lm_studio[0] / 'a' / 'b'}",
        "  o/half: 0 bytes of 900 bytes is here",
        "    redline models pull o/half",
    ]


def test_list_as_json_says_everything_there_is_to_know(models: Redline, places: ModelLocations) -> None:
    folder = write_in_hub(places.hub)
    note_use(folder, places.root, now_s=1000.0)
    (found,) = models("list", "--json").json["models"]
    assert found == {
        "name": NAME,
        "path": str(folder),
        "origin": "hub",
        "kind": "model",
        "size_bytes": SIZE,
        "total_bytes": SIZE,
        "last_used_s": 1000.0,
        "complete": True,
        "trouble": "",
        "revision": folder.name,
        "shared_with": [HUB_SHARERS],
        "reference": reference_line({"model_type": "llama"}),
    }


def test_a_long_name_goes_over_its_line_and_a_hostile_one_steers_nothing() -> None:
    models = [
        Installed(name, Path("x"), "hub", "model", 5, 5, None, True) for name in ("o/short", "o/" + "x" * 90, "\x1b[2J")
    ]
    long = list_text(models, 0.0, 60).splitlines()
    assert len(long[1]) <= 60 < len(long[2]) and "\x1b" not in "".join(long)


# --- remove ---------------------------------------------------------------------------------------


def test_remove_says_what_goes_and_who_loses_it_and_asks(
    models: Redline, places: ModelLocations, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_in_hub(places.hub)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: "" if question == "Delete? [y/N] " else "y")
    done = models("remove", NAME)
    assert (
        done.code == 1
        and folder.exists()
        and done.out.splitlines()
        == [
            f"{NAME}: frees 481 kB",
            f"  {folder}",
            f"  Also deleted for {HUB_SHARERS}: the files are shared.",
            "Nothing was deleted.",
        ]
    )
    monkeypatch.setattr("builtins.input", lambda question: "yes")
    done = models("remove", NAME)
    assert done.code == 0 and done.out.endswith("Deleted: 481 kB freed.\n") and not folder.exists()


def test_nobody_to_ask_deletes_nothing(models: Redline, places: ModelLocations) -> None:
    folder = write_in_hub(places.hub)
    for words in (["remove", NAME], ["remove", NAME, "--json"]):
        done = models(*words)
        assert done.code == 2 and "no terminal to confirm the deletion: use --yes" in done.err
    assert folder.exists()


def test_a_dry_run_is_the_plan_and_yes_the_deed(models: Redline, places: ModelLocations) -> None:
    old = write_in_hub(places.hub, main=False)
    new = write_in_hub(places.hub, config=b" ")
    name = f"{NAME}@{new.name[:8]}"
    plan = models("remove", name, "--dry-run", "--json").json
    assert [model["path"] for model in plan.pop("models")] == [str(new)]
    facts = {"frees_bytes": CONFIG + 1, "stays_bytes": SIZE - CONFIG, "note": "", "losers": [HUB_SHARERS]}
    facts |= {"keepers": [f"revision {old.name[:8]}"]}
    assert plan == facts | {"removed": False, "freed_bytes": None} and new.exists()
    done = models("remove", name, "--yes", "--json").json
    assert (done["removed"], done["freed_bytes"]) == (True, CONFIG + 1) and old.exists() and not new.exists()
    out = models("remove", NAME, "--dry-run").out
    assert out.splitlines()[:2] == [f"{NAME}: frees 481 kB", f"  {old}"] and old.exists()  # now the only one


def test_all_revisions_go_with_the_name_alone(models: Redline, places: ModelLocations) -> None:
    write_in_hub(places.hub, main=False)
    write_in_hub(places.hub, config=b" ")
    done = models("remove", NAME, "--yes")
    assert done.code == 0 and done.out.startswith(f"{NAME}, 2 revisions: frees 481 kB\n")
    assert not RepoCache(places.hub, NAME).folder.exists()


def test_a_name_in_two_places_needs_its_place_and_an_unknown_one_is_told(
    models: Redline, places: ModelLocations
) -> None:
    hub, studio = write_in_hub(places.hub), write_folder(places.lm_studio[0] / NAME)
    done = models("remove", NAME, "--yes")
    assert done.code == 2 and f"{NAME} is in several places: choose --from hub or --from lm-studio" in done.err
    done = models("remove", NAME, "--yes", "--from", "lm-studio")
    assert done.code == 0 and "Also deleted for LM Studio: the files are shared." in done.out
    assert hub.exists() and not studio.exists()
    for name in ("o/gone", f"{NAME}@", f"{NAME}@{'0' * 8}", "../hub"):
        done = models("remove", name, "--yes")
        assert done.code == 1 and "`redline models list` shows the installed ones" in done.err


# --- where ----------------------------------------------------------------------------------------


def test_where_names_every_place_its_size_and_its_owner(models: Redline, places: ModelLocations) -> None:
    write_in_hub(places.hub)
    write_folder(places.own / "My-Import")
    (places.own.parent / "other.bin").write_bytes(bytes(5000))
    root = str(places.own.parent)
    found = {place["what"]: place for place in models("where", "--cache-dir", root, "--json").json["places"]}
    links = sum(len(f"../../blobs/{tiny().etag(name)}") for name in wanted(tiny()))
    assert found["Hugging Face models"]["size_bytes"] == SIZE + links + 40  # with the links and the ref
    imported = {"what": "imported models", "path": f"{root}/models", "size_bytes": SIZE, "owner": ""}
    assert found["imported models"] == imported
    assert found["other caches"]["size_bytes"] == 5000
    assert found["LM Studio's models"]["size_bytes"] is None
    assert found["Hugging Face token"]["path"] == "test keychain"
    assert "conversations" in found
    out = models("where", "--cache-dir", root).out
    assert f"imported models      {root}/models  481 kB" in out.splitlines()
    assert "(shared: HF_HOME or HF_HUB_CACHE move it)" in out
