"""Wrong edits of the law, its noise and the acceptance rules."""

from tests.mutants.mutant import Mutant

_ACCEPTANCE, _CHOICE, _SAMPLING = "engine/acceptance.py", "engine/choice.py", "engine/sampling.py"
_ENUMERATED = "tests/engine/test_acceptance.py::"
_CHOSEN = "tests/engine/test_choice.py::"
_SHAPED = "tests/engine/test_sampling.py::"
_INDEPENDENT = "tests/engine/test_independence.py::"
_PAPERS = (_ENUMERATED + "test_rejection_is_the_papers_rule_piece_by_piece",)
_WHOLE_TEXTS = (_CHOSEN + "test_rejection_keeps_the_law_of_whole_texts",)
_ORACLE = (_SHAPED + "test_the_law_is_the_oracles",)

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "p and q swapped in the ratio",
        _ACCEPTANCE,
        "ratio = ratio - at(logq, draft)",
        "ratio = at(logq, draft) - ratio",
        _PAPERS,
    ),
    Mutant(
        "residual is p",
        _ACCEPTANCE,
        "_renormalised(mx.maximum(p - q_row, 0.0), p)",
        "_renormalised(p, p)",
        (_ENUMERATED + "test_the_residual_is_normalised_and_free_of_what_the_drafter_over_weighs",),
    ),
    Mutant(
        "residual is p, over whole texts",
        _ACCEPTANCE,
        "_renormalised(mx.maximum(p - q_row, 0.0), p)",
        "_renormalised(p, p)",
        (_WHOLE_TEXTS[0] + "[draft model]",),
    ),
    Mutant(
        "residual not clipped",
        _ACCEPTANCE,
        "_renormalised(mx.maximum(p - q_row, 0.0), p)",
        "_renormalised(mx.abs(p - q_row), p)",
        _PAPERS,
    ),
    Mutant(
        "residual not renormalised",
        _ACCEPTANCE,
        "mass / mx.where(total > 0, total, 1.0)",
        "mass",
        (_ENUMERATED + "test_the_residual_is_normalised_and_free_of_what_the_drafter_over_weighs",),
    ),
    Mutant("residual against the first row of q", _ACCEPTANCE, "mx.exp(logq[place])", "mx.exp(logq[0])", _PAPERS),
    Mutant(
        "residual does not know the refused token of a point mass",
        _ACCEPTANCE,
        "== draft[place] if",
        "== draft[0] if",
        (_ENUMERATED + "test_a_point_mass_commits_the_targets_law",),
    ),
    Mutant(
        "bonus drawn from the residual of the last row",
        _ACCEPTANCE,
        "return mx.where(n < k, row.astype(mx.float32), 0.0)",
        "return row.astype(mx.float32)",
        _PAPERS,
    ),
    Mutant(
        "bonus and correction by argmax",
        _ACCEPTANCE,
        "return mx.argmax(_log(law) + gumbel).astype(mx.int32)",
        "return mx.argmax(_log(law)).astype(mx.int32)",
        (_WHOLE_TEXTS[0] + "[draft model]",),
    ),
    Mutant(
        "a chance of zero accepted",
        _ACCEPTANCE,
        "uniforms < accept_probability",
        "uniforms <= accept_probability",
        (_ENUMERATED + "test_a_uniform_equal_to_the_chance_refuses",),
    ),
    Mutant(
        "acceptance goes on behind a refusal",
        _ACCEPTANCE,
        "mx.sum(mx.cumprod(kept.astype(mx.int32)))",
        "mx.sum(kept.astype(mx.int32))",
        (_ENUMERATED + "test_match_keeps_the_agreeing_prefix",),
    ),
    Mutant(
        "the target's token one place early",
        _ACCEPTANCE,
        "mx.arange(k + 1) == n, token",
        "mx.arange(k + 1) == n - 1, token",
        (_ENUMERATED + "test_with_last_writes_the_targets_token_behind_the_kept_prefix",),
    ),
    Mutant(
        "noise keyed by round",
        _CHOICE,
        "self.noise.gumbel(Stream.CHOICE, _positions(position, rows[0])",
        "self.noise.gumbel(Stream.CHOICE, _positions(0, rows[0])",
        (_CHOSEN + "test_coupled_text_is_the_same_for_every_length",),
    ),
    Mutant(
        "draft noise one position late",
        _CHOICE,
        "own = [position + place] if self.matches",
        "own = [position + place + 1] if self.matches",
        (_CHOSEN + "test_coupling_accepts_more_than_independent_noise",),
    ),
    Mutant(
        "drafts under rejection share the target's noise",
        _CHOICE,
        "stream = Stream.CHOICE if self.matches else Stream.DRAFT",
        "stream, salt = Stream.CHOICE, 0",
        (_INDEPENDENT + "test_first_tokens_have_the_targets_law",),
    ),
    Mutant(
        "acceptance noise keyed by round",
        _CHOICE,
        "self.noise.uniform(Stream.ACCEPT, _positions(position, tokens.size))",
        "self.noise.uniform(Stream.ACCEPT, _positions(0, tokens.size))",
        (_INDEPENDENT + "test_whether_a_draft_is_kept_is_its_chance_whatever_came_before",),
    ),
    Mutant(
        "streams of noise are one",
        _SAMPLING,
        "self._words[stream] ^",
        "self._words[0] ^",
        (_SHAPED + "test_noise_differs_by_seed_stream_and_position",),
    ),
    Mutant(
        "seeds beyond 32 bits are folded",
        _SAMPLING,
        "z = (seed + (stream + 1) * _GOLDEN)",
        "z = ((seed & 0xFFFFFFFF) + (stream + 1) * _GOLDEN)",
        (_SHAPED + "test_noise_differs_by_seed_stream_and_position",),
    ),
    Mutant(
        "every row of a pass uses the counts of the first",
        _SAMPLING,
        "seen = mx.cumsum(one_hot, 0) if",
        "seen = 0 * one_hot if",
        (_SHAPED + "test_a_verify_row_has_the_law_of_the_single_step",),
    ),
    Mutant(
        "penalties over a truncated context",
        _SAMPLING,
        "mx.array(list(tokens), mx.int32)",
        "mx.array(list(tokens)[-8:], mx.int32)",
        ("tests/engine/test_loop.py::test_penalties_see_the_whole_context_in_both_ways",),
    ),
    Mutant(
        "a round's tokens counted but the last",
        _SAMPLING,
        "self.counts.at[tokens.astype(mx.int32)]",
        "self.counts.at[tokens.astype(mx.int32)[:-1]]",
        (_SHAPED + "test_extending_the_context_is_counting_from_scratch",),
    ),
    Mutant("repetition rewards", _SAMPLING, "mx.where(logits > 0, logits /", "mx.where(logits < 0, logits /", _ORACLE),
    Mutant("top-p without the token at the edge", _SAMPLING, "inclusive=False", "inclusive=True", _ORACLE),
    Mutant("top-k one too many", _SAMPLING, "mx.topk(logprobs, s.top_k,", "mx.topk(logprobs, s.top_k + 1,", _ORACLE),
    Mutant(
        "min-p of the law before temperature",
        _SAMPLING,
        "math.log(s.min_p))",
        "math.log(s.min_p) / s.temperature)",
        _ORACLE,
    ),
    Mutant(
        "a filter that does not renormalise",
        _SAMPLING,
        "return _log_softmax(mx.where(logprobs >= edge, logprobs, -math.inf))",
        "return mx.where(logprobs >= edge, logprobs, -math.inf)",
        _ORACLE,
    ),
)
