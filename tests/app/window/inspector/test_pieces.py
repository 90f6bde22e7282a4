"""Pieces of a round: kinds, chances and order, in chains and trees; what of a token's text is shown."""

import pytest
from msgspec.structs import replace

from app.protocol import RoundDone
from app.window.inspector.round_rows import (
    LONGEST_TEXT,
    depths,
    describe,
    emitted_tokens,
    refused_tokens,
    shape,
    shown,
)
from engine.events import Round
from tests.app.window.inspector.sample_rounds import mixed

CHAIN = RoundDone(
    id=1,
    round=Round(
        index=0,
        tokens=(10, 11, 99),
        drafted=(10, 11, 12, 13),
        accepted=2,
        p=(0.9, 0.8, 0.4),
        q=(0.7, 0.6, 0.5, 0.3),
        width=5,
        time_s=0.1,
        texts=(" the", " sky", " is"),
    ),
    drafted_texts=(" the", " sky", " was", " blue"),
)

# root ── 0 a ── 2 c ── 4 e
#      │      └─ 3 d
#      └─ 1 b ── 5 f
TREE = RoundDone(
    id=1,
    round=Round(
        index=1,
        tokens=(20, 22, 98),
        drafted=(20, 21, 22, 23, 24, 25),
        accepted=2,
        p=(0.9, 0.8, 0.4),
        q=(0.7, 0.2, 0.6, 0.3, 0.5, 0.1),
        width=7,
        time_s=0.2,
        texts=("a", "c", "z"),
        parents=(-1, -1, 0, 0, 2, 1),
        path=(0, 2),
    ),
    drafted_texts=("a", "b", "c", "d", "e", "f"),
)


def test_emitted_tokens_have_kinds_and_the_probabilities_of_both_models() -> None:
    pieces = [(piece.text, piece.kind, piece.p, piece.q) for piece in emitted_tokens(CHAIN)]
    assert pieces == [("the", "accepted", 0.9, 0.7), ("sky", "accepted", 0.8, 0.6), ("is", "corrected", 0.4, None)]
    pieces = [(piece.text, piece.kind, piece.p, piece.q) for piece in emitted_tokens(TREE)]
    assert pieces == [("a", "accepted", 0.9, 0.7), ("c", "accepted", 0.8, 0.6), ("z", "corrected", 0.4, None)]


def test_refused_tokens_come_from_the_end_of_the_path_back_each_branch_whole() -> None:
    pieces = [(piece.text, piece.q, piece.depth, piece.offered) for piece in refused_tokens(CHAIN)]
    assert pieces == [("was", 0.5, 3, True), ("blue", 0.3, 4, False)]
    pieces = [(piece.text, piece.q, piece.depth, piece.offered) for piece in refused_tokens(TREE)]
    assert pieces == [("e", 0.5, 3, True), ("d", 0.3, 2, False), ("b", 0.2, 1, False), ("f", 0.1, 2, False)]


def test_every_drafted_token_is_said_or_refused_once() -> None:
    for told in mixed(200):
        kept = [piece.token for piece in emitted_tokens(told)[: told.round.accepted]]
        lost = [piece.token for piece in refused_tokens(told)]
        assert sorted(kept + lost) == sorted(told.round.drafted)


def test_levels_of_a_tree_count_from_the_root_and_are_told_in_words() -> None:
    assert depths(TREE.round) == [1, 1, 2, 2, 3, 2]
    assert depths(CHAIN.round) == [1, 2, 3, 4]
    assert describe(TREE).startswith("tree of 6, 2 of 6 accepted, then corrected: a c z")


def test_a_round_without_a_draft_is_plain_not_bonus() -> None:
    told = RoundDone(id=1, round=Round(0, (5,), (), 0, (0.5,), (), 1, 0.1, texts=("a",)))
    assert [piece.kind for piece in emitted_tokens(told)] == ["plain"]
    assert shape(told.round) == "no draft"


def test_a_round_that_lacks_texts_and_chances_shows_ids() -> None:
    told = RoundDone(id=1, round=Round(0, (5, 6), (5, 7), 1, (), (), 1, 0.1))
    assert [(piece.text, piece.p, piece.q) for piece in emitted_tokens(told)] == [
        ("#5", None, None),
        ("#6", None, None),
    ]
    assert [piece.text for piece in refused_tokens(told)] == ["#7"]
    named = replace(told, drafted_texts=("<|end|>",))
    assert emitted_tokens(named)[0].text == "<|end|>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" sky", "sky"),
        ("\n\n", "⏎⏎"),
        ("\t", "⇥"),
        ("  ", "␣␣"),
        ("a\r\nb", "a⏎b"),
        ("\x1b[31m", "·[31m"),
        ("\u202egnp", "·gnp"),
        ("<b>", "<b>"),
        ("👩\u200d🔬", "👩\u200d🔬"),
        ("", "#7"),
        (None, "#7"),
        ("x" * 5000, "x" * LONGEST_TEXT + "…"),
    ],
)
def test_a_token_is_shown_on_one_short_line_with_nothing_invisible(text: str | None, expected: str) -> None:
    assert shown(text, 7) == expected
