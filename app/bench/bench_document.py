"""The benchmark's JSON document. Every key is always present; null where a number means nothing.

    format, version "redline bench", 1
    environment    what it was measured with; names no user, host or folder
      versions               of redline, mlx, mlx-lm and numpy
      python, platform       version of Python; operating system
      processor, cores       its name; logical cores
      device, library        gpu or cpu; what multiplies matrices there
      backend, dtype         both for people, in words; what the target computes in
      target                 name of its folder
      weights                a digest of its weights and of each drafter's, by the names of their folders
      kv_bits, context       bits of its keys and values, most tokens of prompt and reply; null where nobody set one
      draft_lengths          tokens a round, each or "auto"; tree: whether drafts branch
      max_tokens, stop       longest reply in tokens; texts that end one
      top_p, top_k, min_p    mass; tokens, 0 is off; share of the likeliest token's probability
      repetition_penalty     factor, 1 is off
    contestants    by name, plain decoding first
    runs[]         one reply of one contestant each, in the order of prompts
      question_id, category  as in the file of prompts
      turn, repeat           of the question; of this prompt; both from 0
      prompt_digest          the start of the SHA-256 of the turn's text
      drafter                none (plain decoding), lookup, random, a shipped one's or a folder's name, with the draft
                             length behind it where there are several, and exact; mlx-lm or mlx-lm+draft
      proposer, draft_length the same without what stands behind it; tokens a round, "auto" or null
      peer, exact            whether it is another engine; whether it decoded in exact-verify
      acceptance_rule        greedy, rejection or coupled; the peer's sample-and-match, or null
      temperature, seed      0 is greedy; of the noise
      token_ids, tokens      the reply, its end-of-sequence token included; how many
      prompt_tokens          tokens, chat template included
      ttft_s                 seconds from request to first token
      decode_s               seconds from first token to last
      total_s                seconds from request to last token
      tokens_per_s           decode speed: (tokens - 1) / decode_s
      rounds                 verify passes
      waits_per_round        how often a round waited for the device, 1 or more; null for the peer
      drafted, accepted      tokens
      acceptance_rate        accepted / drafted, 0 to 1
      acceptance_by_position share kept at each place of a draft, of the rounds that got that far
      reached, kept          rounds that got to each place of a draft; that kept it
      drafts                 rounds by the tokens that were drafted in them, the reply's last round left out
      mean_acceptance_length tau: tokens / rounds
      finish_reason          eos, stop (a stop string), length, context or cancelled
      matches_plain          whether the tokens are plain decoding's; null where that isn't promised
      same_bits              in exact-verify, whether all logits are plain decoding's to the last bit; else null
      first_difference       null, or where the two part and how near their choices were:
        position             in tokens of the reply, from 0
        gap_ulps, noise_ulps between the two, and what rounding explains: units in the last place, or null
        near_tie             whether rounding explains it
        plain_token, other_token   ids; null where a reply has ended
      speedup                decode speed over plain decoding of the same prompt: a ratio (`app.inference.speedup`)
      speedup_total          the same from request to last token: a ratio
      speedup_ideal          what `costs` allow these rounds: a ratio
      costs                  of this prompt's passes, in isolation; null for the peer
        pass_s               seconds of a pass, by its width in rows
        draft_s              seconds of a draft, by its length in tokens
        plain_s              seconds of a step in a run of plain ones; null where nobody measured it
        ungated_s            seconds of a round of one drafted token, its pass built meanwhile; null likewise
    summary[]      one contestant at one temperature each: medians over its runs, and counts of all of them
      drafter, acceptance_rule, temperature
      tokens_per_s, ttft_s, speedup, speedup_total, speedup_ideal     medians, units as above
      mean_acceptance_length, acceptance_rate, acceptance_by_position of the rounds of all runs together
      draft_cost             a drafted token (tree: node) over a pass of the target, both in isolation
      identical              whether every text is plain decoding's; null where that isn't promised
      runs                   how many
      differences, near_ties how many runs differ; how many of those only by rounding; null as above
    interrupted    whether runs are missing: Ctrl-C or something worse cut them short

It is written again after every prompt, so that nothing measured is lost and `--resume` can continue. In
exact-verify "plain decoding" is plain decoding in exact-verify, but for the speed-ups, which are over the usual one.
Tables and plots are made from the document alone.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

import msgspec

from app.bench.benchmark import MeasuredRun
from app.inference.measured_reply import receipt_record, reply_record
from app.inference.speedup import median
from engine.audit.receipt import Difference
from engine.errors import RedlineError, UsageError
from engine.policy.costs import Costs
from models import durable_files

AUTO: Literal["auto"] = "auto"
LARGEST_BYTES = 256 * 1024 * 1024


class StrictStruct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every field must be there, and nothing else."""


class MeasuredCosts(StrictStruct, frozen=True, kw_only=True):
    """Seconds of a pass by width, a draft by length, a plain step, and a whole round of one drafted token."""

    pass_s: dict[str, float]
    draft_s: dict[str, float]
    plain_s: float | None = None
    ungated_s: float | None = None


class FirstDifference(StrictStruct, frozen=True, kw_only=True):
    """Where a reply first differs from plain decoding."""

    position: int
    gap_ulps: float | None
    noise_ulps: float | None
    near_tie: bool
    plain_token: int | None
    other_token: int | None


class BenchRun(StrictStruct, frozen=True, kw_only=True):
    """One reply of one contestant, as the document keeps it."""

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
    waits_per_round: float | None = None
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
    first_difference: FirstDifference | None
    speedup: float | None
    speedup_total: float | None
    speedup_ideal: float | None
    costs: MeasuredCosts | None

    @property
    def failed(self) -> bool:
        """Whether Redline's text differs from plain decoding's by more than a near-tie, or, in exact-verify, a bit of
        its logits at all."""
        found = self.first_difference
        return self.same_bits is False or (not self.peer and found is not None and not found.near_tie)

    @property
    def where(self) -> str:
        """Names the prompt of this run in messages."""
        turn = f", turn {self.turn + 1}" if self.turn else ""
        again = f", run {self.repeat + 1}" if self.repeat else ""
        return f"question {self.question_id}{turn}{again}, T {self.temperature:g}"


class BenchSummary(StrictStruct, frozen=True, kw_only=True):
    """The results of one contestant at one temperature."""

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


class BenchDocument(StrictStruct, frozen=True, kw_only=True):
    """The whole document. environment: as `app.inference.environment` describes it."""

    format: Literal["redline bench"] = "redline bench"
    version: Literal[1] = 1
    environment: dict[str, Any]
    contestants: list[str]
    runs: list[BenchRun]
    summary: list[BenchSummary]
    interrupted: bool


def bench_run(run: MeasuredRun) -> BenchRun:
    """Returns what the document keeps of a measured run."""
    reply, sampling = run.reply, run.settings
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
    return msgspec.convert(record, BenchRun)


def _drafts(run: MeasuredRun) -> Iterator[tuple[str, int]]:
    """Counts rounds by the number of drafted tokens, except the last, whose draft the end of the reply cuts."""
    counts = Counter(len(round_.drafted) for round_ in run.reply.rounds[:-1])
    for length, count in sorted(counts.items()):
        yield str(length), count


def _measured(costs: Costs) -> dict[str, Any]:
    """Returns costs as the document keeps them."""
    return {
        "pass_s": {str(width): seconds for width, seconds in costs.verify},
        "draft_s": {str(length): seconds for length, seconds in costs.draft},
        "plain_s": costs.plain_s,
        "ungated_s": costs.eager,
    }


def make_document(
    environment: dict[str, Any], contestants: Sequence[str], rows: Sequence[BenchRun], interrupted: bool = False
) -> BenchDocument:
    """Builds the document. Speeds in its summary are medians over prompts; acceptance is over all rounds."""
    return BenchDocument(
        environment=environment,
        contestants=list(contestants),
        runs=list(rows),
        summary=[_summary(group) for group in runs_by_contestant(rows)],
        interrupted=interrupted,
    )


def _summary(rows: Sequence[BenchRun]) -> BenchSummary:
    """Summarises the runs of one contestant at one temperature."""
    promised = [row for row in rows if row.matches_plain is not None]
    differing = [row for row in promised if not row.matches_plain]
    drafted, accepted = sum(row.drafted for row in rows), sum(row.accepted for row in rows)
    rounds = sum(row.rounds for row in rows)
    return BenchSummary(
        drafter=rows[0].drafter,
        acceptance_rule=rows[0].acceptance_rule,
        temperature=rows[0].temperature,
        tokens_per_s=median(row.tokens_per_s for row in rows),
        ttft_s=median(row.ttft_s for row in rows),
        speedup=median(row.speedup for row in rows),
        speedup_total=median(row.speedup_total for row in rows),
        speedup_ideal=median(row.speedup_ideal for row in rows),
        mean_acceptance_length=sum(row.tokens for row in rows) / rounds if rounds else None,
        acceptance_rate=accepted / drafted if drafted else None,
        acceptance_by_position=acceptance_by_position(rows),
        draft_cost=median(_draft_cost(row) for row in rows),
        identical=not differing if promised else None,
        runs=len(rows),
        differences=len(differing) if promised else None,
        near_ties=sum(_near_tie(row) for row in differing) if promised else None,
    )


def acceptance_by_position(rows: Sequence[BenchRun], least: int = 1) -> list[float]:
    """Returns the share of drafted tokens accepted at each position, over the rounds that reached it.

    Stops at the first position that fewer than `least` rounds reached.
    """
    reached, kept = (_sums([getattr(row, name) for row in rows]) for name in ("reached", "kept"))
    return [k / n for k, n in zip(kept, reached, strict=True) if n >= least]


def _sums(counts: Sequence[Sequence[int]]) -> list[int]:
    """Adds the counts position by position."""
    return [sum(column) for column in zip_longest(*counts, fillvalue=0)]


def _near_tie(row: BenchRun) -> bool:
    return row.first_difference is not None and row.first_difference.near_tie


def _draft_cost(row: BenchRun) -> float | None:
    """Returns the cost of one drafted token in passes of the target, from the longest draft that was measured."""
    if row.costs is None:
        return None
    length, seconds = max((int(length), seconds) for length, seconds in row.costs.draft_s.items())
    return seconds / length / row.costs.pass_s["1"] if seconds else None


def runs_by_contestant(rows: Sequence[BenchRun]) -> list[list[BenchRun]]:
    """Groups the runs by contestant and temperature, in the order of first appearance."""
    found: dict[tuple[float, str], list[BenchRun]] = {}
    for row in rows:
        found.setdefault((row.temperature, row.drafter), []).append(row)
    return list(found.values())


def digest(text: str) -> str:
    """Returns a digest of a turn, which tells whether two prompt files contain the same one."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def difference_text(found: FirstDifference) -> str:
    """Describes a difference in the words of a receipt."""
    return str(Difference(**msgspec.structs.asdict(found)))


def to_json_object(value: msgspec.Struct) -> dict[str, Any]:
    """Returns a value as a JSON object, its keys in the order of the fields."""
    built: dict[str, Any] = msgspec.to_builtins(value)
    return built


def read_document(path: Path) -> BenchDocument:
    """Reads a document and computes its summary again. Raises UsageError for anything else, or another version."""
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise UsageError(f"{path} is too large to be a document of redline bench: choose another file")
        found = msgspec.json.decode(path.read_bytes(), type=BenchDocument)
    except (OSError, ValueError) as error:  # msgspec's errors and a NUL in the path are ValueErrors
        reason = str(getattr(error, "strerror", None) or error).splitlines()[0]
        raise UsageError(
            f"{str(path)!r} is not a document of this version of redline bench ({reason}): measure again"
        ) from error
    except RecursionError as error:
        raise UsageError(
            f"{str(path)!r} is not a document of redline bench (nested too deeply): measure again"
        ) from error
    return make_document(found.environment, found.contestants, found.runs, found.interrupted)


def _unreadable(path: Path, reason: str) -> UsageError:
    return UsageError(f"{str(path)!r} is not a document of this version of redline bench ({reason}): measure again")


def write_document(path: Path, value: dict[str, Any]) -> None:
    """Writes the whole document or nothing. Raises RedlineError when it cannot be written."""
    content = json.dumps(value, indent=1, allow_nan=False) + "\n"
    write_file(path, content.encode(), "--json")


def write_file(path: Path, content: bytes, option: str) -> None:
    """Replaces a file, or leaves it as it was. Raises RedlineError when it cannot be written."""
    try:
        durable_files.replace_file(path, content)
    except OSError as error:
        raise RedlineError(f"{path} cannot be written ({error.strerror}): choose another file for {option}") from error
