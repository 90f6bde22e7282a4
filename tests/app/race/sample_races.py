"""Races made up: rounds at given times, with texts, alike or parting."""

from collections.abc import Sequence

from hypothesis import strategies as st
from msgspec.structs import replace

from app.protocol import RoundDone, SamplingSettings
from app.protocol.race_messages import PLAIN, Environment, PairReceipt, ReadySide, Run, Side
from app.race.race_document import DEMONSTRATION, RaceDocument, divergence_of, tokens_of
from engine.events import Finished, Round

RACE = DEMONSTRATION  # of the built-in pair, measured; see record.py
WORDS = ("The sky", " is", " blue", ",", " and", " **so**", " is", " the", " sea", ".\n\n", "- one\n", "- two")
ENVIRONMENT = Environment(
    redline="0.1", mlx="0.32", platform="a system", processor="a machine", cores=2, backend="a library",
    dtype="float32", target="a target",
)  # fmt: skip
LINED_UP = (ReadySide(side=PLAIN, name=""), ReadySide(side=Side(drafter="lookup"), name="lookup"))


def run(side: int, number: int, rounds: Sequence[tuple[float, Sequence[int]]], drafts: bool = False) -> Run:
    """rounds: (time_s, tokens); all but the last token of a round that drafts are accepted."""
    made = []
    for index, (time_s, ids) in enumerate(rounds):
        drafted = tuple(ids[:-1]) if drafts else ()
        p, q, width = (0.5,) * len(ids), (0.5,) * len(drafted), len(drafted) + 1
        texts = tuple(WORDS[token % len(WORDS)] for token in ids)
        made.append(Round(index, tuple(ids), drafted, len(drafted), p, q, width, time_s, texts=texts))
    told = [RoundDone(id=1, round=one) for one in made]
    count = sum(len(tokens) for _, tokens in rounds)
    end_s = rounds[-1][0] if rounds else 0.0
    return Run(side=side, number=number, prompt_tokens=9, rounds=tuple(told), finished=Finished("eos", count, end_s))


def receipt(number: int, first: Run, second: Run, near_tie: bool = True, promised: bool = True) -> PairReceipt:
    """What comparing these two says."""
    found = divergence_of(tokens_of(first), tokens_of(second))
    if found is None:
        return PairReceipt(run=number, promised=promised, tokens=len(tokens_of(first)))
    texts = tuple(None if token is None else WORDS[token % len(WORDS)] for token in found.tokens)
    gap = 1.0 if promised and near_tie else None
    found = replace(found, texts=texts, gap_ulps=gap, noise_ulps=gap, near_tie=promised and near_tie)
    return PairReceipt(run=number, promised=promised, tokens=found.position, divergence=found)


def race(pairs: Sequence[tuple[Run, Run]], **receipts: bool) -> RaceDocument:
    """Of these pairs of runs, B first in every other."""
    runs = [run for number, pair in enumerate(pairs) for run in (pair if number % 2 == 0 else reversed(pair))]
    return RaceDocument(
        prompt="Why is the sky blue?",
        sampling=SamplingSettings(max_tokens=64),
        sides=LINED_UP,
        environment=ENVIRONMENT,
        runs=tuple(runs),
        receipts=tuple(receipt(number, *pair, **receipts) for number, pair in enumerate(pairs, 1)),
    )


def steady(side: int, number: int, tokens: Sequence[int], a_round: int, step_s: float) -> Run:
    """A round every `step_s` seconds."""
    parts = [tokens[start : start + a_round] for start in range(0, len(tokens), a_round)]
    return run(side, number, [((i + 1) * step_s, part) for i, part in enumerate(parts)], drafts=a_round > 1)


def simple(parts_at: int | None = None, pairs: int = 1, **receipts: bool) -> RaceDocument:
    """Twelve tokens, plain in 1.2 s, drafted in 0.6 s; from `parts_at` on the second says something else."""
    plain = list(range(12))
    other = plain if parts_at is None else [*plain[:parts_at], *(token + 12 for token in plain[parts_at:])]
    made = [(steady(0, n, plain, 1, 0.1), steady(1, n, other, 3, 0.15)) for n in range(1, pairs + 1)]
    return race(made, **receipts)


@st.composite
def races(draw: st.DrawFn) -> RaceDocument:
    """Any two runs that begin alike, in rounds of any size at any times, some of them at once."""
    common = draw(st.lists(st.integers(0, 11), min_size=1, max_size=20))
    made = []
    for number in range(1, draw(st.integers(1, 3)) + 1):
        ends = [draw(st.lists(st.integers(20, 23), max_size=6)) for _ in range(2)]
        pair = []
        for side, end in enumerate(ends):
            tokens, rounds, time_s = [*common, *end], list[tuple[float, list[int]]](), 0.0
            while tokens:
                size = draw(st.integers(1, 5))
                time_s += draw(st.sampled_from([0.0, 0.01, 0.5]) if rounds else st.floats(0.001, 2))
                rounds.append((time_s, tokens[:size]))
                tokens = tokens[size:]
            pair.append(run(side, number, rounds, drafts=side == 1))
        made.append((pair[0], pair[1]))
    return race(made)
