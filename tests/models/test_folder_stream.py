"""A reply is detokenized token by token, whatever bytes it consists of."""

import random

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from models.tokenizer import FolderStream
from tests.toys.folders import make_tokenizer

WORDS = ["\u2581the", "\u2581word", "word", "\u2581", "a", "\u00e9", "\u4e2d", "<0x0A>"]


def byte_fallback(strips: bool) -> Tokenizer:
    """As Gemma's, or as Mistral's and Llama 2's, whose decoder takes the first space away."""
    vocabulary = {name: i for i, name in enumerate(["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *WORDS[:-1]])}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True))
    parts = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*parts, *([decoders.Strip(" ", 1, 0)] if strips else [])])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens([AddedToken("<end>", special=True)])
    return tokenizer


DECODERS = {"byte-level": make_tokenizer(512), "gemma": byte_fallback(False), "llama": byte_fallback(True)}


def streamed(tokenizer: Tokenizer, ids: list[int]) -> str:
    stream = FolderStream(tokenizer)
    return "".join([*(stream.push(token) for token in ids), stream.finish()])


@pytest.mark.parametrize("name", DECODERS)
def test_any_bytes_are_text(name: str):
    tokenizer = DECODERS[name]
    random_ = random.Random(name)
    size = tokenizer.get_vocab_size()
    for _ in range(4000):
        ids = random_.choices(range(size), k=random_.randrange(1, 12))
        text = streamed(tokenizer, ids)
        text.encode()  # raises for what is not Unicode
        rest = iter(text)
        assert all(character in rest for character in tokenizer.decode(ids).replace("\ufffd", "")), ids


def test_a_character_broken_off_is_a_replacement_character_and_the_next_word_stays():
    tokenizer = DECODERS["gemma"]
    ids = [tokenizer.token_to_id(f"<0x{byte:02X}>") for byte in bytes.fromhex("f09fa699f09f")]
    assert streamed(tokenizer, [*ids, tokenizer.token_to_id("word")]) == "\U0001f999\ufffd\ufffdword"
    assert streamed(tokenizer, [*ids[:4], *ids[:4]]) == "\U0001f999\U0001f999"
    assert streamed(tokenizer, ids) == "\U0001f999\ufffd\ufffd"


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize(
    "text", ["a word\n\nthe \u00e9\u4e2d", "  two  spaces ", "\U0001f999\U0001f468\u200d\U0001f469"]
)
def test_a_text_comes_back_as_the_library_decodes_it_whole(name: str, text: str):
    tokenizer = DECODERS[name]
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert streamed(tokenizer, ids) == tokenizer.decode(ids)
