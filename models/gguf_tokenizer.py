"""The tokenizer and chat template that a GGUF carries, as the files transformers and mlx-lm load.

Only byte-level BPE ("gpt2" in GGUF's words) with a pre-tokenizer named in PRE_TOKENIZERS: a wrong split would give
other token ids in silence. Keys: ggml's docs/gguf.md "Tokenizer"; files: tokenizers' tokenizer.json, transformers'
tokenizer_config.json and chat_template.jinja.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

from models.gguf import GgufFile

_DAMAGED = "the file is damaged, download it again"


class TokenType(IntEnum):
    """`llama_token_type` of llama.cpp."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class SpecialIds:
    """Token ids with a job; None where the file names none. `ends` are all that end a reply."""

    bos: int | None
    eos: int | None
    unknown: int | None
    padding: int | None
    ends: tuple[int, ...]


def _byte_level() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def _digits_then_byte_level() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _byte_level()])


# By `tokenizer.ggml.pre`. llama.cpp splits the first three alike (llama-vocab.cpp, LLAMA_VOCAB_PRE_TYPE_SMOLLM).
PRE_TOKENIZERS: Mapping[str, Callable[[], pre_tokenizers.PreTokenizer]] = {
    "smollm": _digits_then_byte_level,
    "starcoder": _digits_then_byte_level,
    "refact": _digits_then_byte_level,
    "gpt-2": _byte_level,
}


def read_special_ids(gguf: GgufFile) -> SpecialIds:
    """The ids of the special tokens. Raises ModelError if one is not in the vocabulary."""
    count = len(gguf.get_all("tokenizer.ggml.tokens", str))

    def find(role: str) -> int | None:
        if f"tokenizer.ggml.{role}_token_id" not in gguf.metadata:
            return None
        number = gguf.get(f"tokenizer.ggml.{role}_token_id", int)
        if not 0 <= number < count:
            raise gguf.unfit(f"the {role} token {number} is not in the vocabulary of {count}", _DAMAGED)
        return number

    eos = find("eos")
    ends = tuple(dict.fromkeys(number for number in (eos, find("eot"), find("eom")) if number is not None))
    return SpecialIds(find("bos"), eos, find("unknown"), find("padding"), ends)


def make_tokenizer(gguf: GgufFile) -> Tokenizer:
    """The tokenizer, every id as in the file. Raises ModelError on a kind not known here or lists that disagree."""
    kind = gguf.get("tokenizer.ggml.model", str)
    split = gguf.get("tokenizer.ggml.pre", str, "")
    if kind != "gpt2" or split not in PRE_TOKENIZERS:
        what = f"its tokenizer ({kind[:40]!r}, split {split[:40]!r}) is not imported yet"
        raise gguf.unfit(what, "use an MLX version of this model")
    tokens = gguf.get_all("tokenizer.ggml.tokens", str)
    vocabulary = {token: number for number, token in enumerate(tokens)}
    if len(vocabulary) != len(tokens) or "" in vocabulary:
        raise gguf.unfit("its vocabulary has empty or repeated tokens", _DAMAGED)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=_merges(gguf, vocabulary)))
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[split]()
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens(_added(gguf, tokens))
    bos = read_special_ids(gguf).bos
    if gguf.get("tokenizer.ggml.add_bos_token", bool, False) and bos is not None:
        start = tokens[bos]
        if not start.isprintable() or set(start) & set(" :$"):  # these mean something in the library's templates
            raise gguf.unfit(f"its first token {start[:40]!r} cannot be put before a text", _DAMAGED)
        tokenizer.post_processor = processors.TemplateProcessing(f"{start} $A", f"{start} $A $B", [(start, bos)])
    return tokenizer


def make_tokenizer_config(gguf: GgufFile) -> dict[str, object]:
    """tokenizer_config.json: which class loads tokenizer.json, and the special tokens by name."""
    tokens, special = gguf.get_all("tokenizer.ggml.tokens", str), read_special_ids(gguf)
    named = {
        "bos_token": special.bos,
        "eos_token": special.eos,
        "unk_token": special.unknown,
        "pad_token": special.padding,
    }
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": gguf.get("llama.context_length", int),
        **{role: tokens[number] for role, number in named.items() if number is not None},
    }


def read_chat_template(gguf: GgufFile) -> str | None:
    """The Jinja chat template, or None if the file has none."""
    return gguf.get("tokenizer.chat_template", str) if "tokenizer.chat_template" in gguf.metadata else None


def _merges(gguf: GgufFile, vocabulary: Mapping[str, int]) -> list[tuple[str, str]]:
    """The merges in order of rank. All parts must be tokens: the tokenizers library fails less kindly."""
    merges: list[tuple[str, str]] = []
    for merge in gguf.get_all("tokenizer.ggml.merges", str):
        left, space, right = merge.partition(" ")
        if not space or not {left, right, left + right} <= vocabulary.keys():
            raise gguf.unfit(f"merge {merge[:40]!r} does not fit its vocabulary", _DAMAGED)
        merges.append((left, right))
    return merges


def _added(gguf: GgufFile, tokens: tuple[str, ...]) -> list[AddedToken]:
    """Tokens that are matched whole before any splitting: control ones are special (left out of decoded text)."""
    kinds = gguf.get_all("tokenizer.ggml.token_type", int)
    if len(kinds) != len(tokens):
        raise gguf.unfit(f"{len(kinds)} token types for {len(tokens)} tokens", _DAMAGED)
    special = {TokenType.CONTROL, TokenType.UNKNOWN}
    whole = special | {TokenType.USER_DEFINED}
    return [
        AddedToken(token, special=kind in special, normalized=False)
        for token, kind in zip(tokens, kinds, strict=True)
        if kind in whole
    ]
