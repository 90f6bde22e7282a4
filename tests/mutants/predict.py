"""Wrong edits of what is foreseen before anything is drafted."""

from tests.mutants.mutant import Mutant

_PREDICT, _APP = "models/predict/", "app/predict/"
_EXACT = "tests/app/test_predict_exact.py::test_predicted_rounds_and_acceptance_are_the_enumerated_ones"
_WALKED, _TOLD = "tests/app/test_predict_walk.py::", "tests/app/test_predict.py::"
_DRAWN = "tests/app/test_predict_drawn.py::"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a draft kept with the drafter's chance",
        _PREDICT + "laws.py",
        "mx.minimum(1.0, qx / px)",
        "mx.minimum(1.0, qx)",
        (_EXACT,),
    ),
    Mutant(
        "coupled choices that agree where both are likely",
        _PREDICT + "laws.py",
        "mx.maximum(p, q * (px / least)[:, None])",
        "mx.maximum(p, q)",
        (_EXACT,),
    ),
    Mutant(
        "a depth judged at the place of the first",
        _PREDICT + "rounds.py",
        "kept[min(depth, depths - 1), depth:]",
        "kept[min(depth, depths - 1), : n - depth]",
        (_EXACT,),
    ),
    Mutant(
        "a draft past the end of the reply",
        _PREDICT + "rounds.py",
        "limit - 1 - np.arange(n)",
        "limit - np.arange(n)",
        (_EXACT,),
    ),
    Mutant(
        "a refused draft that might have been kept",
        _PREDICT + "walk.py",
        "mx.where(self._standing & (mx.sum(rest) > 0), rest, q)",
        "q",
        (_DRAWN + "test_what_is_drawn_given_the_text_is_what_rejection_draws",),
    ),
    Mutant(
        "a step ahead that says the token before",
        _PREDICT + "recital.py",
        "mx.array([self._length])",
        "mx.array([self._length - 1])",
        (_WALKED + "test_a_walk_has_the_rounds_that_writing_has",),
    ),
    Mutant(
        "a head that is read one pair late",
        _PREDICT + "chains.py",
        "read.text.prompt - 2",
        "read.text.prompt - 3",
        (_WALKED + "test_chains_in_one_pass_have_the_rounds_of_the_walk",),
    ),
    Mutant(
        "a law looked at for nothing costs nothing",
        _PREDICT + "walk.py",
        "draft.tokens.size + unsure",
        "draft.tokens.size",
        (_WALKED + "test_a_law_that_was_looked_at_for_nothing_costs_a_step",),
    ),
    Mutant(
        "a token that a gate was asked about is priced as if none was",
        _PREDICT + "walk.py",
        "        if standing.gate is None:\n            self.spent_s -=",
        "        if True:\n            self.spent_s -=",
        (_WALKED + "test_drafts_that_no_gate_is_asked_about_take_less",),
    ),
    Mutant(
        "every plain step at the price of an isolated pass",
        _PREDICT + "tally.py",
        "passes_s -= ahead * (prices.pass_s(1) - prices.plain_s)",
        "passes_s -= 0 * ahead",
        (_WALKED + "test_plain_steps_that_run_ahead_cost_what_they_take",),
    ),
    Mutant(
        "a line that a kill has cut spoils the next",
        _APP + "kept.py",
        'line if new else b"\\n" + line',
        "line",
        (_TOLD + "test_replies_that_are_damaged_are_written_again",),
    ),
    Mutant(
        "drafting where plain decoding is faster",
        _APP + "forecast.py",
        "max((0, *self.lengths), key=self.speedup)",
        "max(self.lengths, key=self.speedup)",
        ("tests/app/test_predict_forecast.py::test_the_best_length_is_the_fastest_and_plain_where_none_is",),
    ),
)
