"""A small model with another tokenizer drafts: token-level intersection, TLI (Timor 2025, arXiv 2502.05202).

The model reads the same bytes in its own tokens, and drafts only those of its tokens that the target has too. So q is
its distribution over the intersection, written at the target's ids; any q keeps p. String-level matching (SLEM, in the
same paper) could draft across token boundaries, but has to know the drafted text before the verify pass is built, one
more wait for the device in every round.

What the model has read stays aligned with the committed text by bytes:

1. `_tokens` are the model's tokens of a prefix of the committed bytes, and its cache holds a prefix of them.
2. Drafted tokens that were accepted stay: they are the model's own tokens of the same bytes.
3. Other committed bytes are encoded anew, from the start of the last token before them, as a merge may reach across.
   An unfinished character waits for its other bytes; until they come there is nothing to propose.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import mlx.core as mx

from engine.drafters import Draft, DraftContext, Needs, Traits, empty_draft
from engine.drafters.chain import draw_chain
from engine.target.cached_model import PREFILL_CHUNK, CachedModel
from engine.target.model_layout import position_limit

_LONGEST_TOKEN = 64  # bytes; longer ones are not looked for where a text is split without the tokenizer


@dataclass(frozen=True)
class TokenBytes:
    """What the tokens of both models stand for.

    target, drafter: the bytes of each id; empty for tokens without a text. encode: from a text to the drafter's ids,
    without special tokens around it. start: the ids that the drafter wants before every text. ends: pairs of ids
    (target, drafter) that end a reply."""

    target: Sequence[bytes]
    drafter: Sequence[bytes]
    encode: Callable[[str], Sequence[int]]
    start: tuple[int, ...] = ()
    ends: tuple[tuple[int, int], ...] = ()

    def shared(self) -> list[tuple[int, int]]:
        """Returns the pairs of ids (target, drafter) that stand for the same bytes, in the order of the target's; of
        several with the same bytes the first."""
        known: dict[bytes, int] = {}
        for number, text in enumerate(self.drafter):
            if text:
                known.setdefault(text, number)
        pairs = dict(self.ends)
        taken: set[bytes] = set()
        for number, text in enumerate(self.target):
            if text in known and text not in taken and number not in pairs:
                pairs[number] = known[text]
                taken.add(text)
        return sorted(pairs.items())


class CrossTokenizerModel:
    """Drafts with `model` for a target with other tokens. Raises ValueError if the two have no token in common."""

    traits = Traits("chain")

    def __init__(self, model: CachedModel, tokens: TokenBytes, name: str = "draft") -> None:
        self.model = model
        self.name = name
        self._bytes = tokens
        pairs = [pair for pair in tokens.shared() if pair[1] < model.vocabulary]
        if not pairs:
            raise ValueError("target and drafter have no token in common")
        self._columns = mx.array([own for _, own in pairs], mx.int32)
        self._own = dict(pairs)
        lookup = [self._own.get(number, 0) for number in range(max(self._own) + 1)]
        self._to_own = mx.array(lookup, mx.int32)
        self.needs = Needs(token_map=mx.array([number for number, _ in pairs], mx.int32))
        self._splitter = {text: number for number, text in reversed(list(enumerate(tokens.drafter))) if text}
        self._text = bytearray()
        self._ends: list[int] = []  # of the target's tokens, in bytes
        self._tokens: list[int] = list(tokens.start)
        self._own_ends = [0] * len(self._tokens)
        self._positions = position_limit(model.model) or sys.maxsize
        self._accepted = 0  # drafted tokens that the cache holds behind `_tokens`, and that were not refused

    def sync(self, tokens: Sequence[int], cancelled: Callable[[], bool] = lambda: False) -> None:
        self._read(tokens)
        missing = self._tokens[: self._positions][self.model.length : -1]
        for _ in self.model.prefill(missing, cancelled=cancelled):
            if cancelled():
                break

    def propose(self, context: DraftContext, length: int) -> Draft:
        self._read(context.tokens)
        length = min(
            length, self._positions - len(self._tokens) + 1
        )  # MLX does not check what is read behind its table
        if length <= 0 or not self._tokens or self._own_ends[-1] != len(self._text):
            return empty_draft()
        if len(self._tokens) - self.model.length > PREFILL_CHUNK:  # after a long stretch of plain steps
            self.sync(context.tokens, context.cancelled)
            if context.cancelled():
                return empty_draft("stopped")
        self.model.rewind(min(self.model.length, len(self._tokens) - 1))
        logits, _ = self.model.continue_from(self._tokens, mx.zeros(0, mx.int32))
        self._accepted = length - 1  # the last one is not read

        def next_logits(token: mx.array) -> mx.array:
            return self._fit(self.model.forward(self._to_own[token]))

        return draw_chain(context, self._fit(logits), next_logits, length, self.needs.token_map)

    def hint(self, context: DraftContext) -> None:
        return None

    def rewind(self, length: int) -> None:
        if length >= len(self._ends):
            self._accepted = min(self._accepted, length - len(self._ends))
        else:
            self._accepted = 0
            del self._ends[length:]
            del self._text[self._ends[-1] if self._ends else 0 :]
            self._cut(len(self._text))
        self.model.rewind(min(self.model.length, len(self._tokens) + self._accepted))

    def reusable_prefix(self) -> int:
        return len(self._ends)

    def _fit(self, logits: mx.array) -> mx.array:
        """Returns the logits of the tokens that both have."""
        return logits[:, self._columns].astype(mx.float32)

    def _read(self, tokens: Sequence[int]) -> None:
        """Brings the own tokens up to the committed ones."""
        new = tokens[len(self._ends) :]
        for number, token in enumerate(new):
            self._text += self._bytes.target[token] if token < len(self._bytes.target) else b""
            self._ends.append(len(self._text))
            if number < self._accepted:
                self._tokens.append(self._own[token])
                self._own_ends.append(len(self._text))
        if new:
            self._accepted = 0
            self._encode_rest()

    def _encode_rest(self) -> None:
        """Encodes what the own tokens lack of the text, from the start of the last of them."""
        if self._own_ends and self._own_ends[-1] == len(self._text):
            return
        if len(self._tokens) > len(self._bytes.start):
            self._cut(self._own_ends[-1] - 1)
        begin = self._own_ends[-1] if self._own_ends else 0
        for token, end in self._encode(_whole_characters(bytes(self._text[begin:]))):
            self._tokens.append(token)
            self._own_ends.append(begin + end)

    def _encode(self, rest: bytes) -> list[tuple[int, int]]:
        """Returns own tokens of these bytes, each with the place where it ends: the tokenizer's, or where it makes
        other bytes of them the longest that fit, one after the other. A byte that no token has belongs to the one
        before it."""
        text = rest.decode(errors="replace")
        for given in (text, text.removeprefix(" ")):  # SentencePiece may put a space before what it is given
            found = [token for token in self._bytes.encode(given) if token < self.model.vocabulary]
            if b"".join(self._bytes.drafter[token] for token in found) == rest:
                return list(zip(found, accumulate(len(self._bytes.drafter[token]) for token in found), strict=True))
        pairs: list[tuple[int, int]] = []
        place = 0
        while place < len(rest):
            sizes = range(min(_LONGEST_TOKEN, len(rest) - place), 0, -1)
            size = next((size for size in sizes if rest[place : place + size] in self._splitter), 0)
            place += size or 1
            if size:
                pairs.append((self._splitter[rest[place - size : place]], place))
            elif pairs:
                pairs[-1] = (pairs[-1][0], place)
        return pairs

    def _cut(self, length: int) -> None:
        """Drops own tokens that end behind the first `length` bytes."""
        kept = max(bisect_right(self._own_ends, length), len(self._bytes.start))
        del self._tokens[kept:], self._own_ends[kept:]
        if self.model.length > kept:
            self.model.rewind(kept)


def _whole_characters(data: bytes) -> bytes:
    """Returns `data` without an unfinished UTF-8 character at its end."""
    for back in range(1, min(4, len(data)) + 1):
        lead = data[-back]
        if lead & 0xC0 == 0x80:
            continue
        size = 1 if lead < 0x80 else 2 if lead >> 5 == 0b110 else 3 if lead >> 4 == 0b1110 else 4
        return data[:-back] if size > back else data
    return data
