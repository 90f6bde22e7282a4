"""Wrong edits of how drafters are trained and judged."""

from tests.mutants.mutant import Mutant

_FIT = "models/fit/"
_UNROLLED = ("tests/models/fit/test_unrolled.py::test_unrolled_training_sees_what_drafting_sees",)
_TRAINED = "tests/models/fit/test_training.py::"
_JUDGED = "tests/models/fit/test_judging.py::"
_CORPUS = "tests/models/fit/test_corpus.py::"
_PLANNED = "tests/models/fit/test_plan.py::"
_PREPARED = "tests/models/fit/test_preparing.py::"
_EXACT_RESUME = (_TRAINED + "test_training_stopped_between_steps_goes_on_to_the_same_weights",)

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
        "a checkpoint without the optimiser",
        _FIT + "training.py",
        'self._optimizer.state = tree_unflatten(groups["optimizer"])',
        'tree_unflatten(groups["optimizer"])',
        _EXACT_RESUME,
    ),
    Mutant(
        "a resumed fit begins its epochs anew",
        _FIT + "training.py",
        "islice(schedule, self.step, self.steps)",
        "islice(schedule, 0, self.steps - self.step)",
        _EXACT_RESUME,
    ),
    Mutant(
        "the law of the place before",
        _FIT + "batches.py",
        "np.arange(first, len(c.tokens) - 1)",
        "np.arange(first - 1, len(c.tokens) - 2)",
        (_JUDGED + "test_what_is_judged_is_what_the_loop_then_accepts",),
    ),
    Mutant(
        "logsumexp in 16 bits alone",
        _FIT + "reading.py",
        "rows[:, -2:-1] + rows[:, -1:]",
        "rows[:, -2:-1] - rows[:, -1:]",
        (_TRAINED + "test_kept_states_are_those_that_were_read",),
    ),
    Mutant(
        "a soft cap taken for nothing",
        _FIT + "reading.py",
        "tried.append(lambda logits: mx.tanh(logits / cap) * cap)",
        "tried.append(lambda logits: logits)",
        (_TRAINED + "test_what_comes_behind_the_output_matrix_is_found_or_refused",),
    ),
    Mutant(
        "noise that depends on who writes beside",
        _FIT + "writing.py",
        "noise, place = Noise(request.seed), request.place",
        "noise, place = Noise(id(request)), 0",
        (_CORPUS + "test_a_shard_is_a_function_of_its_number",),
    ),
    Mutant(
        "a prompt on both sides",
        _FIT + "corpus.py",
        "by_prompt.pop(waiting.pop())",
        "by_prompt[waiting.pop()]",
        (_CORPUS + "test_no_prompt_is_both_trained_on_and_held_out",),
    ),
    Mutant(
        "a verdict that rests on one prompt",
        _FIT + "corpus.py",
        "by_prompt.pop(waiting.pop())[:share]",
        "by_prompt.pop(waiting.pop())",
        (_CORPUS + "test_what_is_judged_by_is_of_several_prompts",),
    ),
    Mutant(
        "the same greedy reply again and again",
        _FIT + "corpus.py",
        "TEMPERATURES if again < 2 else _WARM",
        "TEMPERATURES",
        (_CORPUS + "test_a_given_prompt_is_answered_greedily_once",),
    ),
    Mutant(
        "a batch without a guess",
        _FIT + "corpus.py",
        " and len(c.tokens) >= LEAST_TOKENS",
        "",
        (_CORPUS + "test_what_is_too_short_for_any_guess_is_left_out",),
    ),
    Mutant(
        "memory is looked at when it is used already",
        _FIT + "preparing.py",
        "    check_memory(working_bytes(sizes, trial), room)\n",
        "",
        (_PREPARED + "test_a_memory_that_is_too_small_is_refused_before_anything_is_tried",),
    ),
    Mutant(
        "a batch as large as ever",
        _FIT + "needs.py",
        "plan.batch_tokens >> n",
        "plan.batch_tokens",
        (_PREPARED + "test_a_smaller_batch_is_trained_on_where_that_is_enough",),
    ),
    Mutant(
        "copies of the target weigh nothing",
        _FIT + "needs.py",
        "return sizes.frozen_bytes + optimiser",
        "return optimiser",
        (_PREPARED + "test_what_a_draft_model_copies_from_a_quantized_target_is_counted",),
    ),
    Mutant(
        "states are read anew in no time",
        _FIT + "plan.py",
        "readings = 1 if stored else epochs",
        "readings = 1",
        (_PREPARED + "test_the_minutes_are_kept_whether_states_are_or_not",),
    ),
    Mutant(
        "a shard of replies of the usual length",
        _FIT + "plan.py",
        "(LONGEST_QUESTION + plan.reply_tokens) * plan.rows / rates.write",
        "rates.reply_tokens * plan.rows / rates.write",
        (_PLANNED + "test_a_kill_loses_less_than_a_minute_of_writing",),
    ),
    Mutant(
        "a walk that forgets the bonus",
        "models/predict/rounds.py",
        "visits[place + 1 : place + 1 + len(ends)]",
        "visits[place + 1 : place + len(ends)]",
        (_JUDGED + "test_a_walk_counts_rounds_as_the_loop_does",),
    ),
    Mutant(
        "a speed-up past tau",
        _FIT + "judging.py",
        "return min(1.0, costs.plain_s / round_s)",
        "return costs.plain_s / round_s",
        (_JUDGED + "test_nothing_is_faster_than_its_tau",),
    ),
    Mutant(
        "a tree that leaves out a likelier sibling",
        _FIT + "medusa.py",
        "open_.add((*best[:-1], best[-1] + 1))",
        "open_.add((*best[:-1], best[-1] + 2))",
        (_JUDGED + "test_the_static_tree_is_nested_and_the_likeliest_first",),
    ),
    Mutant(
        "a tree that warm replies chose",
        _FIT + "fitting.py",
        "            if temperature == 0:\n",
        "            if temperature >= 0:\n",
        (_JUDGED + "test_a_fit_asks_about_trees_and_looks_at_them_along_greedy_replies",),
    ),
    Mutant(
        "a tree scored by what chose it",
        _FIT + "medusa.py",
        "chances = self._scoring.chances()",
        "chances = self._choosing.chances()",
        (_JUDGED + "test_a_tree_is_chosen_by_some_replies_and_scored_by_others",),
    ),
    Mutant(
        "a tree priced by passes that nobody measured",
        _FIT + "judging.py",
        "_speedups(tree_tau[: costs.verify[-1][0]], costs)",
        "_speedups(tree_tau, costs)",
        (_JUDGED + "test_a_tree_is_priced_as_far_as_passes_were_measured_so_wide",),
    ),
    Mutant(
        "a tree praised that the target cannot verify",
        _FIT + "fitting.py",
        "tree_trouble(self.target.model) if trainee.tree else None",
        "None",
        (_JUDGED + "test_a_fit_asks_about_trees_and_looks_at_them_along_greedy_replies",),
    ),
    Mutant(
        "trees priced by the passes of chains",
        "app/fit/__init__.py",
        'trees = plan.kind == "medusa"',
        "trees = False",
        ("tests/app/test_fit.py::test_a_fit_says_what_it_takes_and_what_came_of_it",),
    ),
    Mutant(
        "a finished folder made anew",
        _FIT + "work.py",
        "if not self.finished:",
        "if shutil.rmtree(self.out, ignore_errors=True) is None:",
        ("tests/models/fit/test_fitting.py::test_a_kill_between_the_folder_and_the_clearing_up_loses_nothing",),
    ),
    Mutant(
        "padding in the state goes unnoticed",
        _FIT + "writing.py",
        "> _AGREES * mx.std(alone)",
        "> 100 * mx.std(alone)",
        (_CORPUS + "test_models_that_cannot_be_batched_are_found",),
    ),
    Mutant(
        "noise begins anew in each stretch",
        _FIT + "writing.py",
        "place=self.place + len(said)",
        "place=self.place",
        (_CORPUS + "test_a_text_in_stretches_is_the_text_in_one",),
    ),
    Mutant(
        "what was kept of a shard is written again",
        _FIT + "fitting.py",
        "author.write_shard(shards, load_unfinished(self.place.corpus, shards))",
        "author.write_shard(shards)",
        ("tests/models/fit/test_fitting.py::test_what_was_kept_of_a_shard_is_not_written_again",),
    ),
    Mutant(
        "another shard is gone on with",
        _FIT + "corpus.py",
        ' if value["shard"] == number else None',
        "",
        (_CORPUS + "test_a_shard_may_be_stopped_wherever_it_is_kept",),
    ),
    Mutant(
        "a reply is cut at its first stretch",
        _FIT + "writing.py",
        "        if open_ := _open(requests, said):\n",
        "        open_ = []\n        if open_:\n",
        (_CORPUS + "test_a_text_in_stretches_is_the_text_in_one",),
    ),
)
