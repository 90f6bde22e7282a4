"""Wrong edits of what the clock may change: costs corrected while running, and for whom."""

from tests.mutants.mutant import Mutant

_DRIFT = "tests/engine/test_drift.py::"

MUTANTS = (
    Mutant(
        "a slower machine makes drafts dear",
        "engine/drift.py",
        "self._learn(kind, median(run) - level, len(run))",
        "self._learn(kind, median(run), len(run))",
        (_DRIFT + "test_a_machine_that_is_slower_for_everything_changes_nothing",),
    ),
    Mutant(
        "one late run is believed",
        "engine/drift.py",
        "known + min(max((found if abs(found) > NOTICEABLE else 0.0) - known, -step), step)",
        "found",
        (_DRIFT + "test_a_run_moves_it_by_little_and_all_of_them_by_no_more_than_the_most",),
    ),
    Mutant(
        "what was believed stays believed",
        "engine/drift.py",
        "self._logs[kind] *= FADES",
        "pass",
        (_DRIFT + "test_what_is_believed_fades_where_it_is_not_seen_again",),
    ),
    Mutant(
        "replies at temperature 0 go by the clock",
        "app/options.py",
        "return self.temperatures[0] > 0 and not",
        "return not",
        ("tests/app/test_by_the_clock.py::test_rounds_of_a_conversation_are_timed_only_there",),
    ),
    Mutant(
        "replies of one seed share what the clock said",
        "app/host/answering.py",
        "reproducible=law.seed is not None and not law.fresh,",
        "reproducible=False,",
        (
            "tests/app/test_by_the_clock.py::"
            "test_rounds_of_the_host_are_timed_only_where_the_seed_is_of_this_reply_alone",
        ),
    ),
    Mutant(
        "a conversation draws the same noise again",
        "app/conversation.py",
        "            if self.options.by_the_clock:\n                self.reseed()\n",
        "",
        ("tests/app/test_by_the_clock.py::test_replies_that_share_what_the_clock_said_share_no_noise",),
    ),
    Mutant(
        "the first round of a reply is timed",
        "engine/adaptive.py",
        "self._drift, self._told_s = drift, math.nan",
        "self._drift, self._told_s = drift, 0.0",
        (_DRIFT + "test_the_first_round_of_a_reply_is_neither_timed_nor_spent_on_the_clock",),
    ),
    Mutant(
        "corrected prices are corrected again",
        "engine/adaptive.py",
        "self._price(candidate, drafted, measured=True)",
        "self._price(candidate, drafted)",
        (_DRIFT + "test_what_is_believed_comes_to_what_is_true",),
    ),
    Mutant(
        "the edges of plain runs are timed",
        "engine/adaptive.py",
        "edge = plain is not None and self._planned == self._followed",
        "edge = False",
        (_DRIFT + "test_rounds_at_the_edges_of_a_plain_run_are_not_timed",),
    ),
)
