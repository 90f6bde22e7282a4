"""Twelve tokenizer families made small, every pair: the verdict and the reason."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from models.compatibility.pair_check import check_compatibility
from models.drafters.drafter_kind import Compatibility
from models.model_folder import check_folder
from tests.models.compatibility.tokenizer_families import OTHER, line, table, verdicts
from tests.toys.tokenizers import Family, families, write_model

GRID = """\
target         1  2  3  4  5  6  7  8  9 10 11 12
gpt2           =  x  x  x  x  x  x  x  x  x  x  x    1 gpt2
llama-3.1-8b   x  =  =  x  x  x  x  x  x  x  x  x    2 llama-3.1-8b
llama-3.2-1b   x  =  =  x  x  x  x  x  x  x  x  x    3 llama-3.2-1b
qwen2.5-0.5b   x  x  x  =  =  =  x  x  x  x  x  x    4 qwen2.5-0.5b
qwen2.5-32b    x  x  x  =  =  =  x  x  x  x  x  x    5 qwen2.5-32b
qwen3-8b       x  x  x  <  <  =  x  x  x  x  x  x    6 qwen3-8b
llama-2-7b     x  x  x  x  x  x  =  x  x  x  x  x    7 llama-2-7b
mistral-7b     x  x  x  x  x  x  x  =  x  x  x  x    8 mistral-7b
tekken-12b     x  x  x  x  x  x  x  x  =  x  x  x    9 tekken-12b
gemma-3-1b     x  x  x  x  x  x  x  x  x  <  <  x   10 gemma-3-1b
gemma-3-4b     x  x  x  x  x  x  x  x  x  x  =  x   11 gemma-3-4b
smollm2-135m   x  x  x  x  x  x  x  x  x  x  x  =   12 smollm2-135m"""

REASONS = {
    ("llama-3.1-8b", "llama-3.2-1b"): "same 313 tokens; different chat template (the target's is used)",
    ("qwen2.5-32b", "qwen2.5-0.5b"): "same 305 tokens; padded to 384 rows (target: 448)",
    ("qwen3-8b", "qwen2.5-0.5b"): "same tokens up to 305 of 309; different chat template (the target's is used)",
    ("qwen2.5-0.5b", "qwen3-8b"): "same 305 tokens; different chat template (the target's is used)",
    ("gemma-3-1b", "gemma-3-4b"): "same tokens up to 300 of 301; padded to 364 rows (target: 300)",
    ("gemma-3-4b", "gemma-3-1b"): (
        "different tokenizer; drafts the 100% of the target's tokens that both have; padded to 300 rows (target: 364)"
    ),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Compatibility]:
    return verdicts(tmp_path_factory.mktemp("families"))


@pytest.fixture(scope="module")
def by_name() -> dict[str, Family]:
    return {family.name: family for family in families()}


def test_every_cell_of_the_table_is_as_expected(found: dict[tuple[str, str], Compatibility]) -> None:
    assert table(found) == GRID


def test_the_reasons_of_the_telling_pairs_are_these(found: dict[tuple[str, str], Compatibility]) -> None:
    assert {pair: line(found[pair]) for pair in REASONS} == REASONS


def test_the_families_include_two_of_one_size_with_other_tokens(by_name: dict[str, Family]) -> None:
    one, other = (by_name[name].tokenizer.get_vocab() for name in ("llama-2-7b", "mistral-7b"))
    assert len(one) == len(other) and max(one.values()) == max(other.values()) and one != other


def test_models_with_other_tokens_draft_those_that_both_have(
    found: dict[tuple[str, str], Compatibility], by_name: dict[str, Family]
) -> None:
    """The share of the tokens, against the bytes that the tokenizers library decodes them to."""
    others = {pair: verdict for pair, verdict in found.items() if verdict.other_tokenizer}
    assert len(others) == GRID.count(f" {OTHER} ") + GRID.count(f" {OTHER}\n")
    for (target, drafter), verdict in others.items():
        one, other = (set(by_name[name].tokenizer.get_vocab()) for name in (target, drafter))
        told = re.search(r"drafts the (\d+)% of the target's tokens", verdict.reason)
        assert verdict.fits and told is not None
        if (" " in "".join(one)) == (" " in "".join(other)):  # two ways of writing bytes compare by no string
            assert int(told[1]) >= round(100 * len(one & other) / len(one)) - 1


def test_two_tokenizers_with_hardly_a_token_in_common_are_refused(tmp_path: Path) -> None:
    few = edited_vocabulary(tmp_path / "few", keep=6)
    whole = check_folder(write_model(tmp_path, families()[0], width=16))
    verdict = check_compatibility(whole, few)
    assert not verdict.fits and verdict.reason.startswith("different tokenizer (only ")


def edited_vocabulary(path: Path, keep: int) -> Path:
    """A model of which only a few tokens are written as the first family writes them."""
    folder = write_model(path, families()[0])
    content = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = content["model"]["vocab"]
    content["model"]["vocab"] = {
        token if number < keep else f"ĀĀĀ{token}": number for token, number in vocabulary.items()
    }
    content["model"]["merges"] = []
    (folder / "tokenizer.json").write_text(json.dumps(content))
    return folder


def test_a_pair_that_fits_shares_every_id_below_its_common_end(
    found: dict[tuple[str, str], Compatibility], by_name: dict[str, Family]
) -> None:
    for (target, drafter), verdict in found.items():
        if not verdict.other_tokenizer:
            one, other = by_name[target].tokenizer, by_name[drafter].tokenizer
            shared = range(int(re.findall(r"\d+", verdict.reason)[0]))
            assert len(shared) >= 290
            assert [one.id_to_token(number) for number in shared] == [other.id_to_token(number) for number in shared]
