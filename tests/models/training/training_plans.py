"""Plans of a few conversations, for a tiny target."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from engine.policy.step_times import DrafterTimes
from models.loader import Loaded
from models.training.batches import Batches
from models.training.corpus import Conversation, choose_draft_vocabulary
from models.training.pipeline import TrainingPipeline, TrainingProgress
from models.training.plan_measurement import fingerprint
from models.training.resource_needs import FreeResources
from models.training.trainee import Trainee
from models.training.trainee_kinds import make_reader, make_trainee
from models.training.training_plan import (
    DEPTHS,
    INITIALIZED,
    PLAN_VERSION,
    RATES,
    MachineRates,
    TrainingKind,
    TrainingPlan,
    write_plan,
)
from models.training.workspace import Workspace


@dataclass(frozen=True)
class Steps:
    """Round times that rise by the same with every drafted token, and by none with the context."""

    round_s_of_one: float
    token_s: float
    plain: float = 0.010
    learnt: bool = True

    def plain_s(self, context: int) -> float:
        return self.plain

    def round_s(self, length: int, context: int) -> float:
        return self.round_s_of_one + self.token_s * (length - 1)


CHEAP, DEAR = Steps(0.011, 0.001), Steps(0.0255, 0.010)

MEASURED = MachineRates(write=100.0, read=500.0, train=250.0, reply_tokens=200.0, conversation_tokens=250.0)
ROOMY = FreeResources(2**40, None, None)


def plan_for(target: Loaded, kind: TrainingKind, **changes: Any) -> TrainingPlan:
    """24 conversations of 24 tokens, a dozen steps."""
    plan = TrainingPlan(
        version=PLAN_VERSION,
        kind=kind,
        target=target.name,
        fingerprint=fingerprint(target),
        day="2026-01-31",
        prompts="from templates",
        seed=0,
        conversations=24,
        tokens=0,
        held_out=6,
        shard=8,
        rows=8,
        prompt_tokens=96,
        reply_tokens=24,
        steps=12,
        batch_tokens=384,
        initialization_tokens=1000 if kind in INITIALIZED else 0,
        depths=DEPTHS[kind],
        layers=1 if kind in ("draft", "dflash") else 0,
        vocabulary=200,
        learning_rate=RATES[kind],
        stored=True,
        stages_s={"writing": 1.0, "reading": 1.0, "training": 1.0, "judging": 1.0},
    )
    return replace(plan, **changes)


def conversation(tokens: Sequence[int], prompt: int, temperature: float = 0.0) -> Conversation:
    """One that was never written."""
    return Conversation(np.array(tokens, np.int32), prompt, temperature)


def ready(target: Loaded, kind: TrainingKind, talk: Sequence[Conversation]) -> tuple[Trainee, Batches]:
    """A new drafter of this kind, and batches of the conversations for it."""
    plan, reader = plan_for(target, kind), make_reader(target, kind)
    ids = choose_draft_vocabulary(talk, plan.vocabulary, target.model.vocabulary)
    trainee = make_trainee(target, kind, (plan.depths, plan.layers), reader, ids, 0)
    return trainee, Batches(talk, lambda n: reader.read(talk[n]), reader, trainee.ids, trainee.min_context)


def as_tuples(talk: Sequence[Conversation]) -> list[tuple[list[int], int, float]]:
    """To be compared."""
    return [(c.tokens.tolist(), c.prompt, c.temperature) for c in talk]


def begin_fit(
    target: Loaded, out: Path, plan: TrainingPlan, prompts: Sequence[str] = (), times: DrafterTimes = CHEAP
) -> Generator[TrainingProgress, None, None]:
    """A fit that goes on as far as it is asked."""
    place = Workspace(out)
    place.begin()
    write_plan(place.plan_file, plan)
    yield from TrainingPipeline(target, place, plan, prompts, lambda folder: times).run()


def fit(
    target: Loaded, out: Path, plan: TrainingPlan, prompts: Sequence[str] = (), times: DrafterTimes = CHEAP
) -> Workspace:
    """A whole fit."""
    for _ in begin_fit(target, out, plan, prompts, times):
        pass
    return Workspace(out)


def contents(folder: Path) -> Mapping[str, bytes]:
    """The files that decide what a drafter does: all but the reports, which say how long rounds take."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if not path.name.startswith("report.")}
