"""Twelve tokenizer families made small, every pair: the verdict and the reason. Rows are targets, columns drafters: `=`
the same tokens, `<` the target has more at its end, which are never drafted, `x` other tokens."""

import json
from pathlib import Path

import pytest

from models.compatibility.pair_check import check_compatibility
from models.drafters.drafter_kind import Compatibility
from models.model_folder import check_folder
from tests.toys.tokenizers import families, write_model

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
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Compatibility]:
    """By target and drafter."""
    root = tmp_path_factory.mktemp("families")
    targets = [check_folder(write_model(root / "targets", family, width=16)) for family in families()]
    drafters = [write_model(root / "drafters", family) for family in families()]
    return {(target.path.name, path.name): check_compatibility(target, path) for target in targets for path in drafters}


def symbol(verdict: Compatibility) -> str:
    if verdict.other_tokenizer or not verdict.fits:
        return "x"
    return "=" if " up to " not in verdict.reason else "<"


def test_every_cell_of_the_table_is_as_expected(verdicts: dict[tuple[str, str], Compatibility]) -> None:
    names = list(dict.fromkeys(target for target, _ in verdicts))
    lines = [f"{'target':14}{' '.join(f'{number:>2}' for number in range(1, len(names) + 1))}"]
    for number, target in enumerate(names, 1):
        cells = " ".join(f"{symbol(verdicts[target, drafter]):>2}" for drafter in names)
        lines.append(f"{target:14}{cells}   {number:>2} {target}")
    assert "\n".join(lines) == GRID


def test_the_reasons_of_the_telling_pairs_are_these(verdicts: dict[tuple[str, str], Compatibility]) -> None:
    assert {pair: "; ".join((verdicts[pair].reason, *verdicts[pair].notes)) for pair in REASONS} == REASONS


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
