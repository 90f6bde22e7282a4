"""Which drafters may serve which targets: decided token by token, padding allowed, differences named."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from engine.errors import ModelError, PairError
from models.convert.gguf_import import import_gguf
from models.model_folder import ModelFolder, check_folder
from models.token_map import match_tokens, read_vocabulary
from tests.toys.gguf_files import tiny_llama


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    """261 tokens, 264 rows."""
    place = tmp_path_factory.mktemp("toy")
    return check_folder(import_gguf(tiny_llama().write(place / "toy.gguf"), place / "toy"))


def folder_with(folder: ModelFolder, rows: int | None = 264, **tokens: int | None) -> ModelFolder:
    """The folder with tokens moved to other ids, added, or dropped (None); its path says "drafter"."""
    merged = {**folder.vocabulary, **tokens}
    vocabulary = {token: number for token, number in merged.items() if number is not None}
    return replace(folder, path=Path("drafter"), rows=rows, vocabulary=vocabulary)


def test_tokens_are_shared_up_to_the_common_end(toy: ModelFolder) -> None:
    assert match_tokens(toy, toy) == 261
    for rows in ((261, 300), (300, 261), (None, None)):  # padding; a config without rows counts the tokenizer
        assert match_tokens(folder_with(toy, rows[0]), folder_with(toy, rows[1])) == 261
    assert match_tokens(toy, folder_with(toy, extra=261)) == match_tokens(folder_with(toy, extra=261), toy) == 261
    assert match_tokens(folder_with(toy, 250), folder_with(toy, 264)) == 250  # ids without rows


def test_one_token_under_another_id_is_named(toy: ModelFolder) -> None:
    swapped = folder_with(toy, hel=259, he=260)
    with pytest.raises(PairError) as caught:
        match_tokens(toy, swapped)
    assert str(caught.value) == (
        "drafter: different tokenizer (2 of 261 tokens differ: 259 is 'he' in the target and 'hel' in the drafter; "
        "260 is 'hel' in the target and 'he' in the drafter); choose a drafter of the same family"
    )


def test_a_hole_inside_the_common_part_does_not_fit(toy: ModelFolder) -> None:
    for target, drafter in [(toy, folder_with(toy, he=None)), (folder_with(toy, he=None), toy)]:
        with pytest.raises(PairError, match=r"259 is .*no token"):
            match_tokens(target, drafter)


def test_a_token_of_the_target_that_the_drafter_cannot_read_does_not_fit(toy: ModelFolder) -> None:
    with pytest.raises(PairError, match="264 is '<think>' in the target and no token in the drafter"):
        match_tokens(folder_with(toy, 300, **{"<think>": 264}), toy)
    with pytest.raises(PairError, match=r"1 of 261 tokens differs: 260 is 'hel' in the target and no token"):
        match_tokens(toy, folder_with(toy, 260))  # the drafter's tokenizer has it, its embedding has not


def test_many_differences_are_counted_and_three_shown(toy: ModelFolder) -> None:
    with pytest.raises(PairError, match=r"1 of 261 tokens differs.* 1 is '</s>' in the target and '<end>' in the"):
        match_tokens(toy, folder_with(toy, **{"</s>": None, "<end>": 1}))
    reversed_ids = {token: 260 - number for token, number in toy.vocabulary.items()}
    with pytest.raises(PairError, match=r"260 of 261 tokens differ.*; 257 more") as caught:
        match_tokens(toy, replace(toy, vocabulary=reversed_ids))
    assert str(caught.value).count("in the target and") == 3 and "\n" not in str(caught.value)


def test_the_map_is_the_tokenizers_own(builtin_folder: Path, toy: ModelFolder) -> None:
    for folder in (builtin_folder, toy.path):
        library = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab(with_added_tokens=True)
        assert dict(read_vocabulary(folder / "tokenizer.json")) == library


def test_a_unigram_vocabulary_reads_and_added_tokens_join_it(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    added = [{"id": 2, "content": "<end>", "special": True}]
    path.write_text(json.dumps({"model": {"vocab": [["<unk>", 0.0], ["▁a", -1.5]]}, "added_tokens": added}))
    assert dict(read_vocabulary(path)) == {"<unk>": 0, "▁a": 1, "<end>": 2}
    path.write_text(json.dumps({"model": {"vocab": [[7, 0.0]]}}))
    with pytest.raises(ModelError, match="no usable id"):
        read_vocabulary(path)


@pytest.mark.parametrize("token", [[], {}, [[1]]])
def test_a_vocabulary_of_lists_is_refused(tmp_path: Path, token: object) -> None:
    path = tmp_path / "tokenizer.json"
    for content in (
        {"model": {"vocab": [[token, 0.0]]}},
        {"model": {"vocab": {}}, "added_tokens": [{"content": token}]},
    ):
        path.write_text(json.dumps(content))
        with pytest.raises(ModelError, match=r"no usable id|unknown form"):
            read_vocabulary(path)
