"""Wrong edits of the Models page: its sections, its downloads, what it offers."""

from tests.mutants.mutant import Mutant

_AT = "app/window/models/"
_PAGE, _PULLS, _SHELF = (f"tests/window/models/test_{name}.py::" for name in ("page", "pulls", "shelf"))

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "two downloads go on at once",
        _AT + "pulling.py",
        "        if self._process is not None:\n            return\n        waiting",
        "        waiting",
        (_PULLS + "test_one_is_downloaded_at_a_time_in_the_order_of_asking",),
    ),
    Mutant(
        "cancelling only pauses",
        _AT + "pulling.py",
        "        self._unwanted.add(repo)\n",
        "",
        (_PULLS + "test_cancel_pauses_waits_and_throws_away",),
    ),
    Mutant(
        "leaving kills a download",
        _AT + "pulling.py",
        "        process.terminate()\n        if not process",
        "        process.kill()\n        if not process",
        (_PULLS + "test_leaving_pauses_what_goes_on",),
    ),
    Mutant(
        "a child that dies is forgotten",
        _AT + "pulling.py",
        "            download.vanish(trouble)\n",
        "            pass\n",
        (_PULLS + "test_a_child_that_dies_has_failed",),
    ),
    Mutant(
        "a pair has a speed-up whoever it was measured with",
        _AT + "shelf.py",
        "for one in entry.measured if one.drafter == drafter)",
        "for one in entry.measured)",
        (_SHELF + "test_a_speed_up_is_of_the_pair_that_was_measured",),
    ),
    Mutant(
        "what is too large is offered among what fits",
        _AT + "shelf.py",
        'if row.section != MORE or row.room != "no" or not only_fitting]',
        "]",
        (_SHELF + "test_what_fits_is_a_matter_of_the_machine",),
    ),
    Mutant(
        "a model that does not fit can be used",
        _AT + "acting.py",
        'row.room != "no" and not used, main=True',
        "not used, main=True",
        (_PAGE + "test_a_model_that_does_not_fit_is_not_used_and_says_what_would",),
    ),
    Mutant(
        "deleting does not ask",
        _AT + "window.py",
        "            self.library.plan_removal(row, lambda removal: self._ask_to_delete(row, removal), self._fail)",
        "            self.library.remove(row, lambda gone: self._deleted(row, gone), self._fail)",
        (_PAGE + "test_a_model_that_is_kept_stays",),
    ),
    Mutant(
        "an answer with exit code 1 is none",
        _AT + "asking.py",
        "if answer is None:",
        'if answer is None or trouble != "it ended without an answer":',
        (_PAGE + "test_an_answer_is_heard_whatever_is_complained_of",),
    ),
    Mutant(
        "the button of a drafter is a window for a moment",
        _AT + "drafting.py",
        '        self.button.setAccessibleName(f"{deed}: {offer.title}")',
        '        self.button.setVisible(bool(deed))\n        self.button.setAccessibleName(f"{deed}: {offer.title}")',
        (_PAGE + "test_every_control_is_named_and_reached",),
    ),
)
