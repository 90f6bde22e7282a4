"""Wrong edits of how a fit meets what is odd: full disks, damage, few and long prompts, other targets."""

from tests.mutants.mutant import Mutant

_FIT = "models/fit/"
_TRAINED = "tests/models/fit/test_training.py::"
_JUDGED = "tests/models/fit/test_judging.py::"
_WHOLE = "tests/models/fit/test_fitting.py::"
_PREPARED = "tests/models/fit/test_preparing.py::"
_ASKED = "tests/models/fit/test_prompts.py::"
_COMMAND = "tests/app/test_fit.py::"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "tensors saved by a path",
        "models/tensors.py",
        "mx.save_safetensors(file, dict",
        "mx.save_safetensors(str(path), dict",
        (_TRAINED + "test_a_full_disk_is_an_error_of_the_disk",),
    ),
    Mutant(
        "a checkpoint with other tensors taken",
        _FIT + "training.py",
        '            _need_all(flat_trainable(self.trainee.network), groups["network"])\n',
        "",
        (_TRAINED + "test_a_damaged_checkpoint_says_what_to_do",),
    ),
    Mutant(
        "a drafter judged by what happens to be held out",
        _FIT + "corpus.py",
        "(len(waiting) <= half or _tells(conversations[place] for place in held))",
        "held",
        ("tests/models/fit/test_corpus.py::test_more_is_held_back_until_there_is_text_to_judge_both_temperatures_by",),
    ),
    Mutant(
        "a tree scored by what chose it",
        _FIT + "medusa.py",
        "self._scoring.add(scores)",
        "self._scoring.add(chooses)",
        (_JUDGED + "test_a_tree_is_chosen_by_one_half_of_each_reply_and_scored_by_the_other",),
    ),
    Mutant(
        "a dear draft step blamed on the pass",
        _FIT + "judging.py",
        "_share(costs.pass_s(k + 1), costs) for k in lengths)",
        "_share(costs.ungated_s(k), costs) for k in lengths)",
        (_JUDGED + "test_a_drafter_that_costs_more_than_it_brings_is_said_to_cost_it",),
    ),
    Mutant(
        "targets told apart by the sizes of their files",
        _FIT + "preparing.py",
        "        for place in range(_SAMPLES):",
        "        for place in range(0):",
        (_PREPARED + "test_targets_that_differ_in_their_weights_alone_are_told_apart",),
    ),
    Mutant(
        "all prompts as long as the first ones",
        _FIT + "preparing.py",
        "list(given.values()) or [c.prompt",
        "[] or [c.prompt",
        (_PREPARED + "test_how_long_the_users_prompts_are_is_not_judged_by_the_first",),
    ),
    Mutant(
        "a byte-order mark taken for text",
        _FIT + "prompts.py",
        '"utf-8-sig"',
        '"utf-8"',
        (_ASKED + "test_prompts_are_lines_or_json_lines",),
    ),
    Mutant(
        "the target's name read as a formula",
        _FIT + "report.py",
        ", parse_math=False",
        "",
        (_JUDGED + "test_the_picture_is_drawn_of_any_report",),
    ),
    Mutant(
        "a drafter shown before the disk has it",
        _FIT + "work.py",
        "(*self.drafter.iterdir(), self.drafter)",
        "(self.drafter,)",
        (_WHOLE + "test_every_file_is_on_the_disk_before_the_work_goes",),
    ),
    Mutant(
        "an unfinished fit cleared away for another's drafter",
        _FIT + "work.py",
        "return about.items() >= mine.items()",
        "return True",
        (
            _WHOLE + "test_a_finished_drafter_is_told_from_that_of_another_fit",
            _COMMAND + "test_a_finished_drafter_does_not_end_another_fit_beside_it",
        ),
    ),
)
