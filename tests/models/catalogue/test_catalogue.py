"""Redline's catalogue is complete and plausible, and its reader names the entry that is wrong."""

import importlib.util
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from mlx_lm.utils import MODEL_REMAPPING

from engine.errors import ModelError, UsageError
from models.catalogue.entries import Catalogue, Drafter, Target, read_catalogue
from models.catalogue.search import GIB, MAC_SIZES_GB, mac_fit, read_memory, search, smallest_mac_gb, wired_bytes
from models.drafters import KINDS

TARGET = """
[[target]]
repository = "o/target"
name = "T 1B"
family = "F"
good_at = "tests"
good_at_source = "o/r README.md"
architecture = "llama"
parameters_b = 1.0
bits = 4.5
size_bytes = 560000000
size = "estimated"
licence = "MIT"
source = ["o/r README.md"]
"""
DRAFTER = """
[[drafter]]
repository = "o/head"
name = "head"
kind = "eagle3"
licence = "MIT"
source = ["o/r README.md"]
"""
KNOWN = 'drafters = ["o/head"]\n'
MEASURED = '[[measured]]\ntarget = "o/target"\ndrafter = "o/head"\nspeedup = 0.9\non = "M1"\nsource = "s"\n'


@pytest.fixture(scope="module")
def own() -> Catalogue:
    return read_catalogue()


def catalogue_of(tmp_path: Path, text: str) -> Catalogue:
    path = tmp_path / "catalogue.toml"
    path.write_text(text)
    return read_catalogue(path)


# --- Redline's own --------------------------------------------------------------------------------


def test_it_has_targets_for_every_size_of_mac_and_drafters_of_every_kind(own: Catalogue) -> None:
    assert len(own.targets) >= 40 and len(own.drafters) >= 15
    assert {one.kind for one in own.drafters} == {"eagle3", "mtp", "gemma4-assistant", "dflash"}
    smallest = [smallest_mac_gb(target.size_bytes) for target in own.targets]
    assert all(size is not None for size in smallest)
    assert set(MAC_SIZES_GB) - set(smallest) <= {96}
    families = {"Qwen3", "Qwen2.5", "Llama 3", "Gemma 3", "Gemma 4", "Mistral", "SmolLM2", "LFM2", "Phi", "GPT-OSS"}
    assert families <= {target.family for target in own.targets}


def test_mlx_lm_knows_every_architecture(own: Catalogue) -> None:
    names = {MODEL_REMAPPING.get(target.architecture, target.architecture) for target in own.targets}
    assert not [name for name in names if importlib.util.find_spec(f"mlx_lm.models.{name}") is None]


def test_sizes_agree_with_parameters_and_bits(own: Catalogue) -> None:
    """An estimate is the product; what a source states may be off by a vision tower's other precision."""
    for entry in own.listed:
        if entry.parameters_b and entry.bits and entry.size_bytes:
            share = entry.parameters_b * 1e9 * entry.bits / 8 / entry.size_bytes
            assert abs(share - 1) < (0.002 if entry.size == "estimated" else 0.12), entry.repository


def test_a_drafter_is_smaller_than_its_target(own: Catalogue) -> None:
    for target in own.targets:
        for drafter in own.drafters_of(target):
            assert (drafter.size_bytes or 0) < target.size_bytes


def test_every_entry_says_where_it_was_read_and_every_number_of_speed_too(own: Catalogue) -> None:
    sources = [*(source for entry in own.listed for source in entry.source), *(one.source for one in own.measured)]
    assert all(source.startswith("https://") or "/" in source.split()[0] for source in sources)


def test_what_a_model_is_good_at_is_read_on_a_page_of_its_maker(own: Catalogue) -> None:
    """None of those who converted the weights or wrote about the model owns the page."""
    pages = {target.good_at_source.removeprefix("https://huggingface.co/") for target in own.targets}
    owners = {page.removeprefix("blog/").partition("/")[0] for page in pages}
    assert not owners & {"mlx-community", "lmstudio-community", "unsloth", "bartowski", "RedHatAI", "nightmedia"}
    assert [target.name for target in own.targets if not target.good_at] == ["Mistral 7B v0.3"]


def test_no_entry_is_refused_for_its_kind(own: Catalogue) -> None:
    loaded = {kind.name for kind in KINDS}
    assert {"model" if entry.kind == "draft" else entry.kind for entry in own.listed} <= loaded
    refused = [entry for entry in own.listed if entry.trouble]
    assert all(isinstance(entry, Drafter) and "pickle" in entry.trouble for entry in refused) and len(refused) == 2
    pickle = own.entries["yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"]
    assert pickle.trouble == "its weights are a pickle, which Redline never loads"


def faults(catalogue: Catalogue) -> Iterator[str]:
    """What is wrong between entries."""
    counts = Counter(entry.repository for entry in catalogue.listed)
    yield from (f"{name} is listed twice" for name, count in counts.items() if count > 1)
    for drafter in catalogue.drafters:
        if (drafter.size_bytes is None) != (drafter.size is None):
            yield f"{drafter.repository} gives only one of size_bytes and size"
        if not catalogue.targets_of(drafter):
            yield f"{drafter.repository} drafts for no target"
    for target in catalogue.targets:
        if bool(target.good_at) != bool(target.good_at_source):
            yield f"{target.repository} gives only one of good_at and good_at_source"
        for name in target.drafters:
            if name not in counts or name == target.repository:
                yield f"{target.repository}: its drafter {name} is no other entry"
    for one in catalogue.measured:
        known = catalogue.target(one.target)
        if known is None or one.drafter not in known.drafters:
            yield f"measured {one.target}: {one.drafter} is no drafter of it"


def test_its_entries_do_not_contradict_each_other(own: Catalogue) -> None:
    assert list(faults(own)) == []


# --- the reader -----------------------------------------------------------------------------------


def test_entries_refer_to_each_other(tmp_path: Path) -> None:
    found = catalogue_of(tmp_path, TARGET + KNOWN + DRAFTER + MEASURED)
    target, drafter = found.targets[0], found.drafters[0]
    assert found.drafters_of(target) == [drafter] and found.targets_of(drafter) == [target]
    assert [one.speedup for one in found.speedups(target.repository, drafter.repository)] == [0.9]
    assert found.target("o/target") == target and found.target("o/head") is None and found.target(None) is None


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (TARGET.replace('licence = "MIT"\n', ""), "missing required field `licence` - at `$.target[0]`"),
        (TARGET + "colour = 3\n", "contains unknown field `colour` - at `$.target[0]`"),
        (TARGET.replace("o/target", "../target"), "Expected `str` matching regex"),
        (TARGET + 'revision = "main"\n', "Expected `str` matching regex"),
        (TARGET.replace("4.5", "0"), "Expected `float` > 0"),
        (TARGET.replace('["o/r README.md"]', "[]"), "Expected `array` of length >= 1"),
        (DRAFTER + DRAFTER.replace("eagle3", "eagle9").replace("o/head", "o/b"), "'eagle9' - at `$.drafter[1].kind`"),
        ("[[target]\n", "line 1"),
    ],
)
def test_a_fault_is_reported_with_its_entry(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(ModelError) as caught:
        catalogue_of(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'catalogue.toml'}: ")
    assert what in str(caught.value) and str(caught.value).endswith("; correct it")


# --- searching and fitting ------------------------------------------------------------------------


def names(found: list[Target | Drafter]) -> list[str]:
    return [one.repository.partition("/")[2] for one in found]


def test_every_word_must_be_one_of_a_names_own_or_begin_one(own: Catalogue) -> None:
    found = names(search(own, ["QWEN3", "8b"]))
    assert "Qwen3-8B-4bit" in found and "Qwen3-8B-speculator.eagle3" in found
    assert "Qwen3-4B-8bit" not in found and not [name for name in found if "14B" in name]
    assert names(search(own, ["gem", "12b", "qat"])) == ["gemma-3-12b-it-qat-4bit"]
    assert names(search(own, ["mlx-community/phi-4-4bit"])) == ["phi-4-4bit"]
    assert search(own, ["nonsense"]) == [] and search(own) == own.listed


def test_kinds_and_memory_narrow_it(own: Catalogue) -> None:
    assert {one.kind for one in search(own, kind="dflash")} == {"dflash"}
    assert all(isinstance(one, Target) for one in search(own, kind="target"))
    assert {type(one) for one in search(own, kind="draft")} == {Target}
    small = search(own, kind="target", memory_bytes=8 * GIB)
    assert small and all(one.size_bytes and one.size_bytes < 5e9 for one in small)
    assert len(search(own, kind="target", memory_bytes=192 * GIB)) == len(own.targets)
    assert own.entries["RedHatAI/gpt-oss-20b-speculator.eagle3"] in search(own, memory_bytes=8 * GIB)


def test_the_bound_is_good_then_tight_then_no() -> None:
    sizes = (0, 8_200_000_000, 8_300_000_000, 9_800_000_000, 9_950_000_000)
    assert [mac_fit(size, 16 * GIB) for size in sizes] == ["good", "good", "tight", "tight", "no"]
    assert wired_bytes(36 * GIB) == 24 * GIB and wired_bytes(48 * GIB) == 36 * GIB
    assert smallest_mac_gb(4_600_000_000) == 16 and smallest_mac_gb(200_000_000_000) is None


def test_memory_is_read_as_people_write_it() -> None:
    assert {read_memory(text) for text in ("16", "16gb", " 16 GB", "16G", "16GiB")} == {16 * GIB}
    for text in ("", "0", "-8", "16TB", "many"):
        with pytest.raises(UsageError, match="give a Mac's memory, such as 16GB"):
            read_memory(text)
