"""The tokenizer made from GGUF metadata, judged by a slow BPE written here from its description."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import regex
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from engine.errors import ModelError
from models.builtin import builtin_gguf
from models.gguf.gguf_reader import GgufFile, read_gguf
from models.gguf.gguf_tokenizer import SPLITS, make_tokenizer, make_tokenizer_config, read_special_ids
from tests.toys.gguf_files import ARRAY, BOOL, I32, STRING, U32, tiny_llama

TEXTS = [
    "Why is the sky blue?",
    "  two  spaces,\ttabs\n\nand newlines \n",
    "In 1987 there were 12,345.67 of them (3x)",
    "Grüße, naïve café — “quotes” … ½ ²",
    "日本語のテキスト、한국어, עברית, हिन्दी",
    "emoji 👩‍👩‍👧‍👦🏳️‍🌈 and ☃",
    "they'll say it's what I've DON'T",
    "def f(x):\n    return x**2  # ok\r\n",
    "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "not<|im_endx|> special <|im_end|>12",
    "",
    " ",
    "a" * 300,
]

GPT2 = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")


# As the models' own tokenizer.json have them: Llama 3, Qwen 2 and 3, Mistral Nemo.
PUBLISHED = {
    "llama-bpe": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    "tekken": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}


def byte_letters() -> dict[int, str]:
    """GPT-2's letter for each byte: itself where printable, else the next letter from 256 up."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    odd = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {byte: chr(256 + number) for number, byte in enumerate(odd)}


class SlowTokenizer:
    """SmolLM's tokenizer one merge at a time: control tokens whole, each digit alone, GPT-2's words, merges by rank."""

    def __init__(self, gguf: GgufFile) -> None:
        tokens = gguf.get_all("tokenizer.ggml.tokens", str)
        kinds = gguf.get_all("tokenizer.ggml.token_type", int)
        merges = gguf.get_all("tokenizer.ggml.merges", str)
        self.ids = {token: number for number, token in enumerate(tokens)}
        self.whole = [token for token, kind in zip(tokens, kinds, strict=True) if kind == 3]
        self.rank = {tuple(merge.split(" ")): number for number, merge in enumerate(merges)}
        self.letters = byte_letters()

    def encode(self, text: str) -> list[int]:
        pattern = "(" + "|".join(map(regex.escape, self.whole)) + ")"
        ids: list[int] = []
        for number, span in enumerate(regex.split(pattern, text)):
            if number % 2:
                ids.append(self.ids[span])
                continue
            for piece in regex.split(r"(\p{N})", span):
                for word in GPT2.findall(piece):
                    ids += self._word(word)
        return ids

    def _word(self, word: str) -> list[int]:
        parts = [self.letters[byte] for byte in word.encode()]
        while True:
            ranked = [(self.rank.get(pair, 1 << 30), place) for place, pair in enumerate(itertools.pairwise(parts))]
            if not ranked or min(ranked)[0] == 1 << 30:
                return [self.ids[part] for part in parts]
            place = min(ranked)[1]
            parts[place : place + 2] = [parts[place] + parts[place + 1]]


@pytest.fixture(scope="module")
def tokenizer(builtin_folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(str(builtin_folder), trust_remote_code=False, local_files_only=True)


def test_ids_are_those_of_the_slow_tokenizer_and_decode_to_the_text(tokenizer: Any) -> None:
    slow = SlowTokenizer(read_gguf(builtin_gguf()))
    for text in TEXTS:
        ids = tokenizer.encode(text)
        assert ids == slow.encode(text) and tokenizer.decode(ids) == text
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (1, 2)
    assert (tokenizer.pad_token_id, tokenizer.unk_token_id, len(tokenizer)) == (2, 0, 49152)
    assert tokenizer.decode([1, *tokenizer.encode("hi"), 2], skip_special_tokens=True) == "hi"


def test_the_chat_template_renders_the_ids_the_model_was_trained_on(tokenizer: Any) -> None:
    chat = [{"role": "user", "content": "Hi"}]
    text = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    system = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    assert text == system + "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.encode(text)[0] == 1 and tokenizer.encode(text).count(2) == 2


@pytest.mark.parametrize("name", PUBLISHED)
def test_words_are_split_off_as_the_published_patterns_say(name: str) -> None:
    letters = {letter: byte for byte, letter in byte_letters().items()}
    for text in [*TEXTS, "A1b22C333 4444 55555", "HTMLParser/x//y\r\n", "I'LL we'Ve\u00a0x  \n\n  y"]:
        pieces = SPLITS[name].build().pre_tokenize_str(text)
        found = [bytes(letters[letter] for letter in piece).decode() for piece, _ in pieces]
        assert found == regex.findall(PUBLISHED[name], text)


def tokenizer_of(path: Path, **changes: tuple[int, object] | None) -> Tokenizer:
    """The tokenizer of the toy, changed."""
    return make_tokenizer(read_gguf(tiny_llama().with_metadata(**changes).write(path / "toy.gguf")))


@pytest.mark.parametrize(("name", "composed"), [("qwen2", True), ("llama-bpe", False)])
def test_only_where_the_model_composes_is_text_composed_first(tmp_path: Path, name: str, composed: bool) -> None:
    tokenizer = tokenizer_of(tmp_path, tokenizer__ggml__pre=(STRING, name))
    assert (tokenizer.decode(tokenizer.encode("e\u0301").ids) == "\u00e9") == composed


@pytest.mark.parametrize(("split", "pieces"), [("smollm", ["a", "1", "2"]), ("gpt-2", ["a", "12"])])
def test_digits_join_only_where_the_pre_tokenizer_lets_them(tmp_path: Path, split: str, pieces: list[str]) -> None:
    _, (_, tokens) = tiny_llama().metadata["tokenizer.ggml.tokens"]
    tokenizer = tokenizer_of(
        tmp_path,
        tokenizer__ggml__pre=(STRING, split),
        tokenizer__ggml__tokens=(ARRAY, (STRING, [*tokens[:-1], "12"])),
        tokenizer__ggml__merges=(ARRAY, (STRING, ["1 2"])),
    )
    assert tokenizer.encode("a12").tokens == pieces


def test_a_first_token_is_put_before_a_text_only_if_the_file_says_so(tmp_path: Path) -> None:
    plain, first = (tokenizer_of(tmp_path, tokenizer__ggml__add_bos_token=(BOOL, said)) for said in (False, True))
    assert first.encode("h").ids == [0, *plain.encode("h").ids]


def test_user_defined_tokens_are_whole_but_stay_in_the_text(tmp_path: Path) -> None:
    tokenizer = tokenizer_of(tmp_path)
    ids = tokenizer.encode("hel<tool></s>").ids
    assert ids == [tokenizer.token_to_id(token) for token in ("hel", "<tool>", "</s>")]
    assert tokenizer.decode(ids) == "hel<tool>"


def test_every_token_that_ends_a_turn_is_kept(tmp_path: Path) -> None:
    toy = tiny_llama().with_metadata(tokenizer__ggml__eot_token_id=(U32, 2), tokenizer__ggml__eom_token_id=(U32, 1))
    gguf = read_gguf(toy.write(tmp_path / "toy.gguf"))
    assert read_special_ids(gguf).ends == (1, 2)
    assert make_tokenizer_config(gguf)["eos_token"] == "</s>"


def two_tokens(*tokens: str) -> dict[str, tuple[int, object] | None]:
    return {
        "tokenizer__ggml__tokens": (ARRAY, (STRING, list(tokens))),
        "tokenizer__ggml__token_type": (ARRAY, (I32, [1, 1])),
    }


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tokenizer__ggml__model": (STRING, "t5")}, "tokenizer 't5' is not imported yet"),
        ({"tokenizer__ggml__pre": (STRING, "falcon")}, "splits text in the way 'falcon', which is not imported yet"),
        ({"tokenizer__ggml__pre": None}, "does not say how its tokenizer splits text .tokenizer.ggml.pre."),
        ({"tokenizer__ggml__tokens": None}, "lacks the list tokenizer.ggml.tokens"),
        (two_tokens("a", ""), "empty or repeated tokens"),
        ({"tokenizer__ggml__merges": (ARRAY, (STRING, ["h x"]))}, "merge 'h x' does not fit"),
        ({"tokenizer__ggml__token_type": (ARRAY, (I32, [1, 3]))}, "2 token types for 261 tokens"),
        ({"tokenizer__ggml__eos_token_id": (U32, 261)}, "the eos token 261 is not in the vocabulary of 261"),
        ({"tokenizer__ggml__bos_token_id": (U32, 6), "tokenizer__ggml__add_bos_token": (BOOL, True)}, "cannot be put"),
    ],
)
def test_a_tokenizer_that_would_be_wrong_is_refused(
    tmp_path: Path, changes: dict[str, tuple[int, object] | None], reason: str
) -> None:
    with pytest.raises(ModelError, match=reason):
        tokenizer_of(tmp_path, **changes)
