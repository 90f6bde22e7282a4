"""A small model with another tokenizer drafts (Timor 2025, arXiv 2502.05202), in one of two ways.

The model reads the same bytes in its own tokens. By token-level intersection, TLI (`CrossTokenizerModel`), it drafts
only those of its tokens that the target has too: q is its distribution over the intersection, written at the target's
ids; any q keeps p. By string-level exact match, SLEM (`TextDrafter`), it drafts its likeliest tokens whatever they are,
and their text, in the target's tokens, is proposed as a point mass. That drafts across token boundaries, but the text
must be known before the verify pass is built: one more wait for the device in every round.

What the model has read stays aligned with the committed text by bytes ("own" tokens are the drafter's):

    committed tokens  |The| quick|est|                      _ends      3 9 12
    their text         T h e   q u i c k e s t              _text
    own tokens        |The| qu|ick|est|                     _own_ends  3 6 9 12

1. `_tokens` are the model's tokens of a prefix of the committed bytes, and its cache holds a prefix of them.
2. Drafted tokens that were accepted stay: they are the model's own tokens of the same bytes.
3. Other committed bytes are encoded anew, from the start of the last token before them, as a merge may reach across.
   An unfinished character waits for its other bytes; until they come there is nothing to propose.
"""

import codecs
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Self

import mlx.core as mx

from engine.cache.snapshot import Snapshot
from engine.drafters import Draft, DraftContext, Drafter, Needs, empty_draft
from engine.drafters.chain import draw_chain
from engine.target.cached_model import CachedModel
from engine.target.model_layout import position_limit

_LONGEST_TOKEN = 64  # bytes; longer ones are not looked for where a text is split without the tokenizer


@dataclass(frozen=True)
class TokenBytes:
    """What the tokens of both models stand for.

    target, drafter: the bytes of each id; empty for tokens without a text. encode: from a text to the drafter's ids,
    without special tokens around it; encode_target: to the target's. start: the ids that the drafter wants before every
    text. ends: pairs of ids (target, drafter) that end a reply."""

    target: Sequence[bytes]
    drafter: Sequence[bytes]
    encode: Callable[[str], Sequence[int]]
    start: tuple[int, ...] = ()
    ends: tuple[tuple[int, int], ...] = ()
    encode_target: Callable[[str], Sequence[int]] = lambda _text: ()

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


class CrossTokenizerModel(Drafter):
    """Drafts with `model` for a target with other tokens. Raises ValueError if the two have no token in common."""

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
        self._positions = position_limit(model.model) or sys.maxsize
        self._begin_text()

    def _begin_text(self) -> None:
        """Remembers no text; `model` is to be empty."""
        self._text = bytearray()
        self._ends: list[int] = []  # of the target's tokens, in bytes
        self._tokens: list[int] = list(self._bytes.start)
        self._own_ends = [0] * len(self._tokens)
        self._accepted = 0  # drafted tokens that the cache holds after `_tokens`, and that were not refused

    def for_another_reply(self, target: CachedModel) -> Self:
        other = self._with_same_weights()
        other.model = self.model.for_another_reply()
        other._begin_text()
        return other

    def sync(self, tokens: Sequence[int], cancelled: Callable[[], bool] = lambda: False, following: int = 0) -> None:
        self._read(tokens)
        missing = self._tokens[self.model.length : min(len(self._tokens), self._positions) - 1]
        for _ in self.model.prefill(missing, cancelled=cancelled):
            if cancelled():
                break

    def propose(self, context: DraftContext, length: int) -> Draft:
        length = self._catch_up(context, length)
        if length <= 0:
            return empty_draft()
        logits, _ = self.model.continue_from(self._tokens, mx.zeros(0, mx.int32))
        self._accepted = length - 1  # the last one is not read

        def next_logits(token: mx.array) -> mx.array:
            return self._shared_logits(self.model.forward(self._to_own[token]))

        return draw_chain(context, self._shared_logits(logits), next_logits, length, self.needs.token_map)

    def _catch_up(self, context: DraftContext, length: int) -> int:
        """Reads the committed tokens; returns how many of `length` own tokens can be drafted, 0 inside a character."""
        self._read(context.tokens)
        length = min(length, self._positions - len(self._tokens) + 1)  # MLX does not check what is after its table
        if length <= 0 or not self._tokens or self._own_ends[-1] != len(self._text):
            return 0
        if not self.is_ready(context, len(self._tokens) - self.model.length):
            return 0
        self.model.rewind(min(self.model.length, len(self._tokens) - 1))
        return length

    def rewind(self, length: int, repeats: bool = False) -> None:
        if length >= len(self._ends):
            self._accepted = min(self._accepted, self._own_count(length - len(self._ends)))
        else:
            self._accepted = 0
            del self._ends[length:]
            del self._text[self._ends[-1] if self._ends else 0 :]
            self._cut(len(self._text))
        self.model.rewind(min(self.model.length, len(self._tokens) + self._accepted))

    def reusable(self, length: int) -> int:
        return min(length, len(self._ends))

    def snapshot(self) -> Snapshot:
        """A draft that is not read yet counts for nothing."""
        text = list(self._ends), list(self._text), list(self._tokens), list(self._own_ends)
        return {"text": text, "model": self.model.snapshot()}

    def restore(self, snapshot: Snapshot) -> None:
        ends, text, tokens, own_ends = snapshot["text"]
        self._ends, self._text = list(ends), bytearray(text)
        self._tokens, self._own_ends = list(tokens), list(own_ends)
        self._accepted = 0
        self.model.restore(snapshot["model"])
        self.model.rewind(min(self.model.length, len(self._tokens)))

    def _shared_logits(self, logits: mx.array) -> mx.array:
        """Returns the logits of the tokens that both have."""
        return logits[:, self._columns].astype(mx.float32)

    def _read(self, tokens: Sequence[int]) -> None:
        """Brings the own tokens up to the committed ones."""
        new, begin = tokens[len(self._ends) :], len(self._text)
        for token in new:
            self._text += self._bytes.target[token] if token < len(self._bytes.target) else b""
            self._ends.append(len(self._text))
        if new:
            for own, end in self._kept_draft(new, begin):
                self._tokens.append(own)
                self._own_ends.append(end)
            self._accepted = 0
            self._encode_rest()

    def _own_count(self, kept: int) -> int:
        """Returns how many drafted own tokens the first `kept` drafted tokens of the target stand for."""
        return kept

    def _kept_draft(self, new: Sequence[int], _begin: int) -> list[tuple[int, int]]:
        """Returns the drafted own tokens that were accepted, with the places where they end. new: the target's tokens
        since the draft, which begins at the byte `_begin`."""
        first = len(self._ends) - len(new)
        return [(self._own[new[place]], self._ends[first + place]) for place in range(min(self._accepted, len(new)))]

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
        found = _tokens_of(rest, self._bytes.encode, self._bytes.drafter)
        pairs = list(zip(found, accumulate(len(self._bytes.drafter[token]) for token in found), strict=True))
        place = pairs[-1][1] if pairs else 0
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
        """Drops own tokens that end after the first `length` bytes."""
        kept = max(bisect_right(self._own_ends, length), len(self._bytes.start))
        del self._tokens[kept:], self._own_ends[kept:]
        if self.model.length > kept:
            self.model.rewind(kept)


class TextDrafter(CrossTokenizerModel):
    """Drafts with `model` in its own tokens and proposes their text in the target's tokens: SLEM.

    The draft is the model's likeliest text at every temperature, a point mass."""

    def __init__(self, model: CachedModel, tokens: TokenBytes, name: str = "draft") -> None:
        super().__init__(model, tokens, name)
        self.needs = Needs()
        self._own_ending = {own: number for number, own in tokens.ends}

    def _begin_text(self) -> None:
        super()._begin_text()
        self._drafted: list[tuple[int, int]] = []  # own tokens of the last draft, and where their text ends in it
        self._target_ends: list[int] = []  # where the text of each drafted token of the target ends

    def propose(self, context: DraftContext, length: int) -> Draft:
        began_s = time.monotonic()
        count = self._catch_up(context, length)
        if count <= 0:
            return empty_draft()
        text, ending = self._draft_text(self._likeliest(count))
        found = _tokens_of(text, self._bytes.encode_target, self._bytes.target)[:length]
        self._target_ends = list(accumulate(len(self._bytes.target[token]) for token in found))
        self._accepted = min(self.model.length - len(self._tokens), len(self._drafted))
        if ending is not None and len(found) < length and (self._target_ends or [0])[-1] == len(text):
            found.append(ending)
            self._target_ends.append(len(text))
        return Draft(mx.array(found, mx.int32), times_s=(began_s, time.monotonic()))

    def _likeliest(self, count: int) -> list[int]:
        """Returns the model's own greedy continuation of `count` tokens. Waits for the device."""
        logits, _ = self.model.continue_from(self._tokens, mx.zeros(0, mx.int32))
        drafted = [mx.argmax(logits, -1).astype(mx.int32)]
        for _ in range(count - 1):
            drafted.append(mx.argmax(self.model.forward(drafted[-1]), -1).astype(mx.int32))
            mx.async_eval(drafted[-1])
        together = mx.concatenate(drafted)
        mx.eval(together)
        found: Any = together.tolist()
        return list(found)

    def _draft_text(self, own: Sequence[int]) -> tuple[bytes, int | None]:
        """Notes the drafted own tokens up to one without a text, and returns their text without an unfinished
        character, and the target's token for the one that ends the reply there, if it does."""
        self._drafted, text = [], b""
        for token in own:
            piece = self._bytes.drafter[token] if token < len(self._bytes.drafter) else b""
            if token in self._own_ending or not piece:
                return _whole_characters(text), self._own_ending.get(token)
            text += piece
            self._drafted.append((token, len(text)))
        return _whole_characters(text), None

    def _own_count(self, kept: int) -> int:
        end = self._target_ends[min(kept, len(self._target_ends)) - 1] if kept and self._target_ends else 0
        return bisect_right([place for _, place in self._drafted], end)

    def _kept_draft(self, new: Sequence[int], begin: int) -> list[tuple[int, int]]:
        return [(own, begin + end) for own, end in self._drafted[: self._accepted]]


def _tokens_of(data: bytes, encode: Callable[[str], Sequence[int]], known: Sequence[bytes]) -> list[int]:
    """Returns the tokens that `encode` makes of a text, none where they are other bytes. known: the bytes of each."""
    text = data.decode(errors="replace")
    for given in (text, text.removeprefix(" ")):  # SentencePiece may put a space before what it is given
        found = [token for token in encode(given) if token < len(known)]
        if b"".join(known[token] for token in found) == data:
            return found
    return []


def _whole_characters(data: bytes) -> bytes:
    """Returns `data` without an unfinished UTF-8 character at its end."""
    _, length = codecs.utf_8_decode(data, "replace")
    return data[:length]
