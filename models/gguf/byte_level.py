"""Byte-level BPE ("gpt2" in GGUF's words): letters for bytes, words split off by a pattern, merges by rank.

The pattern goes by the name of a pre-tokenizer; one that is not known here is refused, because a wrong split would give
other token ids in silence. Patterns and what goes with them: llama.cpp's llama-vocab.cpp, where each stands as the
models' own tokenizer.json has it; for qwen2 also transformers' tokenization_qwen2.py.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from models.gguf.gguf_reader import GgufFile

_DAMAGED = "the file is damaged, download it again"
_OTHER = "use an MLX version of this model"
_ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_ENDINGS}|{_WORDS}|\p{{N}}{{1,3}}|{_REST}"
_QWEN2 = rf"{_ENDINGS}|{_WORDS}|\p{{N}}|{_REST}"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _byte_level() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def _digits_then_byte_level() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _byte_level()])


def _by(pattern: str) -> Callable[[], pre_tokenizers.PreTokenizer]:
    def build() -> pre_tokenizers.PreTokenizer:
        letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), letters])

    return build


@dataclass(frozen=True)
class Split:
    """whole_words: a word that is a token is taken as it is, whatever the merges would make of it. starts: whether the
    first token is put before a text unless the file says otherwise. composes: text is brought into NFC first."""

    build: Callable[[], pre_tokenizers.PreTokenizer]
    whole_words: bool = False
    starts: bool = False
    composes: bool = False


_GPT2_SPLIT, _DIGITS_SPLIT = Split(_byte_level), Split(_digits_then_byte_level)
_LLAMA3_SPLIT = Split(_by(_LLAMA3), whole_words=True, starts=True)

# By `tokenizer.ggml.pre`.
SPLITS: Mapping[str, Split] = {
    "smollm": _DIGITS_SPLIT,
    "starcoder": _DIGITS_SPLIT,
    "refact": _DIGITS_SPLIT,
    "gpt-2": _GPT2_SPLIT,
    "llama-bpe": _LLAMA3_SPLIT,
    "llama3": _LLAMA3_SPLIT,
    "llama-v3": _LLAMA3_SPLIT,
    "qwen2": Split(_by(_QWEN2), composes=True),
    "deepseek-r1-qwen": Split(_by(_QWEN2)),
    "tekken": Split(_by(_TEKKEN), whole_words=True, starts=True),
}


def split_of(gguf: GgufFile) -> Split:
    """Raises ModelError where the file names no pre-tokenizer that is known here."""
    name = gguf.get("tokenizer.ggml.pre", str, "")
    if name not in SPLITS:
        raise gguf.unfit(f"its tokenizer splits text in the way {name[:40]!r}, which is not imported yet", _OTHER)
    return SPLITS[name]


def byte_level(gguf: GgufFile, vocabulary: Mapping[str, int]) -> Tokenizer:
    """The tokenizer without its special tokens. Raises ModelError: an unknown split, merges that do not fit."""
    split = split_of(gguf)
    model = models.BPE(vocab=dict(vocabulary), merges=_merges(gguf, vocabulary), ignore_merges=split.whole_words)
    tokenizer = Tokenizer(model)
    if split.composes:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = split.build()
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _merges(gguf: GgufFile, vocabulary: Mapping[str, int]) -> list[tuple[str, str]]:
    """The merges in order of rank. All parts must be tokens: the tokenizers library fails less kindly."""
    merges: list[tuple[str, str]] = []
    for merge in gguf.get_all("tokenizer.ggml.merges", str):
        left, space, right = merge.partition(" ")
        if not space or not {left, right, left + right} <= vocabulary.keys():
            raise gguf.unfit(f"merge {merge[:40]!r} does not fit its vocabulary", _DAMAGED)
        merges.append((left, right))
    return merges
