"""Predictions where the truth can be written down: tables, every text of which is read with its exact weight."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.drafters.draft_model import DraftModel
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from models.forecast.forecast import forecast_reply
from models.forecast.target_text import TargetText, read_text
from tests.engine.replies import draft_model
from tests.models.training.training_plans import CHEAP
from tests.toys.tables import TableModel, random_tables, text_distribution

SIZE, START, LENGTH = 3, (1, 2), 5
TARGET, DRAFTER = random_tables(SIZE, 0.6, seed=4)
WARM = SamplingSettings(temperature=1)
State = tuple[int, int]


def distribution(table: NDArray[Any], state: State) -> NDArray[Any]:
    scores = np.exp(table[state])
    found: NDArray[Any] = scores / scores.sum()
    return found


def agreement(rule: str, state: State) -> NDArray[Any]:
    """By token: the chance that a draft is kept and is that token."""
    p, q = distribution(TARGET, state), distribution(DRAFTER, state)
    if rule == "rejection":
        return np.minimum(p, q)
    if rule == "coupled":
        return np.array([1 / np.maximum(p / p[x], q / q[x]).sum() for x in range(SIZE)])
    greedy = np.zeros(SIZE)
    greedy[p.argmax()] = p.argmax() == q.argmax()
    return greedy


def chances_of_text(rule: str, state: State) -> NDArray[Any]:
    """By token: the chance that the text has it."""
    p = distribution(TARGET, state)
    return np.eye(SIZE)[p.argmax()] if rule == "greedy" else p


def enumerated_rounds(rule: str, length: int) -> tuple[float, list[float], list[float]]:
    """Rounds of a reply of LENGTH tokens, and by place how many decided and kept, by trying every outcome."""

    @cache
    def rounds(state: State, left: int) -> tuple[float, ...]:
        if left == 0:
            return (0.0,) * (1 + 2 * length)
        return tuple(np.eye(1 + 2 * length)[0] + drafted(state, left, 0))

    def drafted(state: State, left: int, place: int) -> NDArray[Any]:
        """Of the rest of a round and all after it, its first `place` tokens having been kept."""
        found, offered = np.zeros(1 + 2 * length), place < min(length, left + place - 1)
        both = agreement(rule, state) if offered else np.zeros(SIZE)
        for token in range(SIZE):
            after = (state[1], token)
            if both[token]:
                found += both[token] * drafted(after, left - 1, place + 1)
            if (rest := chances_of_text(rule, state)[token] - both[token]) > 0:
                found += rest * np.array(rounds(after, left - 1))
        if offered:
            found[1 + place] += 1
            found[1 + length + place] += both.sum()
        return found

    count, *by_place = rounds(START, LENGTH)
    return count, by_place[:length], by_place[length:]


def weights_of_texts(sampling: SamplingSettings) -> dict[tuple[int, ...], float]:
    if not sampling.greedy:
        return text_distribution(TARGET, START, LENGTH)
    state, text = START, []
    for _ in range(LENGTH):
        text.append(int(distribution(TARGET, state).argmax()))
        state = (state[1], text[-1])
    return {tuple(text): 1.0}


@cache
def pair() -> tuple[CachedModel, DraftModel]:
    return CachedModel(TableModel(TARGET)), draft_model(TableModel(DRAFTER), SIZE)


@pytest.mark.slow_for("coupled-*")
@pytest.mark.parametrize(("name", "sampling"), [("greedy", SamplingSettings()), ("rejection", WARM), ("coupled", WARM)])
def test_predicted_rounds_and_acceptance_are_the_enumerated_ones(name: str, sampling: SamplingSettings) -> None:
    target, drafter = pair()
    sampling = replace(sampling, acceptance="coupled" if name == "coupled" else "rejection")
    found = {length: np.zeros(1 + 2 * length) for length in range(1, 5)}
    for tokens, weight in weights_of_texts(sampling).items():
        outputs = read_text(target, TargetText((*START, *tokens), 2, LENGTH), drafter.needs)
        totals = forecast_reply("", outputs, [drafter], range(1, 5), sampling, [CHEAP]).totals
        for length, sums in found.items():
            assert totals[length].tokens == LENGTH
            sums += weight * np.array([totals[length].rounds, *totals[length].reached, *totals[length].kept])
    for length, value in found.items():
        rounds, reached, kept = enumerated_rounds(name, length)
        assert value == pytest.approx([rounds, *reached, *kept], rel=1e-5)
