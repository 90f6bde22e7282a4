"""SentencePiece BPE ("llama" in GGUF's words): pieces with scores, the pair that makes the best piece merged first.

As Gemma's and Llama 2's own tokenizer.json have it: spaces become ▁, merges are every way to put a piece together, in
order of the piece's score, and what no piece covers goes in bytes. GGUF writes the pieces that users have defined with
real spaces; here they get their ▁ back, as the model's other files have them.
"""

import math
from collections.abc import Mapping, Sequence

from tokenizers import Tokenizer, decoders, models, normalizers

from models.gguf.gguf_reader import GgufFile

SPACE = "▁"
_DAMAGED = "the file is damaged, download it again"
_LONGEST_PIECE = 256  # characters; the longest of any model here is 48
_MAX_MERGES = 1 << 23


def sentencepiece(
    gguf: GgufFile, vocabulary: Mapping[str, int], apart: Sequence[str], unknown: str | None, prefixed: bool
) -> Tokenizer:
    """The tokenizer without its special tokens.

    apart: tokens that are never put together from others. prefixed: a text begins with a space that nobody wrote.
    Raises ModelError: scores that are missing or no numbers, pieces of absurd length.
    """
    merges = _merges(gguf, vocabulary, set(apart))
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


def _merges(gguf: GgufFile, vocabulary: Mapping[str, int], apart: set[str]) -> list[tuple[str, str]]:
    """Every pair of pieces that makes a piece: best score first, then as transformers' generate_merges has it."""
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
