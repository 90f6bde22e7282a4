"""Wrong edits of exact-verify: where blocks lie, what fills them, what a fingerprint is of."""

from tests.mutants.mutant import Mutant

_TARGET, _GRID, _PRINT = "engine/target.py", "engine/grid.py", "engine/fingerprint.py"
_EXACT, _LAID = "tests/engine/test_exact.py::", "tests/engine/test_grid.py::"
_EVERY_LOGIT = _EXACT + "test_every_logit_is_the_same_to_the_last_bit"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "blocks are not filled up",
        _TARGET,
        "        missing = end - start - tokens.size\n",
        "        missing = 0\n",
        (_EVERY_LOGIT,),
    ),
    Mutant(
        "a rewind stays within its block",
        _TARGET,
        "self.cache.rewind(length if self.grid is None else self.grid.start(length))",
        "self.cache.rewind(length)",
        (_EVERY_LOGIT,),
    ),
    Mutant(
        "what fills a block stays in the memory of a prompt",
        _TARGET,
        "        if self.grid is not None:\n            self.rewind(end)\n",
        "",
        (_EXACT + "test_later_turns_and_edits_have_the_bits_of_a_fresh_conversation",),
    ),
    Mutant(
        "the memory of one grid serves another",
        _TARGET,
        "self.rewind(self.grid.shared(grid, self.length) if self.grid is not None and grid is not None else 0)",
        "self.rewind(self.length)",
        (
            _EXACT + "test_leaving_it_forgets_what_its_passes_made",
            _EXACT + "test_the_next_turn_keeps_the_blocks_that_it_would_make_itself",
        ),
    ),
    Mutant(
        "a block of another width is taken for the same",
        _GRID,
        "            if end > length or end not in (block[1] for block in other.blocks(kept, kept + 1)):\n",
        "            if end > length:\n",
        (_LAID + "test_blocks_are_kept_as_far_as_both_grids_have_them",),
    ),
    Mutant(
        "a draft may leave its block",
        _GRID,
        "return self.block(place)[1] - place - 1",
        "return self.block(place)[1] - place",
        (_LAID + "test_a_draft_ends_where_its_block_ends", _EVERY_LOGIT + "[qwen3]"),
    ),
    Mutant(
        "what was said before a break counts as prompt",
        "engine/session.py",
        "grid = Grid.of(len(prompt)) if settings.exact else None\n        prompt = [*prompt, *said]\n",
        "prompt = [*prompt, *said]\n        grid = Grid.of(len(prompt)) if settings.exact else None\n",
        (_EXACT + "test_a_reply_gone_on_with_has_the_bits_of_one_that_was_never_cut",),
    ),
    Mutant(
        "forgetting stays on the grid",
        "engine/session.py",
        "            self.target.lay(None)\n",
        "",
        (_EXACT + "test_forgetting_leaves_the_grid",),
    ),
    Mutant(
        "even factors of a fingerprint",
        _PRINT,
        "astype(mx.uint32) + 1\n",
        "astype(mx.uint32)\n",
        (_LAID + "test_one_bit_of_one_logit_changes_its_rows_fingerprint_alone",),
    ),
    Mutant(
        "a fingerprint knows no places",
        _PRINT,
        "odd * mx.array(factor, mx.uint32)",
        "mx.array(factor, mx.uint32)",
        (_LAID + "test_numbers_that_change_places_change_the_fingerprint",),
    ),
    Mutant(
        "a cut round keeps all fingerprints",
        "engine/events.py",
        "            fingerprints=self.fingerprints[:count],\n",
        "",
        (_EXACT + "test_a_reply_that_ends_inside_a_round_has_a_fingerprint_a_token",),
    ),
    Mutant(
        "chunked caches are let onto a grid",
        "engine/cache.py",
        "return not any(isinstance(leaf, kinds.ChunkedKVCache) for leaf in self._leaves())",
        "return True",
        (_EXACT + "test_a_chunked_cache_is_refused_and_says_why",),
    ),
    Mutant(
        "exact-verify draws trees",
        "app/options.py",
        "        if self.exact and self.tree:\n",
        "        if False:\n",
        ("tests/app/test_exact.py::test_trees_and_exact_are_a_usage_error",),
    ),
    Mutant(
        "exact-verify thinks wide passes dear",
        "app/pair.py",
        "in_blocks(own) if exact else own",
        "own",
        ("tests/app/test_exact.py::test_a_draft_costs_no_wider_pass_there",),
    ),
    Mutant(
        "a difference of exact-verify is judged by passes of other shapes",
        "engine/recheck.py",
        "    target.lay(Grid.of(len(prompt)) if exact else None)\n    narrow",
        "    narrow",
        ("tests/engine/test_receipt.py::test_in_exact_verify_no_rounding_excuses_a_difference",),
    ),
    Mutant(
        "the fillers of a pass are taken for text",
        "engine/recheck.py",
        "        target.rewind(len(tokens))  # of fillers, where the target lies on a grid\n",
        "",
        ("tests/engine/test_receipt.py::test_in_exact_verify_no_rounding_excuses_a_difference",),
    ),
)
