"""Wrong edits of the loop, the session, texts, numbers and policy."""

from tests.mutants.mutant import Mutant

_LOOP, _SESSION, _TEXT = "engine/loop.py", "engine/session.py", "engine/text.py"
_METRICS = "engine/metrics.py"
_LOOPED = "tests/engine/test_loop.py::"
_TOLD = "tests/engine/test_text.py::"
_TURNS, _ENDS = "tests/engine/test_session.py::", "tests/engine/test_session_ends.py::"
_COUNTED = "tests/engine/test_metrics.py::"
_ANY_ROUNDS = (_TOLD + "test_the_reply_is_the_same_for_all_rounds",)

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a reply goes on though Stop was heard while the drafter read the prompt",
        _SESSION,
        "    return not heard\n",
        "    return True\n",
        (_ENDS + "test_cancelling_while_the_drafter_reads_the_prompt_ends_the_reply",),
    ),
    Mutant(
        "chances that are no numbers are told",
        "engine/rounds.py",
        "        need_numbers(chances[self.depth + 1 :])\n",
        "",
        (_LOOPED + "test_a_drafter_whose_chances_are_no_numbers_is_damaged",),
    ),
    Mutant(
        "target keeps a refused token",
        _LOOP,
        "    target.rewind(certain)\n",
        "    target.rewind(certain + 1)\n    target.cache.length = min(target.length, certain)\n",
        (_LOOPED + "test_any_pattern_of_mistakes_gives_the_same_text",),
    ),
    Mutant(
        "target forgets a token too many",
        _LOOP,
        "len(tokens) if ahead else len(tokens) - 1",
        "len(tokens) if ahead else len(tokens) - 2",
        (_LOOPED + "test_any_pattern_of_mistakes_gives_the_same_text",),
    ),
    Mutant(
        "drafter not rewound",
        _LOOP,
        "        drafter.rewind(certain)\n",
        "        pass\n",
        ("tests/engine/test_draft_model.py::test_every_round_drafts_what_a_fresh_drafter_would",),
    ),
    Mutant(
        "eos inside a draft does not cut",
        _LOOP,
        "        if token in eos:\n",
        "        if token in eos and i == len(round_.tokens) - 1:\n",
        (_LOOPED + "test_eos_inside_a_draft_ends_the_reply_there",),
    ),
    Mutant(
        "a token told behind eos",
        _LOOP,
        "            return round_.cut(i + 1)\n",
        "            return round_.cut(i + 2)\n",
        (_LOOPED + "test_eos_inside_a_draft_ends_the_reply_there",),
    ),
    Mutant(
        "a draft past max-tokens",
        _LOOP,
        "min(plan.length, room - 1, target",
        "min(plan.length, target",
        (_LOOPED + "test_max_tokens_is_met_exactly",),
    ),
    Mutant(
        "the context does not end a reply",
        _LOOP,
        "return min(self.max_tokens - reply, self.context - prompt - reply)",
        "return self.max_tokens - reply",
        (_LOOPED + "test_the_context_is_never_passed",),
    ),
    Mutant(
        "a step ahead where the policy might draft",
        _LOOP,
        "and _plain_next(drafter, policy, standing)",
        "and True",
        (_LOOPED + "test_no_step_is_launched_ahead_where_the_policy_may_draft",),
    ),
    Mutant(
        "a step ahead of the reply's end",
        _LOOP,
        "sure = flight.length == 0 and room > 1 and",
        "sure = flight.length == 0 and room > 0 and",
        (_LOOPED + "test_a_plain_step_is_launched_before_the_one_before_has_landed",),
    ),
    Mutant(
        "penalties miss what was committed",
        _LOOP,
        "context = flight.context.extended(mx.array(round_.tokens, mx.int32))",
        "context = flight.context",
        (_LOOPED + "test_penalties_see_the_whole_context_in_both_ways",),
    ),
    Mutant(
        "a stop leaves its last token in the cache",
        _SESSION,
        "        self.target.rewind(length - 1)\n",
        "        self.target.rewind(length)\n",
        (_ENDS + "test_a_stop_string_cuts_text_tokens_and_caches_alike",),
    ),
    Mutant(
        "a stop leaves the tokens behind it",
        _SESSION,
        "        del self.tokens[length:]\n",
        "",
        (_ENDS + "test_a_stop_string_cuts_text_tokens_and_caches_alike",),
    ),
    Mutant(
        "nothing left to feed",
        _SESSION,
        "common = min(common, len(prompt) - 1)",
        "common = min(common, len(prompt))",
        (_TURNS + "test_a_prompt_that_is_a_prefix_of_the_last_one_is_answered",),
    ),
    Mutant(
        "a drafter mistakes old text for new",
        _SESSION,
        "known = common if drafter is self._drafter else 0",
        "known = common",
        (_TURNS + "test_drafters_may_change_between_replies",),
    ),
    Mutant("stop string text leaks", _TEXT, "texts.append(text[:room])", "texts.append(text)", _ANY_ROUNDS),
    Mutant(
        "a stop's first letters leak",
        _TEXT,
        "longest = max((len(s) - 1 for",
        "longest = max((len(s) - 2 for",
        _ANY_ROUNDS,
    ),
    Mutant(
        "the later of two stops cuts",
        _TEXT,
        "room = min(self._text.index(s)",
        "room = max(self._text.index(s)",
        _ANY_ROUNDS,
    ),
    Mutant(
        "tau without the bonus",
        _METRICS,
        "return self.tokens / self.rounds",
        "return self.accepted / self.rounds",
        (_COUNTED + "test_mean_acceptance_length_counts_the_targets_own_token",),
    ),
    Mutant(
        "the target's token counted as accepted",
        _METRICS,
        "self.accepted += r.accepted",
        "self.accepted += len(r.tokens)",
        (_COUNTED + "test_counts_are_those_of_the_stream",),
    ),
    Mutant(
        "decode speed counts the first token",
        _METRICS,
        "(self.tokens - 1) / self.decode_s",
        "self.tokens / self.decode_s",
        (_COUNTED + "test_times_run_from_the_request_and_from_the_first_token",),
    ),
    Mutant(
        "a cut round counted as refusals",
        _METRICS,
        "range(min(len(r.tokens), places))",
        "range(places)",
        (_COUNTED + "test_acceptance_by_position_is_of_the_rounds_that_got_there",),
    ),
    Mutant(
        "a correction called a bonus",
        "engine/events.py",
        'return "corrected" if self.refused else "bonus"',
        'return "corrected" if self.refused and not self.accepted else "bonus"',
        (_COUNTED + "test_origins_tell_bonus_from_correction",),
    ),
    Mutant(
        "a round costs a pass too narrow",
        "engine/costs.py",
        "self.pass_s(length + 1)",
        "self.pass_s(max(length, 1))",
        ("tests/engine/test_costs.py::test_a_round_is_its_draft_and_a_pass_one_row_wider",),
    ),
    Mutant(
        "a reply goes on in another's cache",
        _SESSION,
        "        if self.target.holder is not hold:\n",
        "        if self.target.holder is None:\n",
        (_ENDS + "test_a_reply_cannot_go_on_after_another_has_begun",),
    ),
    Mutant(
        "a step ahead leaves no mark",
        "engine/target.py",
        "        self.cache.mark()\n        return self.forward(token), 1\n",
        "        return self.forward(token), 1\n",
        (_ENDS + "test_a_recurrent_state_that_ran_ahead_is_taken_back_by_one_token",),
    ),
    Mutant(
        "a step is launched before the first token is told, where a launch waits for the device",
        _LOOP,
        "if sure and early else None",
        "if sure else None",
        (_LOOPED + "test_a_plain_step_is_launched_before_the_one_before_has_landed",),
    ),
    Mutant(
        "behind the first token a plain step is planned though it is sure",
        _LOOP,
        "if due is not None:",
        "if False:",
        (_LOOPED + "test_what_is_sure_to_be_plain_is_not_planned_again",),
    ),
)
