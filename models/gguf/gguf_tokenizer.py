"""The tokenizer and chat template that a GGUF carries, as the files transformers and mlx-lm load.

Two kinds: byte-level BPE (models.gguf.byte_level) and SentencePiece BPE (models.gguf.sentencepiece); every id as in the
file. Keys: ggml's docs/gguf.md "Tokenizer"; files: tokenizers' tokenizer.json, transformers' tokenizer_config.json and
chat_template.jinja.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum

from tokenizers import AddedToken, Tokenizer, processors

from engine.errors import RedlineError
from models.gguf.byte_level import byte_level, split_of
from models.gguf.gguf_reader import GgufFile
from models.gguf.sentencepiece import SPACE, sentencepiece

_DAMAGED = "the file is damaged, download it again"

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
    """Token ids with a job; None where the file names none. `ends` are all that end a reply."""

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
    """Raises ModelError: lists that are missing or disagree, a token that is empty or there twice."""
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
    """The ids of the special tokens. Raises ModelError if one is not in the vocabulary."""
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
    """The tokenizer, every id as in the file. Raises ModelError on a kind not known here or lists that disagree."""
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
        "model_max_length": gguf.get(f"{gguf.get('general.architecture', str)}.context_length", int),
        **{role: tokens[number] for role, number in named.items() if number is not None},
    }


def read_chat_template(gguf: GgufFile) -> str | None:
    """The Jinja chat template, or None if the file has none."""
    return gguf.get("tokenizer.chat_template", str) if "tokenizer.chat_template" in gguf.metadata else None


def _is_sentencepiece(gguf: GgufFile) -> bool:
    """Raises ModelError for a kind that is neither."""
    kind = gguf.get("tokenizer.ggml.model", str)
    if kind not in ("gpt2", "llama"):
        raise gguf.unfit(f"its tokenizer {kind[:40]!r} is not imported yet", "use an MLX version of this model")
    return kind == "llama"


def _sentencepiece(gguf: GgufFile, vocabulary: Vocabulary, special: SpecialIds) -> Tokenizer:
    """Where a text gets no space in front, the user's tokens are looked for behind the normalizer, and so among ▁."""
    prefixed = gguf.get("tokenizer.ggml.add_space_prefix", bool, True)
    unknown = None if special.unknown is None else vocabulary.tokens[special.unknown]
    apart = vocabulary.of(TokenType.CONTROL, TokenType.UNKNOWN, TokenType.USER_DEFINED, TokenType.BYTE)
    tokenizer = sentencepiece(gguf, vocabulary.ids, apart, unknown, prefixed)
    tokenizer.add_tokens(_added(vocabulary, normalized=not prefixed))
    return tokenizer


def _added(vocabulary: Vocabulary, normalized: bool) -> list[AddedToken]:
    """Tokens that are matched whole before any splitting: control ones are special (left out of decoded text).

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
    """What the tokenizers library throws at lists that it can make no sense of, as a ModelError."""
    try:
        yield
    except (RedlineError, KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # broad: tokenizers raises bare Exception, or Rust's panic
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise gguf.unfit(f"its tokenizer cannot be built ({reason})", _DAMAGED) from error
