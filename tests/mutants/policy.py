"""Wrong edits of the policy: who drafts how much, and what it may cost."""

from tests.mutants.mutant import Mutant

_ADAPTIVE, _GATE, _OUTLOOK = "engine/adaptive.py", "engine/gate.py", "engine/outlook.py"
_PLANNED, _SIMULATED = "tests/engine/test_policy.py::", "tests/engine/test_simulation.py::"
_SEVERAL = "tests/engine/test_several.py::"

MUTANTS = (
    Mutant(
        "a gate that looks at the token drawn",
        "engine/drafters/chain.py",
        "most: Any = mx.max(drawn.logprobs).item()",
        "most: Any = math.log(drawn.chances.item())",
        (_SEVERAL + "test_rejection_keeps_the_law_where_drafts_stop_at_unsure_tokens",),
    ),
    Mutant(
        "draft noise by absolute position",
        "engine/choice.py",
        "noise = self._draft_noise(mx.array(own), ids, 0 if self.matches else 1 + place)",
        "noise = self._draft_noise(mx.array([position + place]), ids)",
        (_SEVERAL + "test_a_draft_that_was_cut_short_tells_nothing_of_what_is_drawn_next",),
    ),
    Mutant(
        "reading what was missed is free",
        _ADAPTIVE,
        "price = candidate.reading if drafted or self._gate is not None else 0.0",
        "price = 0.0",
        (_PLANNED + "test_what_a_drafter_must_read_first_is_booked",),
    ),
    Mutant(
        "a refused step is not paid for",
        _ADAPTIVE,
        "price += candidate.steps[drafted + 1] - candidate.steps[drafted]",
        "pass",
        (_PLANNED + "test_a_step_whose_token_was_refused_is_booked",),
    ),
    Mutant(
        "quiet counts what was asked for",
        "engine/drafters/prompt_lookup.py",
        "return self.hints(standing) == (0.0,)",
        "return False",
        (_SEVERAL + "test_plain_stretches_run_ahead_where_lookup_finds_nothing",),
    ),
    Mutant(
        "a wider pass may be cheaper",
        "engine/costs.py",
        "accumulate((s for _, s in measured), max)",
        "(s for _, s in measured)",
        ("tests/engine/test_costs.py::test_more_work_never_takes_less_time_whatever_the_clock_says",),
    ),
    Mutant(
        "a step ahead of a probe",
        _ADAPTIVE,
        "self.wait + later < self.every:",
        "self.wait < self.every:",
        (_PLANNED + "test_plain_next_is_said_only_where_the_next_plan_is_plain",),
    ),
    Mutant(
        "a policy that never looks again",
        _ADAPTIVE,
        "return least if worth > losses[least] * care else 0",
        "return 0",
        (_PLANNED + "test_a_policy_looks_again_and_comes_back_at_once_when_a_probe_succeeds",),
    ),
    Mutant(
        "a purse without a bottom",
        "engine/purse.py",
        "return price - 1 <= self.left + rounds * SHARE",
        "return True",
        (_SIMULATED + "test_no_reply_is_slower_than_plain_by_more_than_a_hundredth",),
    ),
    Mutant(
        "an unoffered token teaches nothing",
        _ADAPTIVE,
        "candidate.outlook.suppose(self._gate.refused)",
        "pass",
        (_PLANNED + "test_an_unsure_drafter_costs_its_step_and_is_given_up_in_the_end",),
    ),
    Mutant(
        "hints are lumped together",
        _OUTLOOK,
        "return self._beliefs.setdefault(hint,",
        "return self._beliefs.setdefault(None,",
        (_PLANNED + "test_hints_are_learnt_about_apart",),
    ),
    Mutant(
        "a cut round counts as a refusal",
        _OUTLOOK,
        "min(len(round_.drafted), len(round_.tokens))",
        "len(round_.drafted)",
        (_PLANNED + "test_a_round_cut_by_the_replys_end_is_no_refusal",),
    ),
    Mutant(
        "a gate that never stops",
        _GATE,
        "and self._gain(self.chances[place], 0.0) > 0",
        "",
        (_PLANNED + "test_a_gate_stops_where_going_on_would_not_pay",),
    ),
    Mutant(
        "quiet copies silence a head",
        "engine/policy.py",
        "or (quiet and self._all_hint)",
        "or quiet",
        (
            _PLANNED + "test_a_fixed_length_is_plain_next_only_where_all_that_could_draft_have_said_no",
            _SEVERAL + "test_fixed_lengths_never_run_plain_steps_ahead_of_a_head",
        ),
    ),
    Mutant(
        "what was learnt never fades",
        "engine/belief.py",
        "stays = (1 - RENEWAL) ** tokens",
        "stays = 1.0",
        ("tests/engine/test_outlook.py::test_what_is_believed_returns_to_where_it_began_as_tokens_go_by",),
    ),
    Mutant(
        "a refusal is not weighed",
        "engine/belief.py",
        "(1 - p if judged > accepted else 1)",
        "1",
        ("tests/engine/test_outlook.py::test_beliefs_follow_what_happens_and_forget",),
    ),
    Mutant(
        "each place knows only itself",
        "engine/belief.py",
        "self._weigh([p**accepted * (1 - p if judged > accepted else 1) for p in CHANCES])",
        "pass",
        ("tests/engine/test_outlook.py::test_every_place_tells_about_the_others",),
    ),
    Mutant(
        "a slower machine makes drafts dear",
        "engine/drift.py",
        "self._learn(kind, median(run) - level, len(run))",
        "self._learn(kind, median(run), len(run))",
        ("tests/engine/test_drift.py::test_a_machine_that_is_slower_for_everything_changes_nothing",),
    ),
    Mutant(
        "one late run is believed",
        "engine/drift.py",
        "known + min(max((found if abs(found) > NOTICEABLE else 0.0) - known, -step), step)",
        "found",
        ("tests/engine/test_drift.py::test_a_run_moves_it_by_little_and_all_of_them_by_no_more_than_the_most",),
    ),
    Mutant(
        "what was believed stays believed",
        "engine/drift.py",
        "self._logs[kind] *= FADES",
        "pass",
        ("tests/engine/test_drift.py::test_what_is_believed_fades_where_it_is_not_seen_again",),
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
        ("tests/engine/test_drift.py::test_the_first_round_of_a_reply_is_neither_timed_nor_spent_on_the_clock",),
    ),
    Mutant(
        "corrected prices are corrected again",
        "engine/adaptive.py",
        "self._price(candidate, drafted, candidate.measured)",
        "self._price(candidate, drafted)",
        (
            "tests/engine/test_drift_replies.py::test_passes_that_became_twice_as_dear_are_noticed_before_they_cost_much",
        ),
    ),
    Mutant(
        "every draft may be kept whole",
        "engine/adaptive.py",
        "HOPE = 0.97",
        "HOPE = 0.9999",
        (_PLANNED + "test_a_drafter_as_slow_as_the_target_is_of_no_use_however_good",),
    ),
)
