"""Wrong edits of receipts: what is held against what, what is called identical, and what is kept of it."""

from tests.mutants.mutant import Mutant

_RECHECK, _ROUNDING, _CHECK = "engine/recheck.py", "engine/rounding.py", "app/host/verifying.py"
_FOUND, _ENDS = "tests/engine/test_recheck.py::", "tests/engine/test_recheck_ends.py::"
_CHECKED, _REFUSED = "tests/host/test_verifying.py::", "tests/app/test_verify_refused.py::"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "the receipt measures noise before the temperature",
        _ROUNDING,
        "    noise /= chooser.sampling.temperature or 1.0\n",
        "",
        ("tests/engine/test_receipt.py::test_a_flip_by_rounding_is_a_near_tie_at_every_temperature",),
    ),
    Mutant(
        "a check goes on in the caches of the reply",
        _ROUNDING,
        "    target.rewind(0)\n    target.cache.reset()\n",
        "    target.rewind(0)\n",
        (_FOUND + "test_what_a_wrong_rewind_left_behind_is_found",),
    ),
    Mutant(
        "a reply may end where it likes",
        _RECHECK,
        "    goes_on = ends.whole and end is None and len(reply) < ends.longest\n",
        "    goes_on = False\n",
        (_ENDS + "test_a_reply_that_says_it_is_whole_must_have_a_reason_to_end",),
    ),
    Mutant(
        "penalties of a check forget the reply",
        _RECHECK,
        "        self._context = self._context.extended(mx.array([token], mx.int32))\n",
        "",
        (_FOUND + "test_a_sound_reply_is_identical",),
    ),
    Mutant(
        "a near-tie is called identical",
        "engine/receipt.py",
        'return self.promise == "tokens" and not self.differences',
        'return self.promise == "tokens" and not self.failures',
        (_FOUND + "test_a_flip_of_twins_is_a_near_tie_and_never_identical",),
    ),
    Mutant(
        "another prompt is checked",
        _CHECK,
        'digest in ("", digests.of_prompt(self._prompt))',
        "True",
        (_CHECKED + "test_what_cannot_be_checked_is_refused_with_the_reason[another digest]",),
    ),
    Mutant(
        "other weights are blamed",
        _CHECK,
        "        if digest and digest != self._opened.digest:\n",
        "        if False:\n",
        (_REFUSED + "test_weights_that_have_changed_are_not_called_a_failure_of_the_reply",),
    ),
    Mutant(
        "a model is known by its headers",
        "app/digests.py",
        "            yield file.read(_SAMPLE)\n",
        '            yield b""\n',
        ("tests/app/test_digests.py::test_other_weights_are_another_model",),
    ),
    Mutant(
        "what could not be checked is fine",
        "app/verify/replies.py",
        'return self.kept is not None and self.kept.receipt.verdict != "failure"',
        'return self.kept is None or self.kept.receipt.verdict != "failure"',
        (_REFUSED + "test_without_its_law_nobody_can_say",),
    ),
    Mutant(
        "an imported receipt counts as one of here",
        "app/store/exchange.py",
        "msgspec.structs.replace(receipt, elsewhere=True)",
        "receipt",
        ("tests/store/test_receipts.py::test_an_export_has_receipts_and_an_import_knows_that_they_are_claims",),
    ),
    Mutant(
        "a check keeps a reply waiting",
        "app/window/controller/events.py",
        "        self._verifier.stop()\n        self._counter.forget()\n",
        "        self._counter.forget()\n",
        ("tests/window/control/test_verifying.py::test_a_reply_that_begins_ends_the_check",),
    ),
    Mutant(
        "a reply that went on still counts as checked",
        "app/records.py",
        "tokens is not None and self.receipt.receipt.tokens != tokens",
        "tokens is not None and self.receipt.receipt.tokens > tokens",
        ("tests/window/transcript/test_receipts.py::test_a_reply_that_went_on_is_not_called_verified",),
    ),
    Mutant(
        "a receipt is exported without what it is of",
        "app/store/exchange.py",
        "record.receipt if rounds else None,",
        "record.receipt,",
        ("tests/store/test_receipts.py::test_a_reply_whose_rounds_are_damaged_is_exported_without_its_receipt",),
    ),
    Mutant(
        "one file that takes no receipts keeps others from theirs",
        "app/verify/__init__.py",
        "            refused.append(error)\n",
        "            raise\n",
        ("tests/app/test_verify.py::test_what_one_file_refuses_the_others_take_and_the_table_is_told",),
    ),
)
