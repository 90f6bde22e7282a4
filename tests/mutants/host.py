"""Wrong edits of the engine's host, and of going on from what was said."""

from tests.mutants.mutant import Mutant

_ANSWERING, _INBOX, _LINES, _OPENED = (f"app/host/{name}.py" for name in ("answering", "inbox", "lines", "opened"))
_TEXT = "engine/text.py"
_BACK, _ANSWERED = "tests/host/test_falling_back.py::", "tests/host/test_answering.py::"
_READ, _SENT = "tests/host/test_lines.py::", "tests/host/test_hostile.py::"
_ON = "tests/engine/test_going_on.py::"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "falling back says again what was told",
        _ANSWERING,
        "said = turns(self._request.messages), tuple(self._told)",
        "said = turns(self._request.messages), self._request.said",
        (_BACK + "test_the_text_is_the_same_whatever_of_the_drafter_fails",),
    ),
    Mutant(
        "a reply that fell back may be longer",
        _ANSWERING,
        "max_tokens=settings.max_tokens - new",
        "max_tokens=settings.max_tokens",
        (_BACK + "test_the_text_is_the_same_whatever_of_the_drafter_fails",),
    ),
    Mutant(
        "an error of the target is blamed on the drafter",
        _ANSWERING,
        "            if not (drafter.failed or drafter.busy):\n                raise\n",
        "",
        (_ANSWERED + "test_a_conversation_that_does_not_fit_is_refused_and_the_next_one_answered",),
    ),
    Mutant(
        "costs are measured for every reply",
        "app/calibration.py",
        "        if kept is None:\n            kept = self._found",
        "        if True:\n            kept = self._found",
        ("tests/app/test_calibration.py::test_costs_are_measured_once_and_read_back_as_they_were",),
    ),
    Mutant(
        "what passes cost behind much context is what they cost behind little",
        "app/calibration.py",
        "return between(behind(near), behind(far[0]), share)",
        "return behind(near)",
        (
            "tests/app/test_calibration.py::test_costs_lie_on_the_line_between_milestones",
            "tests/app/test_calibration.py::test_a_policy_goes_by_what_passes_cost_behind_its_prompt",
        ),
    ),
    Mutant(
        "passes grow cheaper with the context",
        "engine/costs.py",
        "share * max(0.0, there_s - here_s)",
        "share * (there_s - here_s)",
        ("tests/app/test_calibration.py::test_costs_lie_on_the_line_between_milestones",),
    ),
    Mutant(
        "costs are measured behind more than a context can hold",
        "app/calibration.py",
        "if milestone + _ROWS <= self.room)",
        "if milestone)",
        ("tests/app/test_calibration.py::test_milestones_lie_around_a_context_and_within_the_room",),
    ),
    Mutant(
        "the prompt of a benchmark does not matter to its costs",
        "app/measure.py",
        "calibration.costs(prompt, pause)",
        "calibration.costs(0, pause)",
        ("tests/app/test_calibration.py::test_a_policy_goes_by_what_passes_cost_behind_its_prompt",),
    ),
    Mutant(
        "the terminal's costs are those behind little context",
        "app/conversation.py",
        "len(self.session.tokenizer.chat(messages)) if messages else 0",
        "0",
        ("tests/app/test_interactive.py::test_a_long_prompt_is_measured_for_once",),
    ),
    Mutant(
        "what is known is measured before every reply",
        _ANSWERING,
        "        if opened.is_measured:\n            return\n",
        "",
        (
            _ANSWERED + "test_a_long_prompt_is_measured_for_once_and_then_stays_in_the_cache",
            _ANSWERED + "test_costs_are_measured_once_and_only_for_automatic_lengths",
        ),
    ),
    Mutant(
        "costs are measured on the grid of exact-verify",
        "engine/costs.py",
        "    target.lay(None)\n",
        "",
        ("tests/app/test_bench_exact.py::test_a_long_prompt_is_measured_for_off_the_grid",),
    ),
    Mutant(
        "Ctrl-C waits until costs are measured",
        "app/conversation.py",
        "        if cancelled():\n            raise KeyboardInterrupt\n",
        "        pass\n",
        ("tests/app/test_interactive.py::test_ctrl_c_is_heard_while_a_long_prompt_is_measured_for",),
    ),
    Mutant(
        "an unsupported drafter is never tried again",
        _OPENED,
        ' and self.speculation != "unsupported"',
        "",
        ("tests/host/test_room.py::test_an_unsupported_drafter_is_tried_again_when_it_is_asked_for_again",),
    ),
    Mutant(
        "a stop ends whatever goes on",
        _INBOX,
        "if self._current is not None and self._current.request.id == number:",
        "if self._current is not None:",
        (_READ + "test_the_current_request_is_told_to_stop_and_no_other",),
    ),
    Mutant(
        "room in the queue never comes back",
        _INBOX,
        "                self._size_bytes -= self._current.size_bytes\n",
        "",
        (_READ + "test_what_waits_is_bounded_and_room_comes_back",),
    ),
    Mutant(
        "the rest of a line that is too long is a line",
        _LINES,
        "            skipping = True\n",
        "",
        (_READ + "test_an_endless_line_takes_no_memory_and_the_next_one_is_read",),
    ),
    Mutant(
        "a stop string is not found across a break",
        _TEXT,
        "        self._before = unsure = self._unsure()",
        "        self._before = unsure = 0",
        (_ON + "test_a_stop_string_ends_a_reply_across_the_break_too",),
    ),
    Mutant(
        "a broken character is told anew after a break",
        _TEXT,
        '"".join([stream.push(token) for token in said])',
        '""',
        (_ON + "test_a_stop_string_ends_a_reply_across_the_break_too",),
    ),
)
