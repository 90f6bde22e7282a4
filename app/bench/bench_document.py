"""The JSON document of a benchmark. Every key is always there; null where a number means nothing.

It is written again after every prompt, so that nothing measured is lost and `--resume` can continue. Under
exact-verify, "plain decoding" also runs exact-verify; only the speed-ups are over ordinary plain decoding.
Tables and plots are made from the document alone.
"""

import hashlib
import json
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

import msgspec

from app.protocol.race_messages import ServerReport
from engine.audit.receipt import Difference
from engine.errors import RedlineError, UsageError
from engine.metrics import median
from models.durable_files import disk_errors, replace_file

AUTO: Literal["auto"] = "auto"
LARGEST_BYTES = 256 * 1024 * 1024


class StrictStruct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of the document: every field must be there, and nothing else."""


class BenchRun(StrictStruct, frozen=True, kw_only=True):
    """One reply of one contestant. Runs are in the order of the prompts."""

    question_id: int | str  # as in the prompt file
    category: str  # as in the prompt file
    turn: int  # of the question, from 0
    repeat: int  # of this prompt, from 0
    prompt_digest: str  # the start of the SHA-256 of the turn's text
    drafter: str  # the contestant's name: proposer, draft length if there are several, and exact
    proposer: str  # none (plain decoding), lookup, random, a drafter's name; mlx-lm or mlx-lm+draft
    draft_length: int | Literal["auto"] | None  # tokens per round
    peer: bool  # whether it is another engine
    exact: bool  # whether it decoded in exact-verify
    acceptance_rule: str | None  # greedy, rejection or coupled; the peer's is sample-and-match
    temperature: float  # 0 is greedy
    seed: int  # of the noise
    token_ids: list[int]  # of the reply, the end-of-sequence token included
    tokens: int  # how many
    prompt_tokens: int  # the chat template included
    ttft_s: float | None  # seconds from request to first token
    decode_s: float | None  # seconds from first token to last
    total_s: float | None  # seconds from request to last token
    tokens_per_s: float | None  # decode speed: (tokens - 1) / decode_s
    rounds: int  # verify passes
    waits_per_round: float | None = None  # how often a round waited for the device, at least 1; null for the peer
    drafted: int  # tokens
    accepted: int  # tokens
    acceptance_rate: float | None  # accepted / drafted
    acceptance_by_position: list[float]  # share accepted at each position, of the rounds that reached it
    mean_acceptance_length: float | None  # tau: tokens / rounds
    finish_reason: str | None  # eos, stop (a stop string), length, context or cancelled
    reached: list[int]  # rounds that reached each position of a draft
    kept: list[int]  # rounds that accepted the token there
    drafts: dict[str, int]  # rounds by the number of drafted tokens, the last round left out
    matches_plain: bool | None  # whether the tokens are plain decoding's; null where that is not promised
    same_bits: bool | None  # in exact-verify, whether all logits are plain decoding's to the last bit
    first_difference: Difference | None  # from plain decoding, without the texts of the two tokens
    speedup: float | None  # decode speed over plain decoding of the same prompt (`engine.metrics`)
    speedup_total: float | None  # the same from request to last token
    round_s: dict[str, float]  # median seconds of a round, by the number of drafted tokens; empty for the peer
    report: ServerReport | None = None  # of a server: what it says of the reply
    arrivals_s: list[float] = []  # of a server: seconds from request to each time that something arrived

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
    """The results of one contestant at one temperature: speeds are medians over its runs, acceptance is over all its
    rounds. Units as in BenchRun."""

    drafter: str
    acceptance_rule: str | None
    temperature: float
    tokens_per_s: float | None
    ttft_s: float | None
    speedup: float | None
    speedup_total: float | None
    mean_acceptance_length: float | None
    acceptance_rate: float | None
    acceptance_by_position: list[float]
    identical: bool | None  # whether every text is plain decoding's; null where that is not promised
    runs: int  # how many
    differences: int | None  # runs that differ
    near_ties: int | None  # runs that differ only by rounding


class BenchDocument(StrictStruct, frozen=True, kw_only=True):
    """The whole document. environment: as `app.inference.environment.describe` returns it, with the digests of all
    weights; it names no user, host or folder."""

    format: Literal["redline bench"] = "redline bench"
    version: Literal[1] = 1
    environment: dict[str, Any]
    contestants: list[str]  # names, plain decoding first
    runs: list[BenchRun]
    summary: list[BenchSummary]
    interrupted: bool  # whether runs are missing
    drift: float | None = None  # with a server: decode speed of plain decoding at the end over the same at the start


def make_document(
    environment: dict[str, Any],
    contestants: Sequence[str],
    rows: Sequence[BenchRun],
    interrupted: bool = False,
    drift: float | None = None,
) -> BenchDocument:
    """Builds the document. Speeds in its summary are medians over prompts; acceptance is over all rounds."""
    return BenchDocument(
        environment=environment,
        contestants=list(contestants),
        runs=list(rows),
        summary=[_summary(group) for group in runs_by_contestant(rows)],
        interrupted=interrupted,
        drift=drift,
    )


def _summary(rows: Sequence[BenchRun]) -> BenchSummary:
    """Summarizes the runs of one contestant at one temperature."""
    promised = [row for row in rows if row.matches_plain is not None]
    differing = [row for row in promised if not row.matches_plain]
    near_ties = [row for row in differing if row.first_difference and row.first_difference.near_tie]
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
        mean_acceptance_length=sum(row.tokens for row in rows) / rounds if rounds else None,
        acceptance_rate=accepted / drafted if drafted else None,
        acceptance_by_position=acceptance_by_position(rows),
        identical=not differing if promised else None,
        runs=len(rows),
        differences=len(differing) if promised else None,
        near_ties=len(near_ties) if promised else None,
    )


def acceptance_by_position(rows: Sequence[BenchRun], least: int = 1) -> list[float]:
    """Returns the share of drafted tokens accepted at each position, over the rounds that reached it.

    Stops at the first position that fewer than `least` rounds reached.
    """
    reached = map(sum, zip_longest(*(row.reached for row in rows), fillvalue=0))
    kept = map(sum, zip_longest(*(row.kept for row in rows), fillvalue=0))
    return [k / n for k, n in zip(kept, reached, strict=True) if n >= least]


def runs_by_contestant(rows: Sequence[BenchRun]) -> list[list[BenchRun]]:
    """Groups the runs by contestant and temperature, in the order of first appearance."""
    found: dict[tuple[float, str], list[BenchRun]] = {}
    for row in rows:
        found.setdefault((row.temperature, row.drafter), []).append(row)
    return list(found.values())


def digest(text: str) -> str:
    """Returns a digest of a turn, which tells whether two prompt files contain the same one."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_document(path: Path) -> BenchDocument:
    """Reads a document and computes its summary again. Raises UsageError for anything else, or another version."""
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise UsageError(f"{path} is too large to be a document of redline bench: choose another file")
        found = msgspec.json.decode(path.read_bytes(), type=BenchDocument)
    except (OSError, ValueError, RecursionError) as error:  # msgspec's errors and a NUL in the path are ValueErrors
        reason = str(getattr(error, "strerror", None) or error).splitlines()[0]
        raise UsageError(
            f"{str(path)!r} is not a document of this version of redline bench ({reason}): measure again"
        ) from error
    return make_document(found.environment, found.contestants, found.runs, found.interrupted, found.drift)


def write_document(path: Path, value: msgspec.Struct | dict[str, Any]) -> None:
    """Writes the whole document or nothing. Raises RedlineError when it cannot be written."""
    built = value if isinstance(value, dict) else msgspec.to_builtins(value)
    content = json.dumps(built, indent=1, allow_nan=False) + "\n"
    write_file(path, content.encode(), "--json")


def write_file(path: Path, content: bytes, option: str) -> None:
    """Replaces a file, or leaves it as it was. Raises RedlineError when it cannot be written."""
    with disk_errors(lambda why: RedlineError(f"{path} cannot be written ({why}): choose another file for {option}")):
        replace_file(path, content)
