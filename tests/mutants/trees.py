"""Wrong edits of trees: their shapes, passes, growth and acceptance, and of the head that drafts them."""

from tests.mutants.mutant import Mutant

_TREE, _ACCEPTANCE, _CHOICE = "engine/tree.py", "engine/acceptance.py", "engine/choice.py"
_BRANCHING, _TARGET, _CACHE = "engine/branching.py", "engine/target.py", "engine/cache.py"
_EAGLE, _GROWTH = "engine/drafters/eagle.py", "engine/drafters/growth.py"
_SHAPED, _ACCEPTED = "tests/engine/test_tree.py::", "tests/engine/test_tree_acceptance.py::"
_GROWN, _BRANCHED = "tests/engine/test_growth.py::", "tests/engine/test_branching.py::"
_DRAFTED, _TURNS = "tests/engine/test_eagle.py::", "tests/engine/test_eagle_sessions.py::"
_ENUMERATED = (_ACCEPTED + "test_children_drawn_without_replacement_keep_the_targets_law",)
_WAYS = (_BRANCHED + "test_a_pass_over_a_tree_gives_each_node_the_logits_of_its_way",)
_KEPT = (_BRANCHED + "test_what_is_kept_of_a_tree_is_the_memory_of_a_chain",)
_PLACES = (_GROWN + "test_whether_a_place_is_filled_does_not_hang_on_what_is_drawn_there",)
_LAW_OF_GROWN = (_GROWN + "test_trees_that_are_drawn_and_cut_keep_the_targets_law",)

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a level's rows in the head each a place further",
        "engine/drafters/eagle.py",
        "head.rope if mask is None else by_row(head.rope)",
        "head.rope",
        ("tests/engine/test_eagle.py::test_trees_grow_whatever_way_the_head_turns_places",),
    ),
    Mutant(
        "a mask without ancestors",
        _TREE,
        "reach = own | (below_root[:, None] & reach[mx.maximum(self.parents, 0)])",
        "reach = own",
        (_SHAPED + "test_a_node_reaches_itself_and_its_ancestors",),
    ),
    Mutant(
        "a mask that reaches one level too few",
        _TREE,
        "range(self.depth - 1)",
        "range(self.depth - 2)",
        (_SHAPED + "test_a_node_reaches_itself_and_its_ancestors",),
    ),
    Mutant(
        "children of the root below the first node",
        _TREE,
        "own | (below_root[:, None] & reach[",
        "own | (reach[",
        (_SHAPED + "test_a_node_reaches_itself_and_its_ancestors",),
    ),
    Mutant(
        "a tree that does not see the tokens riding with it",
        _TREE,
        "lower = mx.concatenate([mx.ones((n, seen + lacking), mx.bool_), reach], 1)",
        "lower = mx.concatenate([mx.arange(seen + lacking)[None] + mx.zeros((n, 1)) < seen, reach], 1)",
        (_SHAPED + "test_a_row_sees_what_is_committed_and_its_own_way",),
    ),
    Mutant(
        "positions by row instead of depth",
        _BRANCHING,
        "seen + lacking - 1 + shape.depths]",
        "seen + lacking + mx.arange(shape.size)]",
        _WAYS,
    ),
    Mutant(
        "a window that counts rows",
        _BRANCHING,
        "(self.positions[:, None] - keys[None] < size)",
        "(self.seen + mx.arange(rows)[:, None] - mx.arange(self.seen - shown, self.seen + rows)[None] < size)",
        (_SHAPED + "test_a_window_counts_positions_and_not_rows",),
    ),
    Mutant(
        "a window one too wide over trees",
        _BRANCHING,
        "keys[None] < size)",
        "keys[None] <= size)",
        _WAYS,
    ),
    Mutant(
        "kept in the wrong order",
        _BRANCHING,
        "chosen = mx.array(list(places),",
        "chosen = mx.array(list(places)[::-1],",
        _KEPT,
    ),
    Mutant(
        "refused branches left in the memory",
        _BRANCHING,
        "tuple(places) != tuple(range(len(places)))",
        "len(places) > rows",
        _KEPT,
    ),
    Mutant(
        "features of refused branches kept",
        _TARGET,
        "            self.features.select(self._root, path)\n",
        "            self.features.cut(self._root + len(path))\n",
        _KEPT,
    ),
    Mutant(
        "a tree that nobody kept survives a rewind",
        _TARGET,
        "length, self._root = min(length, self._root), None",
        "self._root = None",
        (_BRANCHED + "test_a_tree_that_nobody_kept_is_forgotten_by_a_rewind",),
    ),
    Mutant(
        "a pass that broke off half remembered",
        _TARGET,
        "            self.cache.reset()\n            if self.features",
        "            if self.features",
        (_BRANCHED + "test_a_pass_that_breaks_off_is_forgotten_with_all_before_it",),
    ),
    Mutant(
        "features lost with the memory of recurrent states",
        _TARGET,
        "self.features.cut(length)",
        "self.features.cut(kept)",
        (_DRAFTED + "test_chains_over_states_that_cannot_drop_tokens_give_the_text",),
    ),
    Mutant(
        "noise not shared at one depth",
        _CHOICE,
        "_positions(position, shape.depth + 1), rows[1])[shape.row_depths]",
        "_positions(position, rows[0]), rows[1])",
        (_BRANCHED + "test_penalties_count_the_way_and_not_the_rows",),
    ),
    Mutant(
        "penalties over rows instead of ways",
        "engine/sampling.py",
        "mx.cumsum(one_hot, 0) if shape is None else shape.reach.astype(mx.float32) @ one_hot",
        "mx.cumsum(one_hot, 0)",
        (_BRANCHED + "test_penalties_count_the_way_and_not_the_rows",),
    ),
    Mutant(
        "the first sibling followed whatever was chosen",
        _ACCEPTANCE,
        "kept = draft == choices[shape.parents + 1]",
        "kept = draft == choices[: draft.size]",
        (_ACCEPTED + "test_match_descends_into_the_child_that_equals_the_choice",),
    ),
    Mutant(
        "p not lowered by a refused sibling",
        _ACCEPTANCE,
        "mx.where(refuse, _renormalised(mx.maximum(p - law, 0.0), p), p))",
        "p)",
        _ENUMERATED,
    ),
    Mutant(
        "the residual of a tree not renormalised",
        _ACCEPTANCE,
        "mx.where(refuse, _renormalised(mx.maximum(p - law, 0.0), p), p))",
        "mx.where(refuse, mx.maximum(p - law, 0.0), p))",
        _ENUMERATED,
    ),
    Mutant("q does not lose a refused sibling", _ACCEPTANCE, "less = _without(law, x)", "less = law", _ENUMERATED),
    Mutant(
        "q without a sibling not renormalised",
        _ACCEPTANCE,
        "return _renormalised(rest, rest)",
        "return rest",
        _ENUMERATED,
    ),
    Mutant(
        "q of the siblings used for the children",
        _ACCEPTANCE,
        "fresh = mx.where(tried, accept, fresh)",
        "fresh = fresh & ~refuse",
        _ENUMERATED,
    ),
    Mutant(
        "a child accepted that cannot have been drawn",
        _ACCEPTANCE,
        "tried = (shape.parents[node] == here) & (law[x] > 0)",
        "tried = shape.parents[node] == here",
        _ENUMERATED,
    ),
    Mutant(
        "places ranked by what was drawn in them",
        _GROWTH,
        "mx.maximum(found.ranked, _LEAST)",
        "mx.maximum(mx.log(found.chances), _LEAST)",
        _PLACES,
    ),
    Mutant(
        "places ranked by what was drawn in them, over whole texts",
        _GROWTH,
        "mx.maximum(found.ranked, _LEAST)",
        "mx.maximum(mx.log(found.chances), _LEAST)",
        (_LAW_OF_GROWN[0] + "[3-1.0]",),
    ),
    Mutant(
        "a child kept before its parent",
        _GROWTH,
        "        ranks = mx.minimum(frontier.ranks[:, None] - _STEP, ranks)\n",
        "",
        _PLACES,
    ),
    Mutant(
        "levels that share their noise",
        _GROWTH,
        "[1 + level * _SALTS + row for row in range(rows)]",
        "[1 + row for row in range(rows)]",
        (_LAW_OF_GROWN[0] + "[3-1.0]",),
    ),
    Mutant(
        "a drafted row that does not see itself",
        _GROWTH,
        "mx.eye(best.size, dtype=mx.bool_)], 1)",
        "mx.zeros((best.size, best.size), mx.bool_)], 1)",
        (_GROWN + "test_a_drafted_row_sees_the_committed_pairs_and_its_own_way",),
    ),
    Mutant(
        "a drafted row one position late",
        _GROWTH,
        "self.known + len(self.levels) - 1, mask",
        "self.known + len(self.levels), mask",
        (_GROWN + "test_a_drafted_row_sees_the_committed_pairs_and_its_own_way",),
    ),
    Mutant(
        "the head's memory keeps what it drafted",
        _EAGLE,
        "        self._cache.trim(self.pairs - known)\n        return draft",
        "        return draft",
        (_DRAFTED + "test_the_heads_cache_holds_the_committed_pairs_and_no_others",),
    ),
    Mutant(
        "the head forgets a pair too few",
        _EAGLE,
        "self._cache.trim(max(self.pairs - max(length - 1, 0), 0))",
        "self._cache.trim(max(self.pairs - max(length, 0), 0))",
        (_TURNS + "test_turns_and_edits_answer_and_draft_like_a_fresh_session",),
    ),
    Mutant(
        "more reached than there are features of",
        _EAGLE,
        "return max(self.pairs, self.features.end if self.features.start <= self.pairs else 0)",
        "return max(self.pairs + 1, self.features.end)",
        (_TURNS + "test_turns_and_edits_answer_and_draft_like_a_fresh_session",),
    ),
    Mutant(
        "penalties of the head blind to its way",
        _GROWTH,
        "counts = counts[row] + (",
        "counts = counts[row] + 0 * (",
        (_DRAFTED + "test_q_is_the_heads_probability_of_each_token",),
    ),
    Mutant(
        "a way cut at eos keeps its nodes",
        "engine/events.py",
        "            path=self.path[:accepted],\n",
        "",
        (_BRANCHED + "test_eos_inside_an_accepted_way_ends_the_reply_there",),
    ),
    Mutant(
        "one place for each text taken for one for each row",
        "engine/rope.py",
        " and (len(x), x.shape[-2]) == (1, offset.size)",
        "",
        ("tests/engine/test_rope.py::test_a_taught_module_takes_rows_and_is_otherwise_as_before",),
    ),
)
