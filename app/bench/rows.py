"""The benchmark's document as types, and a run as one of its rows. `app.bench.document` says what the keys mean."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from app.bench.tournament import Run
from app.measure import receipt_record, reply_record
from engine.costs import Costs
from engine.receipt import Difference

AUTO: Literal["auto"] = "auto"


class Struct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every field must be there, and nothing else."""


class Measured(Struct, frozen=True, kw_only=True):
    """Costs, by width in rows and by draft length, of a plain step, and of a round that no gate is asked in."""

    pass_s: dict[str, float]
    draft_s: dict[str, float]
    plain_s: float | None = None
    ungated_s: float | None = None


class First(Struct, frozen=True, kw_only=True):
    """The first difference."""

    position: int
    gap_ulps: float | None
    noise_ulps: float | None
    near_tie: bool
    plain_token: int | None
    other_token: int | None


class Row(Struct, frozen=True, kw_only=True):
    """One reply of one contestant."""

    question_id: int | str
    category: str
    turn: int
    repeat: int
    prompt_digest: str
    drafter: str
    proposer: str
    draft_length: int | Literal["auto"] | None
    peer: bool
    exact: bool
    acceptance_rule: str | None
    temperature: float
    seed: int
    token_ids: list[int]
    tokens: int
    prompt_tokens: int
    ttft_s: float | None
    decode_s: float | None
    total_s: float | None
    tokens_per_s: float | None
    rounds: int
    drafted: int
    accepted: int
    acceptance_rate: float | None
    acceptance_by_position: list[float]
    mean_acceptance_length: float | None
    finish_reason: str | None
    reached: list[int]
    kept: list[int]
    drafts: dict[str, int]
    matches_plain: bool | None
    same_bits: bool | None
    first_difference: First | None
    speedup: float | None
    speedup_total: float | None
    speedup_ideal: float | None
    costs: Measured | None

    @property
    def failed(self) -> bool:
        """Whether Redline's text differs from plain decoding's by more than a near-tie, or, in exact-verify, a bit of
        its logits at all."""
        found = self.first_difference
        return self.same_bits is False or (not self.peer and found is not None and not found.near_tie)

    @property
    def where(self) -> str:
        """For people."""
        turn = f", turn {self.turn + 1}" if self.turn else ""
        again = f", run {self.repeat + 1}" if self.repeat else ""
        return f"question {self.question_id}{turn}{again}, T {self.temperature:g}"


class Summary(Struct, frozen=True, kw_only=True):
    """One contestant at one temperature."""

    drafter: str
    acceptance_rule: str | None
    temperature: float
    tokens_per_s: float | None
    ttft_s: float | None
    speedup: float | None
    speedup_total: float | None
    speedup_ideal: float | None
    mean_acceptance_length: float | None
    acceptance_rate: float | None
    acceptance_by_position: list[float]
    draft_cost: float | None
    identical: bool | None
    runs: int
    differences: int | None
    near_ties: int | None


class Document(Struct, frozen=True, kw_only=True):
    """Everything. environment: as `app.environment` describes it, read by people and compared as a whole."""

    format: Literal["redline bench"] = "redline bench"
    version: Literal[1] = 1
    environment: dict[str, Any]
    contestants: list[str]
    runs: list[Row]
    summary: list[Summary]
    interrupted: bool


def row_of(run: Run) -> Row:
    """What is kept of a run."""
    reply, sampling = run.reply, run.settings.sampling
    record = {
        "question_id": run.question.id,
        "category": run.question.category,
        "turn": run.turn,
        "repeat": run.repeat,
        "prompt_digest": digest(run.question.turns[run.turn]),
        "drafter": run.contestant.name,
        "proposer": run.contestant.proposer,
        "draft_length": run.contestant.draft_length,
        "peer": run.contestant.peer,
        "exact": run.contestant.exact,
        "acceptance_rule": run.rule,
        "temperature": float(sampling.temperature),
        "seed": sampling.seed,
        **reply_record(reply),
        "reached": reply.metrics.reached,
        "kept": reply.metrics.kept,
        "drafts": dict(_drafts(run)),
        **receipt_record(run.receipt),
        "same_bits": None if run.receipt is None else run.receipt.same_bits,
        "speedup": run.speedup,
        "speedup_total": run.speedup_total,
        "speedup_ideal": run.speedup_ideal,
        "costs": None if run.costs is None else _measured(run.costs),
    }
    return msgspec.convert(record, Row)


def digest(text: str) -> str:
    """Of a turn of a question: whether two files of prompts mean the same one."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def groups(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of one contestant at one temperature together, in the order of first appearance."""
    found: dict[tuple[float, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row.temperature, row.drafter), []).append(row)
    return list(found.values())


def in_words(found: First) -> str:
    """As a receipt says it."""
    return str(Difference(**msgspec.structs.asdict(found)))


def plain(value: msgspec.Struct) -> dict[str, Any]:
    """JSON-ready, every key in the order of its field."""
    built: dict[str, Any] = msgspec.to_builtins(value)
    return built


def _drafts(run: Run) -> Iterator[tuple[str, int]]:
    """Rounds by how many tokens were drafted, the last round left out: the end of the reply cuts its draft."""
    counts = Counter(len(round_.drafted) for round_ in run.reply.rounds[:-1])
    for length, count in sorted(counts.items()):
        yield str(length), count


def _measured(costs: Costs) -> dict[str, Any]:
    """Seconds by width of the pass in rows, and by draft length."""
    return {
        "pass_s": {str(width): seconds for width, seconds in costs.verify},
        "draft_s": {str(length): seconds for length, seconds in costs.draft},
        "plain_s": costs.plain_s,
        "ungated_s": costs.eager,
    }
