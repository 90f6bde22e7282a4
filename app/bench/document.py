"""The benchmark's one JSON document. Every key is always there; null where a number means nothing.

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
      speedup                over plain decoding of the same prompt, which is not in it: a ratio (`app.speedup`)
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

It is written anew behind every prompt, so that what was measured is never lost, and `--resume` goes on from there. In
exact-verify "plain decoding" is plain decoding in exact-verify, but for the speed-ups, which are over the usual one.
Tables and plots are made of the document alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec

from app.bench.rows import Document, Row, Summary, groups
from app.speedup import median
from engine.errors import RedlineError, UsageError
from models import disk

LARGEST_BYTES = 256 * 1024 * 1024


def document(
    environment: dict[str, Any], contestants: Sequence[str], rows: Sequence[Row], interrupted: bool = False
) -> Document:
    """Speeds and speed-ups of the summary are medians over prompts; acceptance is of all rounds."""
    return Document(
        environment=environment,
        contestants=list(contestants),
        runs=list(rows),
        summary=[_summary(group) for group in groups(rows)],
        interrupted=interrupted,
    )


def _summary(rows: Sequence[Row]) -> Summary:
    """identical: whether every text is plain decoding's; None where that isn't promised."""
    promised = [row for row in rows if row.matches_plain is not None]
    differing = [row for row in promised if not row.matches_plain]
    drafted, accepted = sum(row.drafted for row in rows), sum(row.accepted for row in rows)
    rounds = sum(row.rounds for row in rows)
    return Summary(
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
        acceptance_by_position=by_position(rows),
        draft_cost=median(_draft_cost(row) for row in rows),
        identical=not differing if promised else None,
        runs=len(rows),
        differences=len(differing) if promised else None,
        near_ties=sum(_near_tie(row) for row in differing) if promised else None,
    )


def by_position(rows: Sequence[Row], least: int = 1) -> list[float]:
    """Share of drafted tokens kept at each draft position, of the rounds of all `rows` that got that far, as long as at
    `least` so many did."""
    reached, kept = (_sums([getattr(row, name) for row in rows]) for name in ("reached", "kept"))
    return [k / n for k, n in zip(kept, reached, strict=True) if n >= least]


def _sums(counts: Sequence[Sequence[int]]) -> list[int]:
    """Place by place; what a shorter one lacks counts as 0."""
    return [sum(column) for column in zip_longest(*counts, fillvalue=0)]


def _near_tie(row: Row) -> bool:
    return row.first_difference is not None and row.first_difference.near_tie


def _draft_cost(row: Row) -> float | None:
    """One drafted step over one pass of the target; of the longest draft that was measured, divided by its length."""
    if row.costs is None:
        return None
    length, seconds = max((int(length), seconds) for length, seconds in row.costs.draft_s.items())
    return seconds / length / row.costs.pass_s["1"] if seconds else None


# --- on disk ----------------------------------------------------------------------------------------------------------


def read(path: Path) -> Document:
    """A document that was written before, its summary made anew. Raises UsageError for what is none, or of another
    version."""
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise UsageError(f"{path} is too large for a document of redline bench: give one that it wrote")
        found = msgspec.json.decode(path.read_bytes(), type=Document)
    except (OSError, ValueError) as error:  # msgspec's errors and a NUL in the path are ValueErrors
        reason = str(getattr(error, "strerror", None) or error).splitlines()[0]
        raise UsageError(f"{str(path)!r} is no document of this redline bench ({reason}): measure again") from error
    except RecursionError as error:
        raise UsageError(f"{str(path)!r} is no document of redline bench (nested too deep): measure again") from error
    return document(found.environment, found.contestants, found.runs, found.interrupted)


def write(path: Path, value: dict[str, Any]) -> None:
    """The whole document or none of it. Raises RedlineError where the disk won't have it."""
    content = json.dumps(value, indent=1, allow_nan=False) + "\n"
    replace(path, content.encode(), "--json")


def replace(path: Path, content: bytes, option: str) -> None:
    """A file with `content` in place of what was there, or what was there. Raises RedlineError."""
    try:
        disk.replace_file(path, content)
    except OSError as error:
        raise RedlineError(f"{path} cannot be written ({error.strerror}): run again with {option} elsewhere") from error
