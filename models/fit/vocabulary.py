"""Which tokens a drafter knows: those that the target says most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import mlx.core as mx

from models.fit.corpus import Conversation


def choose(conversations: Iterable[Conversation], size: int, rows: int) -> list[int]:
    """The `size` tokens that stand most often in the replies, increasing; `rows`: of the target's vocabulary.

    Where fewer stand there, the lowest of the other ids fill up: byte-pair merges number frequent pieces first.
    """
    counts = Counter(token for c in conversations for token in c.tokens[c.prompt :].tolist())
    ranked = sorted((token for token in counts if token < rows), key=lambda token: (-counts[token], token))[:size]
    chosen = set(ranked)
    for token in range(rows):
        if len(chosen) >= min(size, rows):
            break
        chosen.add(token)
    return sorted(chosen)


def coverage(conversations: Iterable[Conversation], ids: Sequence[int]) -> float:
    """Share of the tokens of the replies that are among `ids`."""
    known, seen, found = set(ids), 0, 0
    for c in conversations:
        said = c.tokens[c.prompt :].tolist()
        seen += len(said)
        found += sum(token in known for token in said)
    return found / seen if seen else 0.0


def as_array(ids: Sequence[int]) -> mx.array:
    """(n,) int32."""
    return mx.array(list(ids), mx.int32)
