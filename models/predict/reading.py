"""What the target thinks of one text: logits behind every token of the reply, and the hidden states drafters read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import mlx.core as mx

from engine.features import Features
from engine.sampling import Context, Law
from engine.target import PREFILL_CHUNK, CachedModel

_LAW_BYTES = 32 * 1024**2  # of a law over the vocabulary, at a time


@dataclass(frozen=True)
class Text:
    """A reply as the target wrote it by itself. tokens: ids, the prompt's first `prompt` included. limit: tokens that
    the reply could have had; it has fewer where it ended by itself."""

    tokens: tuple[int, ...]
    prompt: int
    limit: int

    @property
    def reply(self) -> tuple[int, ...]:
        return self.tokens[self.prompt :]


@dataclass(frozen=True)
class Read:
    """logits: (n, vocabulary), row i for token i of the reply. states: (tokens, width) as a drafter's `Features` have
    them, or None where no drafter reads any."""

    text: Text
    logits: mx.array
    states: mx.array | None

    def chunks(self) -> Iterator[tuple[int, int]]:
        """[start, end) of rows that fit into memory together as laws."""
        rows = max(1, _LAW_BYTES // (4 * self.logits.shape[-1]))
        n = len(self.text.reply)
        yield from ((start, min(start + rows, n)) for start in range(0, n, rows))

    def said(self, start: int, end: int) -> mx.array:
        """Tokens [start, end) of the reply, (end - start,) int32."""
        return mx.array(self.text.reply[start:end], mx.int32)

    def counts(self, law: Law, start: int, end: int) -> mx.array | None:
        """How often each token stands before each of these, (end - start, vocabulary), where the law asks for it."""
        before = self.text.tokens[: self.text.prompt + start]
        return Context(law, before).rows(self.said(start, end - 1))


def read(target: CachedModel, text: Text, points: Sequence[int] | None) -> Read:
    """Read `text` in as few passes as a prompt takes. points: of the hidden states, see `engine.features`, None for
    none. Leaves the cache empty."""
    features = None if points is None else Features(target.model, points)
    target.rewind(0)
    target.read_by(features)
    try:
        first = text.prompt - 1
        for _ in target.prefill(text.tokens[:first]):
            pass
        parts = []
        for start in range(first, len(text.tokens) - 1, PREFILL_CHUNK):
            end = min(start + PREFILL_CHUNK, len(text.tokens) - 1)
            parts.append(target.forward(mx.array(text.tokens[start:end], mx.int32)))
            mx.eval(parts[-1], target.cache.arrays(), features.arrays() if features else [])
        states = features.take(0, len(text.tokens) - 1) if features else None
        logits = mx.concatenate(parts)
        mx.eval(logits, [] if states is None else states)
        return Read(text, logits, states)
    finally:
        target.read_by(None)
        target.rewind(0)
        mx.clear_cache()
