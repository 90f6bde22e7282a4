"""The tokenizer and chat template that a GGUF carries, as the files transformers and mlx-lm load.

Every id is as in the file. Two kinds:

    gpt2     byte-level BPE: letters for bytes, words split off by a pattern, merges by rank. The pattern goes by the
             name of a pre-tokenizer; an unknown one is refused, because a wrong split would give other ids in silence
    llama    SentencePiece BPE, as Gemma's and Llama 2's own tokenizer.json have it: spaces become ▁, merges are every
             way to put a piece together in order of the piece's score, and what no piece covers goes in bytes. GGUF
             writes the pieces that users have defined with real spaces; here they get their ▁ back

Keys: ggml's docs/gguf.md "Tokenizer"; patterns and what goes with them: llama.cpp's llama-vocab.cpp, for qwen2 also
transformers' tokenization_qwen2.py; files: tokenizers' tokenizer.json, transformers' tokenizer_config.json and
chat_template.jinja.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from engine.errors import RedlineError
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


@dataclass(frozen=True)
class Split:
    """How text is split into words: by `pattern`, or by GPT-2's own, with each digit apart where `digits`.

    whole_words: a word that is a token is taken as it is, whatever the merges would make of it. starts: whether the
    first token is put before a text unless the file says otherwise. composes: text is brought into NFC first.
    """

    pattern: str = ""
    digits: bool = False
    whole_words: bool = False
    starts: bool = False
    composes: bool = False

    def build(self) -> pre_tokenizers.PreTokenizer:
        """Returns the pre-tokenizer, which writes bytes as letters last."""
        letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not self.pattern)
        if self.pattern:
            return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(self.pattern), "isolated"), letters])
        if self.digits:
            return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), letters])
        return letters


_DIGITS_SPLIT, _LLAMA3_SPLIT = Split(digits=True), Split(_LLAMA3, whole_words=True, starts=True)

# By `tokenizer.ggml.pre`.
SPLITS: Mapping[str, Split] = {
    "smollm": _DIGITS_SPLIT,
    "starcoder": _DIGITS_SPLIT,
    "refact": _DIGITS_SPLIT,
    "gpt-2": Split(),
    "llama-bpe": _LLAMA3_SPLIT,
    "llama3": _LLAMA3_SPLIT,
    "llama-v3": _LLAMA3_SPLIT,
    "qwen2": Split(_QWEN2, composes=True),
    "deepseek-r1-qwen": Split(_QWEN2),
    "tekken": Split(_TEKKEN, whole_words=True, starts=True),
}


def split_of(gguf: GgufFile) -> Split:
    """Returns the split that the file names. Raises ModelError for an unknown one."""
    name = gguf.get("tokenizer.ggml.pre", str, "")
    if not name:
        what = "does not say how its tokenizer splits text (tokenizer.ggml.pre), like other files from before May 2024"
        raise gguf.unfit(what, "use a newer file of this model, or an MLX version of it")
    if name not in SPLITS:
        raise gguf.unfit(f"its tokenizer splits text in the way {name[:40]!r}, which is not imported yet", _OTHER)
    return SPLITS[name]


def byte_level(gguf: GgufFile, vocabulary: Mapping[str, int]) -> Tokenizer:
    """Returns the tokenizer without its special tokens. Raises ModelError: an unknown split, merges that do not fit."""
    split = split_of(gguf)
    model = models.BPE(vocab=dict(vocabulary), merges=_merges(gguf, vocabulary), ignore_merges=split.whole_words)
    tokenizer = Tokenizer(model)
    if split.composes:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = split.build()
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _merges(gguf: GgufFile, vocabulary: Mapping[str, int]) -> list[tuple[str, str]]:
    """Returns the merges in order of rank. All parts must be tokens: the library's own error is less clear."""
    merges: list[tuple[str, str]] = []
    for merge in gguf.get_all("tokenizer.ggml.merges", str):
        left, space, right = merge.partition(" ")
        if not space or not {left, right, left + right} <= vocabulary.keys():
            raise gguf.unfit(f"merge {merge[:40]!r} does not fit its vocabulary", _DAMAGED)
        merges.append((left, right))
    return merges


SPACE = "▁"
_LONGEST_PIECE = 256  # characters; the longest of any model here is 48
_MAX_MERGES = 1 << 23


def sentencepiece(
    gguf: GgufFile, vocabulary: Mapping[str, int], apart: Sequence[str], unknown: str | None, prefixed: bool
) -> Tokenizer:
    """Returns the tokenizer without its special tokens.

    apart: tokens that are never put together from others. prefixed: a text begins with a space that nobody wrote.
    Raises ModelError: scores that are missing or no numbers, pieces of absurd length.
    """
    merges = _piece_merges(gguf, vocabulary, set(apart))
    model = models.BPE(vocab=dict(vocabulary), merges=merges, unk_token=unknown, fuse_unk=True, byte_fallback=True)
    tokenizer = Tokenizer(model)
    spaces = normalizers.Replace(" ", SPACE)
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if prefixed:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), spaces])
        steps.append(decoders.Strip(" ", 1, 0))
    else:
        tokenizer.normalizer = spaces
    tokenizer.decoder = decoders.Sequence(steps)
    return tokenizer


def _piece_merges(gguf: GgufFile, vocabulary: Mapping[str, int], apart: set[str]) -> list[tuple[str, str]]:
    """Returns every pair of pieces that makes a piece: best score first, then as transformers' generate_merges."""
    scores = gguf.get_all("tokenizer.ggml.scores", float)
    if len(scores) < len(vocabulary) or not all(map(math.isfinite, scores)):
        raise gguf.unfit(f"{len(scores)} scores for {len(vocabulary)} tokens, or some that are no numbers", _DAMAGED)
    found: list[tuple[float, int, int, str, str]] = []
    for piece, number in vocabulary.items():
        if piece in apart:
            continue
        if len(piece) > _LONGEST_PIECE:
            raise gguf.unfit(f"its vocabulary has a piece of {len(piece)} characters", _DAMAGED)
        for place in range(1, len(piece)):
            left, right = piece[:place], piece[place:]
            if left in vocabulary and right in vocabulary and left not in apart and right not in apart:
                found.append((-scores[number], -len(left), -len(right), left, right))
        if len(found) > _MAX_MERGES:
            raise gguf.unfit("its vocabulary can be put together in too many ways", _DAMAGED)
    found.sort(key=lambda merge: merge[:3])
    return [(left, right) for *_, left, right in found]


# Tokens that end a turn wherever they are in a vocabulary: GGUF has room for three ids at most, and converters have
# long filled in one (llama.cpp's llama-vocab.cpp looks for these as well). The last two where they end the text.
_ENDS_A_TURN = ("<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>")
_ENDS_A_TEXT = {"qwen2": "<|endoftext|>", "qwen3": "<|endoftext|>", "llama": "<|end_of_text|>"}


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
    """The ids of special tokens; None where the file names none. `ends`: all that end a reply."""

    bos: int | None
    eos: int | None
    unknown: int | None
    padding: int | None
    ends: tuple[int, ...]


@dataclass(frozen=True)
class Vocabulary:
    """The tokens by id, and their types; tokens that only fill up the embedding are left out."""

    tokens: tuple[str, ...]
    types: tuple[int, ...]

    @property
    def ids(self) -> dict[str, int]:
        return {token: number for number, token in enumerate(self.tokens)}

    def of(self, *types: TokenType) -> list[str]:
        return [token for token, kind in zip(self.tokens, self.types, strict=True) if kind in types]


def read_tokens(gguf: GgufFile) -> Vocabulary:
    """Returns the vocabulary. Raises ModelError: lists that are missing or disagree, an empty or repeated token."""
    tokens = gguf.get_all("tokenizer.ggml.tokens", str)
    types = gguf.get_all("tokenizer.ggml.token_type", int)
    if len(types) != len(tokens):
        raise gguf.unfit(f"{len(types)} token types for {len(tokens)} tokens", _DAMAGED)
    end = len(tokens)
    while end and types[end - 1] == TokenType.UNUSED and tokens[end - 1] == f"[PAD{end - 1}]":
        end -= 1
    kept, kinds = tokens[:end], types[:end]
    if _is_sentencepiece(gguf):
        user = TokenType.USER_DEFINED
        kept = tuple(t.replace(" ", SPACE) if kind == user else t for t, kind in zip(kept, kinds, strict=True))
    if len(set(kept)) != len(kept) or "" in kept:
        raise gguf.unfit("its vocabulary has empty or repeated tokens", _DAMAGED)
    return Vocabulary(kept, kinds)


def read_special_ids(gguf: GgufFile) -> SpecialIds:
    """Returns the ids of the special tokens. Raises ModelError if one is not in the vocabulary."""
    tokens = gguf.get_all("tokenizer.ggml.tokens", str)

    def find(role: str) -> int | None:
        if f"tokenizer.ggml.{role}_token_id" not in gguf.metadata:
            return None
        number = gguf.get(f"tokenizer.ggml.{role}_token_id", int)
        if not 0 <= number < len(tokens):
            raise gguf.unfit(f"the {role} token {number} is not in the vocabulary of {len(tokens)}", _DAMAGED)
        return number

    eos = find("eos")
    by_name = {*_ENDS_A_TURN, _ENDS_A_TEXT.get(gguf.get("general.architecture", str, ""))}
    named = (number for number, token in enumerate(tokens) if token in by_name)
    ends = tuple(dict.fromkeys(n for n in (eos, find("eot"), find("eom"), *named) if n is not None))
    return SpecialIds(find("bos"), eos, find("unknown"), find("padding"), ends)


def make_tokenizer(gguf: GgufFile) -> Tokenizer:
    """Returns the tokenizer, every id as in the file. Raises ModelError for an unknown kind or lists that disagree."""
    vocabulary, special = read_tokens(gguf), read_special_ids(gguf)
    with _boundary(gguf):
        if _is_sentencepiece(gguf):
            tokenizer, starts = _sentencepiece(gguf, vocabulary, special), True
        else:
            tokenizer, starts = byte_level(gguf, vocabulary.ids), split_of(gguf).starts
            tokenizer.add_tokens(_added(vocabulary, normalized=False))
        if gguf.get("tokenizer.ggml.add_bos_token", bool, starts) and special.bos is not None:
            _start_with(gguf, tokenizer, vocabulary.tokens, special.bos)
        return tokenizer


def make_tokenizer_config(gguf: GgufFile) -> dict[str, object]:
    """Returns tokenizer_config.json: which class loads tokenizer.json, and the special tokens by name."""
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
        "model_max_length": gguf.get(f"{gguf.get('general.architecture', str)}.context_length", int),
        **{role: tokens[number] for role, number in named.items() if number is not None},
    }


def read_chat_template(gguf: GgufFile) -> str | None:
    """Returns the Jinja chat template, or None if the file has none."""
    return gguf.get("tokenizer.chat_template", str) if "tokenizer.chat_template" in gguf.metadata else None


def _is_sentencepiece(gguf: GgufFile) -> bool:
    """Whether the tokenizer is SentencePiece, not byte-level. Raises ModelError for another kind."""
    kind = gguf.get("tokenizer.ggml.model", str)
    if kind not in ("gpt2", "llama"):
        raise gguf.unfit(f"its tokenizer {kind[:40]!r} is not imported yet", "use an MLX version of this model")
    return kind == "llama"


def _sentencepiece(gguf: GgufFile, vocabulary: Vocabulary, special: SpecialIds) -> Tokenizer:
    """Returns the SentencePiece tokenizer. Without a space before texts, user tokens are found in normalized text."""
    prefixed = gguf.get("tokenizer.ggml.add_space_prefix", bool, True)
    unknown = None if special.unknown is None else vocabulary.tokens[special.unknown]
    apart = vocabulary.of(TokenType.CONTROL, TokenType.UNKNOWN, TokenType.USER_DEFINED, TokenType.BYTE)
    tokenizer = sentencepiece(gguf, vocabulary.ids, apart, unknown, prefixed)
    tokenizer.add_tokens(_added(vocabulary, normalized=not prefixed))
    return tokenizer


def _added(vocabulary: Vocabulary, normalized: bool) -> list[AddedToken]:
    """Returns the tokens that are matched whole before any splitting: control ones are special (not decoded).

    normalized: whether users' tokens are looked for in the normalized text.
    """
    special = {TokenType.CONTROL, TokenType.UNKNOWN}
    user: Mapping[bool, Sequence[str]] = {
        True: vocabulary.of(*special),
        False: vocabulary.of(TokenType.USER_DEFINED),
    }
    return [
        AddedToken(token, special=is_special, normalized=normalized and not is_special)
        for is_special, tokens in user.items()
        for token in tokens
    ]


def _start_with(gguf: GgufFile, tokenizer: Tokenizer, tokens: Sequence[str], bos: int) -> None:
    start = tokens[bos]
    if not start.isprintable() or set(start) & set(" :$"):  # these mean something in the library's templates
        raise gguf.unfit(f"its first token {start[:40]!r} cannot be put before a text", _DAMAGED)
    tokenizer.post_processor = processors.TemplateProcessing(f"{start} $A", f"{start} $A $B", [(start, bos)])


@contextmanager
def _boundary(gguf: GgufFile) -> Iterator[None]:
    """Turns what the tokenizers library raises for lists that it cannot use into a ModelError."""
    try:
        yield
    except (RedlineError, KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # broad: tokenizers raises bare Exception, or Rust's panic
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise gguf.unfit(f"its tokenizer cannot be built ({reason})", _DAMAGED) from error
