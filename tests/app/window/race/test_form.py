"""What is asked for before a race, and what is shown while it is measured."""

from pathlib import Path

import pytest

from app.protocol import Pair, SamplingSettings
from app.protocol.race_messages import PLAIN, RaceProgress, Server, Side
from app.store.records import ChatSettings
from app.window.race.race_form import RUNS, TOKENS
from app.window.race.race_window import RaceWindow


def test_it_begins_with_plain_against_how_the_chat_decodes(window: RaceWindow) -> None:
    sampling = SamplingSettings(
        temperature=0.7, top_p=0.9, seed=4, acceptance="coupled", draft_length=3, max_tokens=2048
    )
    window.form.suggest(ChatSettings(pair=Pair(drafter="lookup"), sampling=sampling))
    plain, other = (side.side() for side in window.form.sides)
    assert plain.plain
    assert (other.drafter, other.draft_length, other.acceptance) == ("lookup", 3, "coupled")
    asked = window.form.sampling()
    assert (asked.temperature, asked.top_p, asked.seed, asked.max_tokens) == (0.7, 0.9, 4, TOKENS)
    assert window.form.runs.value() == RUNS


@pytest.mark.parametrize(
    "side",
    [
        PLAIN,
        Side(drafter="lookup", draft_length=0),
        Side(drafter="eagle3", draft_length=8, tree=True),
        Side(drafter="auto", acceptance="coupled"),
        Side(server=Server(url="http://127.0.0.1:8080/v1", model="a model", key_env="A_KEY")),
    ],
)
def test_a_side_is_shown_as_it_is_read(window: RaceWindow, side: Side) -> None:
    form = window.form.sides[1]
    form.show_side(side)
    assert form.side() == side


def test_any_two_may_race_and_what_is_wrong_is_said(window: RaceWindow, tmp_path: Path) -> None:
    raced: list[bool] = []
    form = window.form
    form.raced.disconnect()
    form.raced.connect(lambda: raced.append(True))
    form.start.click()
    assert form.error.text() == "Enter a prompt."
    form.prompt.setPlainText("Hello?")
    form.sides[0].show_side(Side(drafter="lookup", draft_length=2))
    form.sides[1].show_side(Side(drafter=str(tmp_path / "none")))
    form.start.click()
    assert form.error.text()
    form.sides[1].show_side(Side(drafter="eagle3", draft_length=99))
    form.start.click()
    assert form.error.text() == "A draft can have at most 32 tokens."
    form.sides[1].show_side(Side(server=Server(url="nowhere at all?")))
    form.start.click()
    assert form.error.text() == "Enter the address of the program, such as http://127.0.0.1:8080."
    assert not raced
    form.sides[1].show_side(Side(drafter="lookup", draft_length=4))
    form.start.click()
    assert raced


def test_the_rule_is_asked_for_only_where_there_is_chance(window: RaceWindow) -> None:
    rule = window.form.sides[1].rule
    assert not rule.isVisible()
    window.form.temperature.setValue(0.8)
    assert rule.isVisible()


# --- measuring --------------------------------------------------------------------------------


def test_while_it_is_measured_the_runs_are_shown_in_their_order(window: RaceWindow) -> None:
    window._show(window.measuring)
    window.measuring.begin("ABBAAB", 100)
    window.measuring.show_progress(RaceProgress(id=1, message="run 2 of 3", time_s=1.0, run=2, side=1, tokens=40))
    assert window.measuring.title.text() == "Run 2 of 3, side B: 40 tokens"
    assert window.measuring.order.letters == "ABBAAB"
    assert window.measuring.order.done == 2
    window.measuring.show_progress(RaceProgress(id=1, message="run 2 of 3", time_s=1.0, run=2, side=0, tokens=1))
    assert window.measuring.order.done == 3
    assert "measured one after the other" in window.measuring.why.text()


def test_the_texts_of_the_current_pair_are_shown_as_they_are_measured(window: RaceWindow) -> None:
    window.measuring.begin("ABBA", 100)
    both = "Side A:\nThe sky is blue\n\nSide B:\nThe"
    for run, side, text, shown in (
        (1, 0, "The sky", "Side A:\nThe sky"),
        (1, 0, " is blue", "Side A:\nThe sky is blue"),
        (1, 1, "The", both),
        (1, 1, "", both),
        (2, 1, "", ""),
    ):
        window.measuring.show_progress(
            RaceProgress(id=1, message=f"run {run} of 2", time_s=1.0, run=run, side=side, text=text)
        )
        assert window.measuring.text.toPlainText() == shown
