"""Structured output: which tokens a grammar allows in each row of a verify pass.

`engine.verify_pass.verify` gives the tokens that the grammar refuses after a row's own prefix the logit -inf, before
anything else is done with the row: penalties, logit bias, temperature, min-p, top-k and top-p then apply to what is
left. The rules of acceptance are unchanged, so drafting keeps as much of *plain masked decoding* as it keeps of plain
decoding without a grammar: rejection sampling keeps the distribution; greedy and coupled choices keep the text. That is
not the model's distribution conditioned on the grammar, which would weigh each token by how likely the model is to
complete the reply after it.

Each row has the mask of its own prefix, in a tree the path from the root to its node. After a token that the grammar
refuses, rows cannot be reached, as that token has probability 0; nothing is masked there, so that they stay finite.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.errors import UsageError
from engine.reply_channels import Parser

_ALL = np.uint32(0xFFFFFFFF)


class Matcher(Protocol):
    """A grammar after the tokens that it has consumed. Raises UsageError where it is too complex to go on."""

    def allowed(self) -> NDArray[np.uint32]:
        """Returns which tokens may follow, those that end the reply included: bit t % 32 of word t // 32."""

    def consume(self, token: int) -> bool:
        """Takes a token that does not end the reply. Returns False, and changes nothing, where it may not follow."""

    def rollback(self, tokens: int) -> None:
        """Takes back the last `tokens` that were consumed."""

    def forced(self) -> list[int]:
        """Returns the tokens of the text that must follow, empty where there is a choice."""


class _Place(NamedTuple):
    """Where a prefix of the reply ends. parser: tells thought and answer apart until the answer has begun, None from
    there on."""

    parser: Parser | None

    @property
    def is_masked(self) -> bool:
        """Whether the grammar decides what may follow; it does not inside a thought, and in what marks one."""
        return self.parser is None or self.parser.channel == "answer"


class ReplyGrammar:
    """The grammar of one reply, which begins with its answer: thoughts before it are free.

    vocabulary: width of the target's logits. eos: ids that end the reply. parser: at the end of the prompt; None for a
    model that has no thoughts. Until the answer has begun, the model may open a thought. continuation_ids: the reply so
    far; raises UsageError where the grammar does not allow it.
    """

    def __init__(
        self,
        matcher: Matcher,
        vocabulary: int,
        eos: Iterable[int],
        parser: Parser | None = None,
        continuation_ids: Sequence[int] = (),
    ) -> None:
        self._matcher, self._vocabulary, self._eos = matcher, vocabulary, frozenset(eos)
        if not self._eos:
            raise UsageError("this model has no token that ends a reply, which a grammar needs: choose another model")
        self._place = _Place(parser.fork() if parser is not None else None)
        self.advance(continuation_ids)

    def advance(self, tokens: Iterable[int]) -> None:
        """Makes tokens part of the reply. Raises UsageError for one that the grammar does not allow there."""
        for token in tokens:
            if token in self._eos:
                return
            after, _ = self._after(self._place, token)
            if after is None:
                raise UsageError("the reply so far does not follow the grammar: start the reply again")
            self._place = after

    def rows(self, draft: Sequence[int] = (), parents: Sequence[int] | None = None) -> mx.array:
        """Returns which tokens may follow each row of a verify pass over a draft of n tokens: (n + 1, vocabulary) bool.

        parents: (n,) of a tree, as in `engine.tree.draft_tree`; None for a chain.
        """
        if parents is None:
            parents = range(-1, len(draft) - 1)
        children: list[list[int]] = [[] for _ in range(len(draft) + 1)]
        for node, parent in enumerate(parents):
            children[parent + 1].append(node)
        words = np.full((len(draft) + 1, -(-self._vocabulary // 32)), _ALL, np.uint32)
        self._fill(words, 0, self._place, children, draft)
        bits = (mx.array(words)[:, :, None] >> mx.arange(32, dtype=mx.uint32)) & 1
        return bits.reshape(len(words), -1)[:, : self._vocabulary].astype(mx.bool_)

    def forced(self) -> list[int]:
        """Returns the tokens of the text that must follow where the reply stands, empty where there is a choice."""
        return self._matcher.forced() if self._place.parser is None else []

    def _fill(
        self, words: NDArray[Any], row: int, place: _Place, children: list[list[int]], draft: Sequence[int]
    ) -> None:
        """Fills in the row of a place and those of all nodes below it; leaves the matcher as it was."""
        if place.is_masked:
            allowed = self._matcher.allowed()[: words.shape[1]]
            words[row] = 0
            words[row, : len(allowed)] = allowed
            if not words[row].any():
                raise UsageError("the grammar allows no token of this model here: change it")
            for token in place.parser.openers if place.parser is not None else ():
                words[row, token // 32] |= np.uint32(1 << token % 32)
        for node in children[row]:
            if draft[node] in self._eos:
                continue
            after, consumed = self._after(place, draft[node])
            if after is not None:
                self._fill(words, node + 1, after, children, draft)
                self._matcher.rollback(consumed)

    def _after(self, place: _Place, token: int) -> tuple[_Place | None, int]:
        """Returns the place after a token, None where it may not follow, and how many tokens the matcher consumed."""
        parser = place.parser
        if parser is not None and (not place.is_masked or token in parser.openers):
            parser = parser.fork()
            parser.push(token)
            return _Place(parser), 0
        return (_Place(None), 1) if self._matcher.consume(token) else (None, 0)
