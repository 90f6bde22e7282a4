"""Tokenizers of real families made small: the same construction, special tokens, order of ids and padding, few merges.

Each has the shape that its family's tokenizer.json has:

    GPT-2                byte-level BPE, one special token, last
    Llama 3.1, 3.2       byte-level BPE, then a block of special and reserved tokens; padded nowhere
    Qwen2.5 (small, large), Qwen3
                         one byte-level BPE, then special tokens; Qwen3 has more of them. Rows padded, the large more
    Llama 2, Mistral v0.1
                         SentencePiece BPE with byte fallback: <unk>, <s>, </s>, 256 bytes, pieces; the same size, other
                         pieces
    Mistral Tekken       byte-level BPE after a block of control tokens
    Gemma 3 (1B, 4B)     BPE with byte fallback, <pad> first; an image token at the end, for which the 1B has no row
    SmolLM2              byte-level BPE with digits apart, special tokens in front
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

_ENGLISH = ["the sky is blue because the light of the sun is scattered by the air in 1871, as Rayleigh found"] * 8
_FRENCH = ["le ciel est bleu parce que la lumiere du soleil est diffusee par les molecules de l'air en 1871"] * 8
_GERMAN = ["der Himmel ist blau, weil das Licht der Sonne an den Teilchen der Luft gestreut wird, seit 1871"] * 8
_PIECES = 300
_CHAT = ("<|im_start|>", "<|im_end|>")
_QWEN25 = ("<|endoftext|>", *_CHAT, "<tool_call>", "</tool_call>")


@dataclass(frozen=True)
class Family:
    """name: of the folder. rows: of the embedding."""

    name: str
    tokenizer: Tokenizer
    rows: int
    template: str = "chatml"


def families() -> list[Family]:
    """All of them, always with the same tokens."""
    gpt2, llama3 = _byte_level(_ENGLISH, after=("<|endoftext|>",)), _llama3()
    qwen25 = _byte_level(_GERMAN, after=_QWEN25)
    qwen3 = _byte_level(_GERMAN, after=(*_QWEN25, "<tool_response>", "</tool_response>", "<think>", "</think>"))
    gemma = _gemma()
    size = gemma.get_vocab_size()
    return [
        Family("gpt2", gpt2, gpt2.get_vocab_size()),
        Family("llama-3.1-8b", llama3, llama3.get_vocab_size(), "llama3"),
        Family("llama-3.2-1b", llama3, llama3.get_vocab_size(), "llama3, dated"),
        Family("qwen2.5-0.5b", qwen25, 384),
        Family("qwen2.5-32b", qwen25, 448),
        Family("qwen3-8b", qwen3, 384, "chatml, thinking"),
        Family("llama-2-7b", _sentence_piece(_ENGLISH), 290, "llama2"),
        Family("mistral-7b", _sentence_piece(_FRENCH), 290, "llama2"),
        Family("tekken-12b", _byte_level(_ENGLISH, front=_numbered("<SPECIAL_{}>", 12)), 312, "tekken"),
        Family("gemma-3-1b", gemma, size - 1, "gemma"),
        Family("gemma-3-4b", gemma, size + 63, "gemma"),
        Family("smollm2-135m", _byte_level(_ENGLISH, front=("<|endoftext|>", *_CHAT), digits=True), 303),
    ]


def write_model(root: Path, family: Family, width: int = 4) -> Path:
    """A model folder whose headers pass, with one tensor (width, width); it could not be loaded."""
    path = root / family.name
    path.mkdir(parents=True)
    family.tokenizer.save(str(path / "tokenizer.json"))
    config = {"model_type": "llama", "vocab_size": family.rows, "hidden_size": 32, "num_hidden_layers": 1}
    (path / "config.json").write_text(json.dumps(config))
    (path / "tokenizer_config.json").write_text(json.dumps({"chat_template": family.template}))
    mx.save_safetensors(str(path / "model.safetensors"), {"model.embed_tokens.weight": mx.zeros((width, width))})
    return path


def _byte_level(
    corpus: Sequence[str], front: Sequence[str] = (), after: Sequence[str] = (), digits: bool = False
) -> Tokenizer:
    """300 pieces, the bytes among them, and the special tokens in front of or after them."""
    tokenizer = Tokenizer(models.BPE())
    cut = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), cut]) if digits else cut
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_PIECES + len(front),
        special_tokens=list(front),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    assert tokenizer.get_vocab_size() == _PIECES + len(front)
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in after])
    return tokenizer


def _llama3() -> Tokenizer:
    reserved = _numbered("<|reserved_special_token_{}|>", 8)
    named = (
        "<|begin_of_text|>",
        "<|end_of_text|>",
        *reserved,
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eot_id|>",
    )
    return _byte_level(_FRENCH, after=named)


def _sentence_piece(corpus: Sequence[str]) -> Tokenizer:
    """290 tokens whatever the corpus."""
    return _with_bytes(("<unk>", "<s>", "</s>"), corpus, 290)


def _gemma() -> Tokenizer:
    tokenizer = _with_bytes(("<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"), _ENGLISH, 300)
    tokenizer.add_special_tokens([AddedToken("<image_soft_token>", special=True)])
    return tokenizer


def _with_bytes(named: Sequence[str], corpus: Sequence[str], size: int) -> Tokenizer:
    """BPE over characters whose space is a block, with a token for each byte that no piece has."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    alone = [*named, *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=alone, show_progress=False)
    tokenizer.train_from_iterator(corpus, trainer)
    assert tokenizer.get_vocab_size() == size
    return tokenizer


def _numbered(form: str, count: int) -> tuple[str, ...]:
    return tuple(form.format(number) for number in range(count))
