"""Wrong edits of the race: how it is held, kept, replayed, shown and drawn."""

from tests.mutants.mutant import Mutant

_CONTEST, _REPLAYING, _RESULTS = (f"app/race/{name}.py" for name in ("contest", "replaying", "results"))
_FAULTS, _WORDS, _ASKING = "app/race/faults.py", "app/race/words.py", "app/window/race/asking.py"
_HELD, _SHOWN = "tests/race/test_contest.py::", "tests/race/test_replaying.py::"
_KEPT, _BOARD = "tests/race/test_document.py::", "tests/window/race/test_board.py::"
_WINDOW, _ASKED = "tests/window/race/test_window.py::", "tests/window/race/test_asking.py::"
_PICTURES = "tests/window/race/test_pictures.py::"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "one side of a race always runs first",
        _CONTEST,
        "for side in (0, 1) if number % 2 else (1, 0):",
        "for side in (0, 1):",
        (_HELD + "test_both_sides_are_warmed_up_and_then_alternate",),
    ),
    Mutant(
        "a race is not warmed up",
        _CONTEST,
        "for number in range(asked.runs + 1):",
        "for number in range(1, asked.runs + 1):",
        (_HELD + "test_both_sides_are_warmed_up_and_then_alternate",),
    ),
    Mutant(
        "plain decoding draws by a rule of its own",
        _CONTEST,
        "changed(side, acceptance=rules[0]) if side.plain else side for side in sides",
        "side for side in sides",
        (_HELD + "test_plain_draws_by_the_rule_of_the_side_it_is_held_against",),
    ),
    Mutant(
        "tokens count as identical before the slower side has shown them",
        _REPLAYING,
        "identical = min(self._same, *(pane.tokens for pane in panes))",
        "identical = min(self._same, max(pane.tokens for pane in panes))",
        (_SHOWN + "test_tokens_are_counted_as_identical_only_once_both_have_shown_them",),
    ),
    Mutant(
        "a difference shows before both have come to it",
        _REPLAYING,
        "all(pane.tokens > position or pane.done for pane in panes)",
        "any(pane.tokens > position or pane.done for pane in panes)",
        (_BOARD + "test_a_difference_is_marked_in_both_once_both_have_shown_it",),
    ),
    Mutant(
        "the best pair of runs stands for the race",
        _RESULTS,
        "shown = ranked[(len(ranked) - 1) // 2]",
        "shown = ranked[-1]",
        (_SHOWN + "test_the_pair_that_is_replayed_has_the_median_speedup",),
    ),
    Mutant(
        "a receipt that contradicts its runs is believed",
        _FAULTS,
        "        if not _is_of(receipt,",
        "        if False and not _is_of(receipt,",
        (_KEPT + "test_a_hostile_race_is_refused_in_a_line",),
    ),
    Mutant(
        "a race with a near-tie is called identical",
        _WORDS,
        "    if not apart:\n",
        "    if not any(receipt.failed for receipt in receipts):\n",
        (_KEPT + "test_the_verdict_is_the_worst_that_a_receipt_says",),
    ),
    Mutant(
        "the last moment of a race cannot be reached",
        "app/window/race/controls.py",
        "math.ceil(end_s * STEPS_A_S)",
        "round(end_s * STEPS_A_S)",
        (_WINDOW + "test_the_end_of_the_timeline_is_the_end_of_the_race",),
    ),
    Mutant(
        "what was written stays when a replay goes back",
        "app/window/race/script.py",
        "if self._growing is None or tokens < self._shown:",
        "if self._growing is None:",
        (_BOARD + "test_whatever_was_shown_before_the_same_time_looks_the_same",),
    ),
    Mutant(
        "a replay does not say that it is slowed",
        "app/window/race/window.py",
        "            self.board.set_pace(speed)\n",
        "            pass\n",
        (_WINDOW + "test_slower_is_slower_and_says_so",),
    ),
    Mutant(
        "a race goes on measuring without its window",
        "app/window/race/window.py",
        "        self.asker.stop()\n",
        "",
        (_ASKED + "test_a_race_ends_with_its_window",),
    ),
    Mutant(
        "a race waits for ever on a host that died",
        _ASKING,
        "        engine.died.connect(self._die)\n",
        "",
        (_ASKED + "test_a_host_that_dies_in_the_middle_ends_the_race",),
    ),
    Mutant(
        "an animation leaves out the time of frames that look alike",
        "app/window/race/pictures.py",
        "            made.stays_ms[-1] += moment.stays_ms\n",
        "            pass\n",
        (_PICTURES + "test_a_film_runs_from_nothing_to_the_end_and_stays_there",),
    ),
    Mutant(
        "a race that cannot be kept is not told",
        "app/race/command.py",
        "    finally:  # it was measured, whatever the disk says\n        _tell(document, args, stopped)\n",
        "    finally:\n        pass\n    _tell(document, args, stopped)\n",
        ("tests/race/test_command.py::test_a_race_is_told_though_it_cannot_be_kept_or_drawn",),
    ),
    Mutant(
        "a race that was stopped ends as if it were whole",
        "app/race/command.py",
        "    return INTERRUPTED if stopped else OK\n",
        "    return OK\n",
        ("tests/race/test_command.py::test_a_race_that_is_stopped_says_so",),
    ),
    Mutant(
        "only the heavier drafter of a race must fit",
        "app/fits.py",
        "list(dict.fromkeys(named))",
        "named[:1]",
        (_HELD + "test_drafters_that_do_not_fit_together_are_refused_before_they_are_opened",),
    ),
    Mutant(
        "a race begins while its picture is drawn",
        "app/window/race/window.py",
        "if why := DRAWING if self.exporter.busy else self._wait():",
        "if why := self._wait():",
        (_WINDOW + "test_a_race_waits_for_what_it_would_be_slowed_down_by",),
    ),
    Mutant(
        "Ctrl-Return starts a second race",
        "app/window/race/form.py",
        "        if self._busy:\n            return\n",
        "",
        (_WINDOW + "test_while_a_race_is_measured_no_key_starts_opens_or_replays_another",),
    ),
    Mutant(
        "a race is held on whatever model is loaded",
        _ASKING,
        "if there is None or (there.target, there.context) != (self._pair.target, self._pair.context):",
        "if there is None:",
        (_ASKED + "test_the_target_of_the_chat_is_raced_whichever_is_loaded",),
    ),
    Mutant(
        "a reply is verified beside a race",
        "app/window/controller/verifier.py",
        "self._check is not None or self._engine.racing",
        "self._check is not None",
        ("tests/window/control/test_verifying.py::test_while_a_race_is_measured_nothing_is_checked_loaded_or_let_go",),
    ),
)
