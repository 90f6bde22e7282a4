"""Wrong edits of the catalogue, of verdicts on pairs, and of what auto takes."""

from tests.mutants.mutant import Mutant

_READING, _SEARCH, _FITS = "models/catalogue/reading.py", "models/catalogue/search.py", "models/catalogue/fits.py"
_STANDING, _JUDGING, _CHOOSING = (
    *("models/catalogue/standing.py", "models/pairing/judging.py", "models/pairing/choosing.py"),
)
_CATALOGUE, _ASKED = "tests/models/test_catalogue.py::", "tests/models/test_catalogue_standing.py::"
_JUDGED, _TABLE = "tests/models/test_pairing_judging.py::", "tests/models/test_pairing_table.py::"
_SAID = "tests/app/test_models_command.py::"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a draft goes past the drafter's table of positions",
        "engine/drafters/draft_model.py",
        "        length = min(length, self._room(standing))\n",
        "",
        ("tests/engine/test_draft_model.py::test_nothing_is_read_behind_the_end_of_a_table_of_positions",),
    ),
    Mutant(
        "lines of the catalogue counted from nought",
        _READING,
        "enumerate(text.splitlines(), 1)",
        "enumerate(text.splitlines())",
        (_CATALOGUE + "test_a_fault_is_told_with_the_line_where_its_entry_begins",),
    ),
    Mutant(
        "a drafter that is nowhere in the catalogue",
        _READING,
        "if name not in seen or name == target.repository:",
        "if name == target.repository:",
        (_CATALOGUE + "test_a_fault_is_told_with_the_line_where_its_entry_begins",),
    ),
    Mutant(
        "8b found in 8bit",
        _SEARCH,
        "_LETTERS = 3",
        "_LETTERS = 2",
        (_CATALOGUE + "test_every_word_must_be_one_of_a_names_own_or_begin_one",),
    ),
    Mutant(
        "all of a small Mac's memory for the model",
        _FITS,
        "memory_bytes * 2 // 3 if",
        "memory_bytes if",
        (_CATALOGUE + "test_the_bound_is_good_then_tight_then_no",),
    ),
    Mutant(
        "a repository that is gone passed over",
        _STANDING,
        'return "gone"',
        'return "there"',
        (_ASKED + "test_each_entry_is_there_gated_gone_or_unknown_in_order",),
    ),
    Mutant(
        "a pinned revision not asked for",
        _STANDING,
        'entry.revision or "main"',
        '"main"',
        (_ASKED + "test_a_pinned_revision_that_is_gone_is_told_and_one_that_is_there_is_asked_for",),
    ),
    Mutant(
        "a network that is down told of every entry",
        _STANDING,
        '_HOPELESS = ("offline", "network", "proxy", "hub")',
        '_HOPELESS = ("offline",)',
        (_ASKED + "test_no_way_to_the_hub_is_told_once_and_ends_it",),
    ),
    Mutant(
        "an MTP sidecar taken for a model",
        _JUDGING,
        'model_type.endswith("_mtp")',
        'model_type.endswith("_none")',
        (_JUDGED + "test_kinds_that_redline_cannot_load_yet_are_named",),
    ),
    Mutant(
        "another template as a refusal",
        _JUDGING,
        "    if chat_template(target.path) != chat_template(drafter.path):\n        notes.append(",
        "    if chat_template(target.path) != chat_template(drafter.path):\n        raise PairError(",
        (_TABLE + "test_every_cell_of_the_table_is_as_expected",),
    ),
    Mutant(
        "tokens that the drafter has no row for let through",
        "models/pairing/tokens.py",
        "    found += [Difference(number, token, None) for number, token in sorted(said) if number >= drafter_rows]\n",
        "",
        (_TABLE + "test_every_cell_of_the_table_is_as_expected",),
    ),
    Mutant(
        "a head's folder not asked for whom it was made",
        "models/heads/eagle3.py",
        "    check_made_for(folder, target)\n",
        "",
        (_JUDGED + "test_what_loading_a_head_refuses_its_verdict_refuses_for_the_same_reason",),
    ),
    Mutant(
        "the largest sibling first",
        _CHOOSING,
        "sorted(alike, key=lambda one: one.size_bytes)",
        "sorted(alike, key=lambda one: -one.size_bytes)",
        (_JUDGED + "test_of_two_siblings_the_smaller_is_taken",),
    ),
    Mutant(
        "siblings of any size",
        _CHOOSING,
        "SMALL_ENOUGH = 0.25",
        "SMALL_ENOUGH = 25.0",
        (_JUDGED + "test_a_sibling_too_large_to_pay_or_of_other_tokens_is_not_taken",),
    ),
    Mutant(
        "a known drafter taken without a verdict",
        _CHOOSING,
        "        if verdict.fits:\n",
        "        if verdict:\n",
        (_JUDGED + "test_a_known_drafter_that_does_not_fit_gives_way_to_one_that_does",),
    ),
    Mutant(
        "a drafter that does not load recommended",
        "app/models/overview.py",
        "if not one.trouble]",
        "]",
        (_SAID + "test_every_mac_gets_a_screenful_of_targets_that_fit_with_their_drafters",),
    ),
    Mutant(
        "no reply where auto's drafter is broken",
        "app/pair.py",
        "    except (ModelError, PairError) as error:  # nobody",
        "    except PairError as error:  # nobody",
        ("tests/app/test_auto.py::test_what_auto_takes_and_cannot_load_is_told_and_lookup_answers",),
    ),
    Mutant(
        "a shortlist of the first tokens",
        "engine/shortlist.py",
        "matrix[name][ids]",
        "matrix[name][: ids.size]",
        ("tests/engine/test_shortlist.py::test_the_logits_are_those_of_the_whole",),
    ),
    Mutant(
        "columns of a shortlist taken for tokens",
        "engine/drafters/draft_model.py",
        "draw_chain(standing, self._fit(logits), follow, length, self.ids)",
        "draw_chain(standing, self._fit(logits), follow, length)",
        ("tests/engine/test_shortlist.py::test_the_text_is_the_targets_whatever_is_left_out",),
    ),
    Mutant(
        "tokens of a shortlist that the target has not",
        "models/shortlist.py",
        "shorten_output(drafter.network, ids[:usable])\n    return ids[:usable]",
        "shorten_output(drafter.network, ids)\n    return ids",
        ("tests/models/test_shortlist.py::test_what_the_target_does_not_share_is_left_out",),
    ),
    Mutant(
        "judged by tokens that it will not draft",
        "models/fit/draft.py",
        "mx.where(self._drafts, chosen, -mx.inf)",
        "chosen",
        ("tests/models/fit/test_draft.py::test_it_learns_to_know_all_and_is_judged_by_what_it_will_draft",),
    ),
)
