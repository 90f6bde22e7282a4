"""Never slower, and as good as the best fixed length: what the benchmark says of both follows from its rows."""

import pytest

from app.bench.verdicts import ALL, AutoVerdict, verdicts
from tests.app.bench.bench_runs import plain_and, row


def by_category(found: list[AutoVerdict]) -> dict[str, AutoVerdict]:
    return {one.category: one for one in found}


def test_auto_is_held_against_the_length_that_was_best_in_that_category() -> None:
    rows = plain_and(
        {
            ("eagle3", "auto"): {"qa": [1.2, 1.3, 1.4], "rag": [1.9, 2.0, 2.1]},
            ("eagle3", 2): {"qa": [1.3, 1.5, 1.2], "rag": [1.6, 1.6, 1.6]},
            ("eagle3", 4): {"qa": [0.8, 0.9, 1.0], "rag": [2.1, 2.1, 2.1]},
        }
    )
    found = by_category(verdicts(rows))
    assert list(found) == ["qa", "rag", ALL]
    assert (found["qa"].best, found["rag"].best) == (2, 4)
    assert (found["qa"].speedup, found["qa"].lowest, found["qa"].best_speedup) == (1.3, 1.2, 1.3)
    assert found["qa"].share == pytest.approx(1.2 / 1.3)  # 1.2 / 1.3, 1.3 / 1.5, 1.4 / 1.2: pairs, not medians
    assert found["rag"].share == pytest.approx(2.0 / 2.1)
    assert (found["rag"].behind, found["qa"].behind, found["qa"].slower) == (True, True, False)
    assert found[ALL].prompts == 6


def test_plain_decoding_is_a_length_too() -> None:
    (one, _) = verdicts(plain_and({("draft", "auto"): {"qa": [0.95, 0.96]}, ("draft", 2): {"qa": [0.5, 0.6]}}))
    assert (one.best, one.best_speedup) == (0, 1.0)
    assert one.share == pytest.approx(0.955)
    assert one.slower
    assert one.behind


def test_0_97_is_not_slower() -> None:
    found = verdicts(plain_and({("lookup", "auto"): {"qa": [0.97]}}))
    assert not any(one.slower for one in found)
    assert all(one.best is None and one.share is None and not one.behind for one in found)


def test_the_lowest_is_of_a_prompt_not_of_a_run() -> None:
    rows = [row("eagle3", "auto", 1, value, repeat=i) for i, value in enumerate((0.5, 1.1, 1.2))]
    rows += [row("eagle3", "auto", 2, value, repeat=i) for i, value in enumerate((1.3, 1.0, 1.4))]
    (one, _) = verdicts(rows)
    assert (one.lowest, one.prompts) == (1.1, 2)


def test_exact_verify_is_judged_apart_and_plain_is_none_of_its_lengths() -> None:
    rows = plain_and({("eagle3", "auto"): {"qa": [1.4]}, ("eagle3", 2): {"qa": [1.2]}})
    rows += [row("eagle3", length, 0, value, exact=True) for length, value in (("auto", 0.9), (2, 0.8))]
    usual, exact = (one for one in verdicts(rows) if one.category == ALL)
    assert (usual.exact, usual.best) == (False, 2)
    assert (exact.exact, exact.best, exact.share) == (True, 2, pytest.approx(0.9 / 0.8))


def test_mt_benchs_eight_are_one_category_beside_other_tasks() -> None:
    found = verdicts(plain_and({("eagle3", "auto"): {"writing": [1.0, 1.1], "coding": [1.2], "qa": [1.3]}}))
    assert [(one.category, one.prompts) for one in found] == [("conversation", 3), ("qa", 1), (ALL, 4)]
    alone = verdicts(plain_and({("eagle3", "auto"): {"writing": [1.0, 1.1], "coding": [1.2]}}))
    assert [one.category for one in alone] == ["writing", "coding", ALL]


def test_peers_and_fixed_lengths_alone_are_not_judged() -> None:
    rows = [row("none", None, 0, 1.0), row("eagle3", 2, 0, 1.2), row("mlx-lm", None, 0, 0.9, peer=True)]
    assert verdicts(rows) == []
