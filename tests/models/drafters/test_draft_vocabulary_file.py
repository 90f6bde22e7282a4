"""The draft vocabulary beside a draft model's weights."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest

from app.inference.pair_loader import open_drafter
from engine.drafters.draft_model import DraftModel
from engine.errors import ModelError
from models.drafters.draft_model import _paired_ends
from models.drafters.draft_vocabulary_file import (
    NAME,
    apply_draft_vocabulary,
    read_draft_vocabulary,
    write_draft_vocabulary,
)
from models.loader import load
from tests.toys.folders import make_folder

EVEN = mx.arange(0, 310, 2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "drafter")


def test_it_comes_back_as_it_was(folder: Path) -> None:
    write_draft_vocabulary(folder, mx.arange(310), 310)
    assert not (folder / NAME).exists() and read_draft_vocabulary(folder, 310) is None  # the whole needs no file
    write_draft_vocabulary(folder, EVEN, 310)
    found = read_draft_vocabulary(folder, 310)
    assert found is not None and found.tolist() == EVEN.tolist()


def test_a_drafter_that_has_one_drafts_from_it(folder: Path) -> None:
    target = load(folder)
    whole = open_drafter(str(folder), target).drafter
    write_draft_vocabulary(folder, EVEN, 310)
    short = open_drafter(str(folder), target).drafter
    assert isinstance(whole, DraftModel) and isinstance(short, DraftModel)
    assert whole.needs.token_map is None and short.needs.token_map is not None
    text = mx.array([1, 5, 9], mx.int32)
    told, all_told = (one._target_logits(one.model.forward(text)) for one in (short, whole))
    assert mx.allclose(told, all_told[:, EVEN], atol=1e-4).item()


def test_what_the_target_does_not_share_is_left_out(folder: Path) -> None:
    write_draft_vocabulary(folder, EVEN, 310)
    ids = apply_draft_vocabulary(load(folder), 100)
    assert ids is not None and ids.tolist() == list(range(0, 100, 2))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("cut", "cut short"),
        ("beyond", "does not name 155 of 310 tokens"),
        ("none shared", "names no token of the target"),
    ],
)
def test_a_file_that_makes_no_sense_says_so(folder: Path, damage: str, words: str) -> None:
    write_draft_vocabulary(folder, EVEN + 4, 400)
    path = folder / NAME
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:100])
    if damage == "none shared":
        write_draft_vocabulary(folder, EVEN[50:], 310)
    with pytest.raises(ModelError, match=words) as error:
        apply_draft_vocabulary(load(folder), 50)
    assert str(folder) in str(error.value) and "\n" not in str(error.value)


# --- tokens that end a reply, of another tokenizer -----------------------------------------------


def test_tokens_that_end_a_reply_are_paired_by_their_names_first() -> None:
    def model(vocabulary: dict[str, int], *eos: str) -> Any:
        ends = frozenset(vocabulary[name] for name in eos)
        return SimpleNamespace(folder=SimpleNamespace(vocabulary=vocabulary), tokenizer=SimpleNamespace(eos=ends))

    target = model({"</s>": 1, "<|im_end|>": 2, "<|eot|>": 3}, "</s>", "<|im_end|>", "<|eot|>")
    drafter = model({"<|im_end|>": 7, "<|endoftext|>": 9, "<|eot|>": 12}, "<|im_end|>", "<|endoftext|>")
    assert sorted(_paired_ends(drafter, target)) == [(1, 9), (2, 7)]
