"""Wrong edits of what target and drafters remember."""

from tests.mutants.mutant import Mutant

_CACHE, _SLIDING, _TARGET = "engine/cache.py", "engine/sliding.py", "engine/target.py"
_DRAFT, _LOOKUP = "engine/drafters/draft_model.py", "engine/drafters/prompt_lookup.py"
_CACHED = "tests/engine/test_cache.py::"
_LIMITS = "tests/engine/test_rewind_limits.py::"
_DRAFTED = "tests/engine/test_draft_model.py::"
_LOOKED_UP = "tests/engine/test_prompt_lookup.py::"
_NO_TRACE = (_CACHED + "test_a_refused_draft_leaves_no_trace",)

MUTANTS: tuple[Mutant, ...] = (
    Mutant("snapshot not restored", _CACHE, "vars(leaf).update(_fresh(state))", "_fresh(state)", _NO_TRACE),
    Mutant(
        "snapshot shares handles",
        _CACHE,
        "        return mx.array(value)\n",
        "        return value\n",
        (_LIMITS + "test_a_mark_is_not_what_the_layers_write_to",),
    ),
    Mutant(
        "a rewind drops one token too few",
        _CACHE,
        "if self._drop(self.length - length):",
        "if self._drop(self.length - length - 1):",
        _NO_TRACE,
    ),
    Mutant(
        "a mark behind the place asked for",
        _CACHE,
        "            return length\n        self._marks = [m for m in self._marks if m.length <= length]",
        "            return length\n        self._marks = [m for m in self._marks if m.length <= length + 1]",
        (_CACHED + "test_going_back_any_distance_is_exact",),
    ),
    Mutant(
        "a pinned place lost to the first draft",
        _CACHE,
        "pinned = pinned or any(m.pinned and m.length == self.length for m in self._marks)",
        "pinned = bool(pinned)",
        ("tests/engine/test_session.py::test_an_edit_of_the_last_message_keeps_everything_before_it",),
    ),
    Mutant(
        "windows not saved at a pinned place",
        _CACHE,
        "if _kind(leaf).drops and not (pinned and windowed):",
        "if _kind(leaf).drops:",
        ("tests/engine/test_session.py::test_a_pinned_place_outlives_the_slack_of_a_window",),
    ),
    Mutant(
        "a chunk that is no longer whole",
        _CACHE,
        "return bool(target // leaf.chunk_size * leaf.chunk_size >= leaf.start_position)",
        "return True",
        (_LIMITS + "test_chunked_attention_goes_back_to_chunks_that_are_whole",),
    ),
    Mutant(
        "a concatenating cache that keeps refused rows",
        _CACHE,
        "_Kind(True, lambda leaf, count: True, _cut)",
        "_Kind(True, lambda leaf, count: True, _trim)",
        (_LIMITS + "test_a_concatenating_cache_forgets_what_was_taken_back",),
    ),
    Mutant(
        "window shown one token too wide",
        _SLIDING,
        "n = keys.shape[2]\n        before = min(self.offset, self.max_size - 1)",
        "n = keys.shape[2]\n        before = min(self.offset, self.max_size)",
        (_CACHED + "test_the_window_shows_what_rotating_shows_and_holds_slack",),
    ),
    Mutant(
        "window mask off by one",
        _SLIDING,
        "create_causal_mask(N, before, window_size=window)",
        "create_causal_mask(N, before, window_size=window - 1)",
        (_CACHED + "test_masks_let_each_query_see_its_window",),
    ),
    Mutant(
        "window without slack",
        _SLIDING,
        "kept = min(end, self.max_size - 1 + SLACK)",
        "kept = min(end, self.max_size - 1)",
        (_CACHED + "test_the_window_shows_what_rotating_shows_and_holds_slack",),
    ),
    Mutant(
        "window dropped past what is held",
        _SLIDING,
        "max(0, length - (self.max_size - 1)) >= self.start",
        "max(0, length - (self.max_size - 1)) >= self.start - 1",
        (_LIMITS + "test_a_window_says_truly_what_it_can_drop",),
    ),
    Mutant(
        "the place before a draft not marked",
        _TARGET,
        "        if draft.size:\n            self.cache.mark()\n",
        "        if draft.size:\n",
        (_LIMITS + "test_a_refusal_behind_drafts_kept_whole_costs_its_own_pass_only",),
    ),
    Mutant(
        "passes grow with refusals",
        _TARGET,
        "len(lacking) > REPLAY_LIMIT",
        "len(lacking) > 10 * REPLAY_LIMIT",
        (_CACHED + "test_a_run_of_refusals_does_not_widen_the_pass",),
    ),
    Mutant(
        "logits of the replayed prefix taken for the draft's",
        _TARGET,
        "return logits[len(lacking) - 1 :], rows.size",
        "return logits[: draft.size + 1], rows.size",
        _NO_TRACE,
    ),
    Mutant(
        "drafter not told the last token",
        _DRAFT,
        "self._readable(standing.tokens)",
        "[*self._readable(standing.tokens[:-1]), 0]",
        (_DRAFTED + "test_a_drafter_that_is_the_target_is_never_refused",),
    ),
    Mutant(
        "drafter keeps a refused token",
        _DRAFT,
        "self.model.rewind(length)",
        "self.model.rewind(length + 1)\n        self.model.cache.length = min(self.model.length, length)",
        (_DRAFTED + "test_every_round_drafts_what_a_fresh_drafter_would",),
    ),
    Mutant(
        "padded vocabulary not masked",
        _DRAFT,
        "constant_values=-math.inf",
        "constant_values=0.0",
        (_DRAFTED + "test_only_shared_ids_are_possible_and_each_row_is_a_law",),
    ),
    Mutant(
        "an id read past the drafter's embeddings",
        _DRAFT,
        "return [min(token, last) for token in tokens]",
        "return [token for token in tokens if last]",
        (_DRAFTED + "test_an_id_that_the_drafter_has_no_embedding_for_is_read_as_one_it_has",),
    ),
    Mutant(
        "a draft drawn with one position's noise",
        "engine/drafters/chain.py",
        "position, ids, len(drawn))",
        "position, ids)",
        ("tests/engine/test_choice.py::test_coupling_accepts_more_than_independent_noise",),
    ),
    Mutant(
        "penalties blind to the draft itself",
        "engine/drafters/chain.py",
        "context = context.extended(one.tokens)",
        "context = context.extended(one.tokens[:0])",
        (_DRAFTED + "test_penalties_count_the_drafted_tokens_too",),
    ),
    Mutant(
        "prompt-lookup index not rewound",
        _LOOKUP,
        "                self._ends[gram].pop()\n",
        "                self._ends[gram] = self._ends[gram][:]\n",
        (_LOOKED_UP + "test_an_index_that_was_rewound_is_one_built_afresh",),
    ),
    Mutant(
        "an older occurrence wins",
        _LOOKUP,
        "in (ends or [])[-2:] if",
        "in (ends or [])[:2] if",
        (_LOOKED_UP + "test_it_proposes_what_a_search_of_the_text_finds",),
    ),
    Mutant(
        "lookup quiet though it has something",
        _LOOKUP,
        "return self.hints(standing) == (0.0,)",
        "return True",
        (_LOOKED_UP + "test_it_is_quiet_where_nothing_repeats",),
    ),
    Mutant(
        "the shortest suffix first",
        _LOOKUP,
        "range(longest, shortest - 1, -1)",
        "range(shortest, longest + 1)",
        (_LOOKED_UP + "test_the_longest_suffix_wins_over_a_later_shorter_one",),
    ),
)
