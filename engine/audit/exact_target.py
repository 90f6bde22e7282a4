"""The target of exact-verify: every pass reads one of the blocks of `engine.audit.verify_blocks`, or several of one
token each where such passes have the bits of single steps.

So a token gets the same arithmetic however it came to its place, and a reply is the same to the last bit whatever is
drafted. Nothing else changes: the loop drives it as it drives any target.
"""

from collections.abc import Sequence

import mlx.core as mx

from engine.audit import fingerprints
from engine.audit.verify_blocks import WHY_NO_TREES, VerifyBlocks
from engine.errors import UnsupportedCache, UsageError
from engine.target.cached_model import CachedModel
from engine.tree.draft_tree import DraftTree


class ExactTarget(CachedModel):
    """A target whose passes lie on `blocks`. `length` is where a block ends, or less after a rewind.

    It drives the model, cache and taps of `target`, which must not be driven by itself in between, but for an empty
    cache. Raises UnsupportedCache for a model whose passes find in the cache what refused drafts left there.
    """

    def __init__(self, target: CachedModel, blocks: VerifyBlocks) -> None:
        if not target.cache.follows_position:
            raise UnsupportedCache(
                "--exact needs every pass to see the same keys whatever was refused before, and this model's "
                "chunked cache does not ensure that: leave out --exact"
            )
        vars(self).update(vars(target))  # the same model, cache and taps
        self.blocks = blocks

    def _chunks(self, count: int, chunk: int) -> list[tuple[int, int]]:
        here = self.length
        return [(start - here, min(end - here, count)) for start, end in self.blocks.passes(here, here + count)]

    def feed(self, tokens: Sequence[int], joins_others: bool = False) -> None:
        end = self.length + len(tokens)
        super().feed(tokens, joins_others)
        self.rewind(end)

    def forward(self, tokens: mx.array, tree: DraftTree | None = None) -> mx.array:
        """A pass over the block that begins here: lazy logits (n, vocabulary) of its first n tokens. The rest of the
        block is filled up with the last of them, so that nothing unknown is read: rewind before anything else."""
        (start, end), longest = self.blocks.block(self.length), self.blocks.pass_end(self.length)
        if tree is not None:
            raise UsageError(f"{WHY_NO_TREES}: draft chains, or leave out --exact")
        if start != self.length or start + tokens.size > longest:
            raise ValueError(f"{tokens.size} tokens from {self.length} on are not of one pass, {start} to {longest}")
        missing = max(0, end - start - tokens.size)
        self.cache.mark()
        if missing:
            tokens = mx.concatenate([tokens, mx.broadcast_to(tokens[-1:], (missing,))])
        return self._run(tokens, self.cache.entries)[: tokens.size - missing]

    def continue_from(
        self, sequence: Sequence[int], draft: mx.array, tree: DraftTree | None = None
    ) -> tuple[mx.array, int]:
        self.catch_up(sequence)
        room = self.draft_room(len(sequence))
        if self.length >= len(sequence):
            raise ValueError("the cache already holds the whole sequence: rewind it by one token first")
        if draft.size > room:
            raise ValueError(f"a draft of {draft.size} tokens where its pass has room for {room}")
        return self._from_block(len(sequence) - 1, sequence, draft, tree)

    def continue_after(self, sequence: Sequence[int], token: mx.array) -> tuple[mx.array, int]:
        self.rewind(len(sequence))
        logits, width = self._from_block(len(sequence), sequence, token)
        return logits[-1:], width

    def _from_block(
        self, place: int, sequence: Sequence[int], following: mx.array, tree: DraftTree | None = None
    ) -> tuple[mx.array, int]:
        """Returns lazy logits of the last token of `sequence`, if it stands in the block of `place` or behind it, and
        of each of `following`; and the width of the pass, which begins with that block."""
        start = self.blocks.start(place)
        for _ in self.prefill(sequence[self.length : start]):
            pass
        known = mx.array(list(sequence[start:]), mx.int32)
        rows = mx.concatenate([known, following.astype(mx.int32)])
        logits = self.forward(rows, tree if following.size else None)[-(following.size + 1) :]
        return logits, self.length - start

    def draft_room(self, length: int) -> int:
        return min(self.blocks.room(length - 1), super().draft_room(length))

    @property
    def shares_passes(self) -> bool:
        """Never: other rows would change its arithmetic."""
        return False

    def checksums(self, logits: mx.array) -> mx.array:
        return fingerprints.row_checksums(logits)

    def _rewind_cache(self, length: int) -> int:
        return self.cache.rewind(self.blocks.start(length))
