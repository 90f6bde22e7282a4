"""Wrong edits of how EAGLE-3 heads begin and are unrolled in training."""

from tests.mutants.mutant import Mutant

_FIT = "models/fit/"
_UNROLLED = ("tests/models/fit/test_unrolled.py::test_unrolled_training_sees_what_drafting_sees",)
_INDUCTION = ("tests/models/fit/test_induction.py::test_it_looks_where_the_last_token_was_read_and_says_what_followed",)

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a depth sees features it will not have",
        _FIT + "eagle3.py",
        "places[:, None] - depth",
        "places[:, None]",
        _UNROLLED,
    ),
    Mutant(
        "a depth's own keys from the wrong place",
        _FIT + "eagle3.py",
        "own = shifted(self._keys[step], depth - step, 2)",
        "own = shifted(self._keys[step], 0, 2)",
        _UNROLLED,
    ),
    Mutant(
        "the head's output is not handed on",
        _FIT + "eagle3.py",
        "hidden = shifted(hidden, 1, 1)",
        "hidden = shifted(hidden, 0, 1)",
        _UNROLLED,
    ),
    Mutant(
        "a head begins without its induction head",
        _FIT + "fitting.py",
        "lambda place: states(corpus.training[place]), plan.begin_tokens",
        "lambda place: states(corpus.training[place]), 0",
        ("tests/models/fit/test_fitting.py::test_a_head_begins_with_an_induction_head",),
    ),
    Mutant(
        "an induction head that looks for the token that follows",
        _FIT + "induction.py",
        "k[dims, hidden:] = match[1]",
        "k[dims, :hidden] = match[0]",
        _INDUCTION,
    ),
    Mutant(
        "an induction head among pairs that turn fast",
        _FIT + "induction.py",
        "np.arange(pairs - max(1, round(_SLOW * pairs)), pairs)",
        "np.arange(max(1, round(_SLOW * pairs)))",
        _INDUCTION,
    ),
    Mutant(
        "the code that keys read is not put into the fused state",
        _FIT + "induction.py",
        "size * free @ decoder.T",
        "0 * free @ decoder.T",
        _INDUCTION,
    ),
    Mutant(
        "a norm's weight is forgotten where the induction head reads",
        _FIT + "induction.py",
        "return np.where(useful, 1 / np.where(useful, numbers, 1), 0)",
        "return np.where(useful, np.where(useful, numbers, 1), 0)",
        _INDUCTION,
    ),
    Mutant(
        "the target's attention is not copied",
        _FIT + "likeness.py",
        "own[name].weight = mx.concatenate([kept, weight[rows:]])",
        "pass",
        ("tests/models/fit/test_induction.py::test_the_other_heads_look_as_the_targets_last_layer_does",),
    ),
    Mutant(
        "a fit that was stopped before its first step begins anew",
        _FIT + "fitting.py",
        "            trainer.save()\n        yield",
        "        yield",
        ("tests/models/fit/test_fitting.py::test_a_head_that_was_begun_is_not_begun_again",),
    ),
)
