"""SentencePiece tokenizers made from scores, judged by a slow one written here from SentencePiece's description."""

import random
import re
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from engine.errors import ModelError
from models.convert.gguf_import import import_gguf
from models.gguf.gguf_reader import read_gguf
from models.gguf.gguf_tokenizer import make_tokenizer
from tests.toys.gguf_files import ARRAY, F32, I32, STRING, ToyGguf
from tests.toys.gguf_models import pieces, tiny


def toy(prefix: bool = False) -> ToyGguf:
    return ToyGguf({"general.architecture": (STRING, "gemma3"), **pieces(prefix)}, tiny("gemma3", ("F16",)).tensors[:1])


def lists(gguf: ToyGguf) -> tuple[list[str], list[float], list[int]]:
    tokens, scores, types = (gguf.metadata[f"tokenizer.ggml.{key}"][1] for key in ("tokens", "scores", "token_type"))
    return tokens[1], scores[1], types[1]  # type: ignore[index]


def slow_encode(gguf: ToyGguf, text: str) -> list[int]:
    """Ids of a text without user's tokens: letters, then again and again the two neighbours that make the best piece,
    the first of equals; what is no piece in the end goes byte by byte."""
    tokens, scores, types = lists(gguf)
    ids = {token: number for number, token in enumerate(tokens)}
    parts = list(text.replace(" ", "▁"))
    while True:
        best: tuple[float, int] | None = None
        for place in range(len(parts) - 1):
            number = ids.get(parts[place] + parts[place + 1])
            if number is not None and types[number] == 1 and (best is None or scores[number] > best[0]):
                best = (scores[number], place)
        if best is None:
            break
        parts[best[1] : best[1] + 2] = ["".join(parts[best[1] : best[1] + 2])]
    found: list[int] = []
    for part in parts:
        found += [ids[part]] if part in ids else [ids[f"<0x{byte:02X}>"] for byte in part.encode()]
    return found


@pytest.mark.parametrize("prefix", [False, True])
def test_ids_are_those_of_the_slow_tokenizer(tmp_path: Path, prefix: bool) -> None:
    gguf, rng = toy(prefix), random.Random(0)
    tokenizer = make_tokenizer(read_gguf(gguf.write(tmp_path / "toy.gguf")))
    texts = ["the", "they the", "x", "é☃", "y\n"]
    letters = ("".join(rng.choice("the yé ") for _ in range(rng.randint(1, 20))) for _ in range(300))
    texts += [re.sub(" +", " ", text) for text in letters]  # two spaces are a user's token
    for text in texts:
        ids = tokenizer.encode(text).ids
        assert ids == [2, *slow_encode(gguf, " " + text if prefix else text)], text
        assert tokenizer.decode(ids) == text


def test_a_users_tokens_are_taken_whole_and_control_tokens_are_left_out(tmp_path: Path) -> None:
    gguf = toy()
    tokenizer = make_tokenizer(read_gguf(gguf.write(tmp_path / "toy.gguf")))
    named = {token: number for number, token in enumerate(lists(gguf)[0])}
    ids = tokenizer.encode("the<tool>  t<eos>").ids
    assert ids == [2, *slow_encode(gguf, "the"), named["<tool>"], named["  "], named["t"], named["<eos>"]]
    assert tokenizer.decode(ids) == "the<tool>  t"


def test_the_imported_folder_has_that_tokenizer(tmp_path: Path) -> None:
    gguf = tiny("gemma3")
    folder = import_gguf(gguf.write(tmp_path / "toy.gguf"), tmp_path / "toy")
    tokenizer = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False, local_files_only=True)
    assert tokenizer.encode("they") == [2, *slow_encode(gguf, "they")]
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.unk_token) == ("<bos>", "<eos>", "<unk>")


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("scores", None, "lacks the list tokenizer.ggml.scores"),
        ("scores", (ARRAY, (F32, [0.0] * 3)), "3 scores for 272 tokens"),
        ("scores", (ARRAY, (F32, [float("nan")] * 272)), "some that are no numbers"),
        ("token_type", (ARRAY, (I32, [1] * 3)), "3 token types for 272 tokens"),
    ],
)
def test_lists_that_do_not_fit_are_refused(tmp_path: Path, key: str, value: tuple[int, object], reason: str) -> None:
    gguf = toy().with_metadata(**{f"tokenizer__ggml__{key}": value})
    with pytest.raises(ModelError, match=reason):
        make_tokenizer(read_gguf(gguf.write(tmp_path / "toy.gguf")))


def test_a_piece_of_absurd_length_is_refused(tmp_path: Path) -> None:
    tokens, scores, types = lists(toy())
    gguf = toy().with_metadata(tokenizer__ggml__tokens=(ARRAY, (STRING, [*tokens[:-1], "y" * 5000])))
    assert len(scores) == len(types) == len(tokens)
    with pytest.raises(ModelError, match="a piece of 5000 characters"):
        make_tokenizer(read_gguf(gguf.write(tmp_path / "toy.gguf")))
