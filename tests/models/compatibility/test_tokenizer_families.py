"""Twelve tokenizer families made small, every pair: the verdict and the reason."""

from __future__ import annotations

import re

import pytest

from models.compatibility import Compatibility
from tests.models.compatibility.tokenizer_families import OTHER, table, verdicts
from tests.toys.tokenizers import Family, families

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
        "Incompatible: different tokenizer "
        "(1 of 301 tokens differs: 300 is '<image_soft_token>' in the target and no token in the drafter)"
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
    assert {pair: found[pair].line for pair in REASONS} == REASONS


def test_the_families_include_two_of_one_size_with_other_tokens(by_name: dict[str, Family]) -> None:
    one, other = (by_name[name].tokenizer.get_vocab() for name in ("llama-2-7b", "mistral-7b"))
    assert len(one) == len(other) and max(one.values()) == max(other.values()) and one != other


def test_every_refusal_names_tokens_that_really_differ(
    found: dict[tuple[str, str], Compatibility], by_name: dict[str, Family]
) -> None:
    """Checked against the tokenizers library's own maps."""
    refused = {pair: verdict for pair, verdict in found.items() if not verdict.fits}
    assert len(refused) == GRID.count(f" {OTHER} ") + GRID.count(f" {OTHER}\n")
    for (target, drafter), verdict in refused.items():
        named = re.findall(r"(\d+) is (.+?) in the target and (.+?) in the drafter", verdict.reason)
        assert 1 <= len(named) <= 3
        for number, first, second in named:
            for name, said in ((target, first), (drafter, second)):
                family = by_name[name]
                token = family.tokenizer.id_to_token(int(number)) if int(number) < family.rows else None
                assert said == ("no token" if token is None else repr(token))


def test_a_pair_that_fits_shares_every_id_below_its_common_end(
    found: dict[tuple[str, str], Compatibility], by_name: dict[str, Family]
) -> None:
    for (target, drafter), verdict in found.items():
        if verdict.tokens is not None:
            one, other = by_name[target].tokenizer, by_name[drafter].tokenizer
            shared = range(verdict.tokens.shared_vocabulary)
            assert len(shared) >= 290
            assert [one.id_to_token(number) for number in shared] == [other.id_to_token(number) for number in shared]
