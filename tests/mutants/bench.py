"""Wrong edits of the benchmark: what is compared with what, what is kept of a run that was cut off, what is drawn."""

from tests.mutants.mutant import Mutant

_VERDICTS, _LEDGER, _SERIES = "app/bench/verdicts.py", "app/bench/ledger.py", "app/bench/series.py"
_TOURNAMENT = "app/bench/tournament.py"
_JUDGED, _RESUMED = "tests/app/test_bench_verdicts.py::", "tests/app/test_bench_resume.py::"
_DRAWN, _EXACT = "tests/app/test_bench_plot.py::", "tests/app/test_bench_exact.py::"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "plain decoding is no rival of auto",
        _VERDICTS,
        "    if plain:\n        lengths.setdefault(0, dict.fromkeys(auto, 1.0))\n",
        "",
        (_JUDGED + "test_plain_decoding_is_a_length_too",),
    ),
    Mutant(
        "medians compared in place of pairs",
        _VERDICTS,
        "median(value / found[key] for key, value in auto.items() if key in found)",
        "(median(auto.values()) or 0.0) / (median(found.values()) or 1.0)",
        (_JUDGED + "test_auto_is_held_against_the_length_that_was_best_in_that_category",),
    ),
    Mutant(
        "the best length is the worst",
        _VERDICTS,
        "    best, found = max(lengths.items()",
        "    best, found = min(lengths.items()",
        (_JUDGED + "test_auto_is_held_against_the_length_that_was_best_in_that_category",),
    ),
    Mutant(
        "exact-verify judged with the usual passes",
        _VERDICTS,
        "(row.temperature, row.proposer, row.exact)",
        "(row.temperature, row.proposer, False)",
        (_JUDGED + "test_exact_verify_is_judged_apart_and_plain_is_none_of_its_lengths",),
    ),
    Mutant(
        "one repeat is as good as all",
        _LEDGER,
        "range(self._repeats)",
        "range(1)",
        (_RESUMED + "test_a_prompt_with_a_repeat_missing_is_held_anew",),
    ),
    Mutant(
        "rows of a conversation that is held anew stay",
        _LEDGER,
        "row for row in before.runs if row.question_id not in asked or (row.question_id, row.temperature) in kept",
        "row for row in before.runs",
        (_RESUMED + "test_a_conversation_of_which_a_turn_is_missing_is_held_anew",),
    ),
    Mutant(
        "goes on with another machine's rows",
        _LEDGER,
        "        _check_same(before.environment, self._environment)\n",
        "",
        (_RESUMED + "test_it_goes_on_only_as_it_began",),
    ),
    Mutant(
        "the order begins anew",
        "app/bench/__init__.py",
        "    games.begun = kept.heats\n",
        "",
        (_RESUMED + "test_the_order_goes_on_rotating",),
    ),
    Mutant(
        "nothing is on disk before the end",
        _LEDGER,
        "            self.save(interrupted=True)\n",
        "            pass\n",
        (_RESUMED + "test_what_was_cut_off_goes_on_and_what_was_measured_stays",),
    ),
    Mutant(
        "exact-verify is held against the usual plain decoding",
        _TOURNAMENT,
        "replies[PLAIN_EXACT if contestant.exact else PLAIN]",
        "replies[PLAIN]",
        (_EXACT + "test_everyone_decodes_in_exact_verify_too_to_the_last_bit",),
    ),
    Mutant(
        "other bits are no failure",
        "app/bench/rows.py",
        "return self.same_bits is False or (not self.peer",
        "return (not self.peer",
        (_EXACT + "test_a_bit_that_differs_is_a_failure",),
    ),
    Mutant(
        "exact contestants decode as usual",
        "app/bench/contestants.py",
        "settings = replace(settings, exact=self.exact)",
        "settings = replace(settings, exact=False)",
        (_EXACT + "test_everyone_decodes_in_exact_verify_too_to_the_last_bit",),
    ),
    Mutant(
        "the plot shows warm replies too",
        _SERIES,
        "if row.temperature == coolest and not row.exact]",
        "if not row.exact]",
        (_DRAWN + "test_speedups_are_medians_of_the_coolest_replies_by_category",),
    ),
    Mutant(
        "acceptance is of the lengths that auto chose",
        _SERIES,
        "length = AUTO if longest < 2 and any(row.draft_length == AUTO for row in mine) else longest",
        "length = AUTO",
        (_DRAWN + "test_acceptance_is_of_the_longest_fixed_length",),
    ),
    Mutant(
        "rounds cost what they verify",
        _SERIES,
        "if length and not drafting else _round_s(own, length)",
        "if length else _round_s(own, length)",
        (_DRAWN + "test_costs_are_in_plain_passes_and_end_where_measuring_did",),
    ),
    Mutant(
        "one token is drawn at the price of a gate",
        _SERIES,
        "return own.ungated_s(length) if length == 1 else own.round_s(length)",
        "return own.round_s(length)",
        (_DRAWN + "test_one_token_costs_what_it_does_without_a_gate_and_more_what_it_does_with_one",),
    ),
    Mutant(
        "a benchmark goes on with other weights",
        "app/bench/__init__.py",
        '{**environment.describe(options, target), "weights": environment.weights(options, target)}',
        "environment.describe(options, target)",
        ("tests/app/test_bench_resume.py::test_other_weights_under_the_same_name_are_not_gone_on_with",),
    ),
)
