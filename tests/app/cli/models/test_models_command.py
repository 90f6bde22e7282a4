"""`redline models` and its search, check and pairs: what they say, and what a program can read."""

import shutil
from pathlib import Path

import msgspec
import pytest
from huggingface_hub import constants

from app.cli.models import SUBCOMMANDS
from app.cli.models import catalogue as commands
from app.inference import pair_resolution
from app.inference.pair_resolution import present_models
from app.model_words import TIMES, speedup
from models.catalogue.entries import Catalogue, read_catalogue
from models.catalogue.search import (
    GIB,
    MachineMemory,
    fit_within,
    needed_bytes,
    recommended_pairs,
    unwired_bytes,
    wired_bytes,
)
from models.compatibility.best_drafter import UsableModel
from models.local.inventory import Installed
from models.memory.memory_verdict import AvailableMemory, Footprint, Share, judge_memory
from tests.app.command import Redline
from tests.models.hub.loopback import loopback
from tests.models.hub.tiny import tiny


@pytest.fixture(autouse=True)
def nothing_here(monkeypatch: pytest.MonkeyPatch) -> list[UsableModel]:
    """What is on this machine, to fill: not what really is."""
    found: list[UsableModel] = []
    monkeypatch.setattr(pair_resolution, "present_models", lambda root=None: found)
    return found


def mac(gigabytes: int) -> MachineMemory:
    memory_bytes = gigabytes * GIB
    return MachineMemory(processor="M3", memory_bytes=memory_bytes, for_models_bytes=wired_bytes(memory_bytes))


def pc(gigabytes: int) -> MachineMemory:
    memory_bytes = gigabytes * GIB
    limit_bytes = unwired_bytes(memory_bytes)
    return MachineMemory(processor="i7", memory_bytes=memory_bytes, for_models_bytes=limit_bytes, in_float32=True)


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


# --- the tree -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_subcommand_has_help_and_all_that_tell_something_json(name: str, models: Redline) -> None:
    done = models(name, "--help")
    assert done.code == 0 and done.out.startswith(f"usage: redline models {name} ")
    assert ("--json" in done.out) == (name not in ("login", "logout"))


def test_json_may_stand_before_the_subcommand(models: Redline) -> None:
    assert models("--json", "search", "phi").json == models("search", "phi", "--json").json


# --- search ---------------------------------------------------------------------------------------


def test_search_shows_sizes_macs_and_what_goes_together(models: Redline, wide: None) -> None:
    done = models("search", "qwen3", "8b")
    lines = [line.rstrip() for line in done.out.splitlines()]
    at = lines.index("  mlx-community/Qwen3-8B-4bit")
    assert done.code == 0 and lines[at - 1].startswith("Qwen3 8B · 4-bit")
    assert lines[at - 1].endswith("4.62 GB   16 GB Mac")
    assert lines[at + 1] == "  good at reasoning and many languages"
    known = "Qwen3 8B EAGLE-3, Qwen3 0.6B, Qwen3 8B DFlash, Qwen3 8B DSpark, Qwen3 8B DSpark Speculators"
    assert lines[at + 2] == f"  with {known}"
    assert "  drafts for Qwen3 8B" in lines
    lines = [line.rstrip() for line in models("search", "llama", "3.1", "8b").out.splitlines()]
    assert "  drafts for Llama 3.1 8B († its weights are a pickle, which Redline never loads)" in lines


def test_search_marks_what_is_here(models: Redline, nothing_here: list[UsableModel], wide: None) -> None:
    nothing_here.append(UsableModel("mlx-community/Qwen3-8B-4bit", Path("x"), 9, "mlx-community/Qwen3-8B-4bit"))
    lines = [line.strip() for line in models("search", "qwen3", "8b").out.splitlines()]
    assert "mlx-community/Qwen3-8B-4bit ●" in lines and "mlx-community/Qwen3-8B-8bit" in lines
    found = models("search", "qwen3", "8b", "--json").json["entries"]
    assert [entry["repository"] for entry in found if entry["here"]] == ["mlx-community/Qwen3-8B-4bit"]


def test_search_fits_80_columns_and_keeps_repositories_whole(models: Redline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = models("search").out
    assert max(map(len, out.splitlines())) <= 80
    assert {entry.repository for entry in read_catalogue().listed} <= set(out.split())


def test_search_narrows_by_kind_and_memory_and_says_when_there_is_nothing(models: Redline) -> None:
    found = models("search", "--kind", "target", "--fits", "8GB", "--json").json["entries"]
    assert found and {entry["kind"] for entry in found} == {"target"}
    assert {entry["smallest_mac_gb"] for entry in found} == {8}
    fields = "repository name family good_at architecture parameters_b bits size_bytes size licence revision drafters"
    fields += " source kind trouble here smallest_mac_gb measured"
    drafters = models("search", "--kind", "eagle3", "--json").json["entries"]
    assert {frozenset(entry) for entry in (*found, *drafters)} == {frozenset(fields.split())}
    assert all(entry["source"] for entry in found) and not any(entry["here"] for entry in found)
    nothing = models("search", "no", "such")
    assert nothing.code == 1 and nothing.out.startswith("no match in the catalogue; ")
    wrong = models("search", "--fits", "much")
    assert wrong.code == 2 and "give a Mac's memory, such as 16GB" in wrong.err


# --- check ----------------------------------------------------------------------------------------


def test_check_asks_the_hub_and_fails_when_one_is_gone(models: Redline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "")
    there = [entry.repository for entry in read_catalogue().listed if "LFM2" in entry.repository]
    with loopback(*map(tiny, there)) as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.endpoint)
        done = models("check", "lfm2")
        assert done.code == 0 and done.out.splitlines()[-1] == f"{len(there)} entries: {len(there)} there"
        del server.repos[there[0]]
        done = models("check", "lfm2")
        assert done.code == 1 and done.out.startswith(f"gone    {there[0]}\n        there is no {there[0]} at ")
        assert done.out.splitlines()[-1] == f"{len(there)} entries: {len(there) - 1} there, 1 gone"
        found = models("check", "lfm2", "--json").json["entries"]
        assert [entry["state"] for entry in found].count("gone") == 1
    assert models("check", "no-such").code == 2


# --- pairs ----------------------------------------------------------------------------------------


def test_pairs_gives_every_verdict_and_what_auto_takes(
    models: Redline, nothing_here: list[UsableModel], toy_folder: Path, toy_drafter_folder: Path, tmp_path: Path
) -> None:
    mtp = tmp_path / "mtp"
    mtp.mkdir()
    (mtp / "config.json").write_text('{"model_type": "qwen3_5_mtp"}')
    nothing_here += [
        UsableModel("o/target", toy_folder, 9, "o/target"),
        UsableModel("o/small", toy_drafter_folder, 1, "o/small"),
        UsableModel("o/mtp", mtp, 1, "o/mtp"),
    ]
    done = models("pairs", "o/target")
    assert done.code == 0 and done.out.splitlines() == [
        "o/target",
        "  ✓ o/small: same 310 tokens; 100% of the target's size, too large to save time",
        "  ✗ o/mtp: Incompatible: holds no multi-token prediction head; choose another drafter",
        "  auto chooses prompt lookup and o/small, a small model with the same tokens",
    ]
    found = models("pairs", "--json").json["targets"]
    assert [one["target"] for one in found] == ["o/target", "o/small"]  # the sidecar is no target
    assert found[0]["auto"] == f"lookup+{toy_drafter_folder}"
    assert found[0].keys() == {"target", "path", "pairs", "auto", "auto_why", "trouble"}
    pair = {"drafter": "o/mtp", "path": str(mtp), "size_bytes": 1, "kind": "mtp", "fits": False, "notes": []}
    assert found[0]["pairs"][1] == pair | {"why": "holds no multi-token prediction head; choose another drafter"}


def test_pairs_finds_a_target_by_part_of_its_name_or_its_folder(
    models: Redline, nothing_here: list[UsableModel], toy_folder: Path, tmp_path: Path
) -> None:
    nothing_here += [UsableModel("o/target", toy_folder, 9), UsableModel("o/tar", tmp_path, 9)]
    assert models("pairs", "TARGET").out.startswith("o/target\n")
    assert models("pairs", shutil.copytree(toy_folder, tmp_path / "own")).out.startswith("own\n")
    for words, code, what in (
        ("o/", 2, "'o/' matches o/target, o/tar"),
        ("absent", 1, "here is called 'absent'"),
    ):
        done = models("pairs", words)
        assert done.code == code and what in done.err


def test_pairs_without_a_model_says_what_to_do_and_damage_is_told(
    models: Redline, nothing_here: list[UsableModel], tmp_path: Path
) -> None:
    done = models("pairs")
    assert done.code == 1 and "no target is installed" in done.out
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    nothing_here.append(UsableModel("o/broken\x1b[2J", tmp_path, 9))
    done = models("pairs")
    assert done.code == 1 and "has no model*.safetensors" in done.out and "\x1b" not in done.out


def test_partial_downloads_and_gguf_are_no_part_of_a_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Installed("o/a", Path("a"), "hub", "model", 5, 5, None, True)
    others = [
        Installed("o/b", Path("b"), "hub", "model", 5, 9, None, False, "half"),
        Installed("o/c", Path("c"), "lm-studio", "gguf", 5, 5, None, False, "is GGUF"),
        Installed("own", Path("d"), "redline", "model", 5, 5, None, True),
    ]
    monkeypatch.setattr(pair_resolution, "installed", lambda _: [whole, *others])
    usable = [UsableModel("o/a", Path("a"), 5, "o/a"), UsableModel("own", Path("d"), 5, None)]
    assert present_models() == usable


# --- the overview ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return read_catalogue()


@pytest.mark.parametrize("memory_gb", [8, 16, 36, 64, 192])
def test_every_mac_gets_a_screenful_of_targets_that_fit_with_their_drafters(
    catalogue: Catalogue, memory_gb: int
) -> None:
    found = recommended_pairs(catalogue, mac(memory_gb), set())
    assert 8 <= len(found) <= 21
    for pair in found:
        both = pair.target.size_bytes + (pair.drafter.size_bytes or 0 if pair.drafter else 0)
        assert pair.fit != "no" and both * 1.05 <= memory_gb * GIB * 0.75
        assert pair.drafter is None or not pair.drafter.trouble
    sizes = [pair.target.parameters_b for pair in found]
    assert sizes == sorted(sizes, reverse=True)


def test_what_becomes_32_bit_floats_is_judged_by_them(catalogue: Catalogue, models: Redline) -> None:
    """By what `models fits` says of the same model once it is here: 62.9 GB for a 14B in 4 bits."""
    large = catalogue.entries["mlx-community/Qwen3-14B-4bit"]
    needed = needed_bytes([large], in_float32=True)
    assert abs(needed - 62.9 * GIB) < 0.05 * needed
    assert "Qwen3 14B" in {pair.target.name for pair in recommended_pairs(catalogue, mac(24), set())}
    for gigabytes in (16, 24, 64):
        sizes = [pair.target.parameters_b for pair in recommended_pairs(catalogue, pc(gigabytes), set())]
        assert sizes and max(sizes) * 4e9 < 0.9 * gigabytes * GIB


@pytest.mark.parametrize("in_float32", [False, True])
@pytest.mark.parametrize("parameters_b", [0.6, 4.5, 32.0])
def test_the_catalogue_and_the_files_of_a_model_get_one_verdict(parameters_b: float, in_float32: bool) -> None:
    """Within a tenth of the memory, as the catalogue does not know the keys and values of a context."""
    stored = int(parameters_b * 4.5e9 / 8)
    entry = msgspec.structs.replace(read_catalogue().targets[0], parameters_b=parameters_b, size_bytes=stored)
    share = Share(int(parameters_b * 4e9), stored, cache=GIB // 4) if in_float32 else Share(stored, cache=GIB // 4)
    levels = {"good": "good", "tight": "tight", "refused": "no"}
    verdicts = set()
    for gigabytes in (22, 26):
        room = AvailableMemory(gigabytes * GIB)
        verdicts.add(levels[judge_memory(lambda context: Footprint(context, share), 512, room).level])
    assert fit_within(needed_bytes([entry], in_float32), unwired_bytes(24 * GIB)) in verdicts


def test_a_drafter_that_does_not_load_is_not_recommended(catalogue: Catalogue) -> None:
    spoilt = tuple(msgspec.structs.replace(one, obstacle="a pickle") for one in catalogue.drafters)
    changed = Catalogue(catalogue.targets, spoilt, catalogue.measured)
    before, after = (
        {pair.target.name: pair.drafter for pair in recommended_pairs(one, mac(24), set())}
        for one in (catalogue, changed)
    )
    assert before["Qwen3 14B"] in catalogue.drafters
    assert after["Qwen3 14B"] and not any(drafter in spoilt for drafter in after.values())


def test_a_drafter_that_is_here_goes_before_one_that_is_not(catalogue: Catalogue) -> None:
    small = "mlx-community/Qwen3-0.6B-4bit"
    absent, here = (
        next(pair for pair in recommended_pairs(catalogue, mac(24), found) if pair.target.name == "Qwen3 14B")
        for found in (set(), {small})
    )
    assert absent.drafter is not None and absent.drafter.name == "Qwen3 14B EAGLE-3"
    assert here.drafter is not None and here.drafter.repository == small


def test_a_speed_up_is_told_where_it_was_measured_and_nowhere_else(
    models: Redline, monkeypatch: pytest.MonkeyPatch, catalogue: Catalogue, wide: None
) -> None:
    monkeypatch.setattr(commands, "this_machine", lambda: mac(36))
    out = models().out
    assert out.splitlines()[0].endswith("36 GB of memory, up to 24 GB for a model")
    measured = [line for line in out.splitlines() if line.startswith("  Qwen2.5 32B · 4-bit")]
    assert len(measured) == 1 and measured[0].rstrip().endswith("2.43")
    assert "Qwen2.5 32B with Qwen2.5 0.5B: 2.43 times on Apple M3 Pro, LM Studio 0.3.10, code (https://" in out
    others = [line for line in out.splitlines() if "· " in line and "Qwen2.5 32B" not in line]
    assert others and not any(line.rstrip().endswith("-") for line in others)
    assert speedup(catalogue.measured[1:4]) == f"0.72 to 0.98{TIMES}" and speedup(()) == ""


def test_the_overview_is_one_screen_and_one_document(
    models: Redline, monkeypatch: pytest.MonkeyPatch, nothing_here: list[UsableModel]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(commands, "this_machine", lambda: mac(16))
    nothing_here.append(UsableModel("mlx-community/Qwen3-8B-4bit", Path("x"), 9, "mlx-community/Qwen3-8B-4bit"))
    out = models().out
    assert max(map(len, out.splitlines())) <= 80 and len(out.splitlines()) <= 32
    assert "● Qwen3 8B · 4-bit" in out and "installed: mlx-community/Qwen3-8B-4bit" in out
    assert "times as fast" not in out.partition("`redline race`")[0]  # no column without numbers
    value = models("--json").json
    assert value["machine"]["memory_bytes"] == 16 * GIB and value["here"] == ["mlx-community/Qwen3-8B-4bit"]
    found = {row["target"]: row for row in value["targets"]}["mlx-community/Qwen3-8B-4bit"]
    fields = "target name size_bytes size room drafter target_here drafter_here measured"
    assert set(found) == set(fields.split())
    assert (found["name"], found["room"], found["drafter"]) == (
        "Qwen3 8B",
        "good",
        "RedHatAI/Qwen3-8B-speculator.eagle3",
    )
    assert (found["target_here"], found["drafter_here"]) == (True, False)
    nothing_here.append(UsableModel(found["drafter"], Path("x"), 9, found["drafter"]))
    (found,) = (row for row in models("--json").json["targets"] if row["name"] == "Qwen3 8B")
    assert (found["target_here"], found["drafter_here"]) == (True, True)
