"""The benchmark's one JSON document. Every key is always there; null where a number means nothing.

    environment    what it was measured with; names no user, host or folder
      versions               of redline, mlx, mlx-lm and numpy
      python, platform       version of Python; operating system
      processor, cores       its name; logical cores
      device, library        gpu or cpu; what multiplies matrices there
      backend, dtype         both for people, in words; what the target computes in
      target                 name of its folder
      draft_lengths          tokens a round, each or "auto"; tree: whether drafts branch
      max_tokens, stop       longest reply in tokens; texts that end one
      top_p, top_k, min_p    mass; tokens, 0 is off; share of the likeliest token's probability
      repetition_penalty     factor, 1 is off
    runs[]         one reply of one contestant each, in the order of prompts
      question_id, category  as in the file of prompts
      turn                   of the question, from 0
      drafter                none (plain decoding), lookup, a shipped one's or a folder's name, with the draft length
                             behind it where there are several; mlx-lm or mlx-lm+draft
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
      mean_acceptance_length tau: tokens / rounds
      finish_reason          eos, stop (a stop string), length, context or cancelled
      matches_plain          whether the tokens are plain decoding's; null where that isn't promised
      first_difference       null, or where the two part and how near their choices were:
        position             in tokens of the reply, from 0
        gap_ulps, noise_ulps between the two, and what rounding explains: units in the last place, or null
        near_tie             whether rounding explains it
        plain_token, other_token   ids; null where a reply has ended
      speedup                over plain decoding of the same prompt, which is not in it: a ratio (`app.measure`)
      speedup_total          the same from request to last token: a ratio
      speedup_ideal          what `costs` allow these rounds: a ratio
      costs                  of this prompt's passes, in isolation; null for the peer
        pass_s               seconds of a pass, by its width in rows
        draft_s              seconds of a draft, by its length in tokens
    summary[]      one contestant at one temperature each: medians over its runs, and counts of all of them
      drafter, acceptance_rule, temperature
      tokens_per_s, ttft_s, speedup, speedup_total, speedup_ideal     medians, units as above
      mean_acceptance_length, acceptance_rate, acceptance_by_position of the rounds of all runs together
      draft_cost             a drafted token (tree: node) over a pass of the target, both in isolation
      identical              whether every text is plain decoding's; null where that isn't promised
      runs                   how many
      differences, near_ties how many runs differ; how many of those only by rounding; null as above
    interrupted    whether Ctrl-C cut the runs short

The table (`app.bench.table`) is made of the summary.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any

from app.bench.tournament import Run
from app.measure import median, receipt_record, reply_record
from engine.costs import Costs
from engine.errors import RedlineError, UsageError
from engine.metrics import Metrics


def document(environment: dict[str, Any], runs: Sequence[Run], interrupted: bool = False) -> dict[str, Any]:
    """JSON-ready. Speeds and speed-ups of the summary are medians over prompts; acceptance is of all rounds."""
    return {
        "environment": environment,
        "runs": [_run(run) for run in runs],
        "summary": [_group(group) for group in groups(runs)],
        "interrupted": interrupted,
    }


def groups(runs: Sequence[Run]) -> list[list[Run]]:
    """The runs of one contestant at one temperature together, in the order of first appearance."""
    found: dict[tuple[float, str], list[Run]] = {}
    for run in runs:
        found.setdefault((run.settings.sampling.temperature, run.contestant), []).append(run)
    return list(found.values())


def _run(run: Run) -> dict[str, Any]:
    return {
        "question_id": run.question.id,
        "category": run.question.category,
        "turn": run.turn,
        "drafter": run.contestant,
        "acceptance_rule": run.rule,
        "temperature": run.settings.sampling.temperature,
        "seed": run.settings.sampling.seed,
        **reply_record(run.reply),
        **receipt_record(run.receipt),
        "speedup": run.speedup,
        "speedup_total": run.speedup_total,
        "speedup_ideal": run.speedup_ideal,
        "costs": None if run.costs is None else _costs(run.costs),
    }


def _costs(costs: Costs) -> dict[str, Any]:
    """Seconds by width of the pass in rows, and by draft length."""
    return {
        "pass_s": {str(width): seconds for width, seconds in costs.verify},
        "draft_s": {str(length): seconds for length, seconds in costs.draft},
    }


def _group(runs: list[Run]) -> dict[str, Any]:
    """identical: whether every text is plain decoding's; None where that isn't promised."""
    total = totals(runs)
    receipts = [run.receipt for run in runs if run.receipt is not None]
    differing = [receipt for receipt in receipts if not receipt.identical]
    return {
        "drafter": runs[0].contestant,
        "acceptance_rule": runs[0].rule,
        "temperature": runs[0].settings.sampling.temperature,
        "tokens_per_s": median(run.reply.metrics.tokens_per_s for run in runs),
        "ttft_s": median(run.reply.metrics.ttft_s for run in runs),
        "speedup": median(run.speedup for run in runs),
        "speedup_total": median(run.speedup_total for run in runs),
        "speedup_ideal": median(run.speedup_ideal for run in runs),
        "mean_acceptance_length": total.mean_acceptance_length,
        "acceptance_rate": total.acceptance_rate,
        "acceptance_by_position": total.acceptance_by_position,
        "draft_cost": median(_draft_cost(run) for run in runs),
        "identical": not differing if receipts else None,
        "runs": len(runs),
        "differences": len(differing) if receipts else None,
        "near_ties": sum(receipt.near_tie for receipt in differing) if receipts else None,
    }


def totals(runs: Sequence[Run]) -> Metrics:
    """The counts of all runs together."""
    metrics = [run.reply.metrics for run in runs]
    return Metrics(
        tokens=sum(m.tokens for m in metrics),
        rounds=sum(m.rounds for m in metrics),
        drafted=sum(m.drafted for m in metrics),
        accepted=sum(m.accepted for m in metrics),
        reached=_sums([m.reached for m in metrics]),
        kept=_sums([m.kept for m in metrics]),
    )


def _sums(counts: Sequence[Sequence[int]]) -> list[int]:
    """Place by place; what a shorter one lacks counts as 0."""
    return [sum(column) for column in zip_longest(*counts, fillvalue=0)]


def _draft_cost(run: Run) -> float | None:
    """One drafted step over one pass of the target; of the longest draft that was measured, divided by its length."""
    longest = run.costs.draft[-1] if run.costs is not None else (0, 0.0)
    return longest[1] / longest[0] / run.costs.pass_s(1) if run.costs is not None and longest[1] else None


def check_writable(path: Path) -> None:
    """Raises UsageError for a place where the document can't be written, before the runs rather than after."""
    try:
        fits = _is_writable(path)
    except (OSError, ValueError):  # a name too long, or with a NUL in it
        fits = False
    if not fits:
        raise UsageError(f"{str(path)!r} cannot be written: give --json a file in a folder of yours")


def _is_writable(path: Path) -> bool:
    """Whether the folder takes a new file, and what stands at `path`, if anything, is a file that may be replaced."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return os.access(path.parent, os.W_OK)
    return stat.S_ISREG(mode) and os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def write(path: Path, value: dict[str, Any]) -> None:
    """The whole document or none of it. Raises RedlineError where the disk won't have it."""
    draft = path.with_name(f".redline-{os.getpid()}")  # not longer than a name may be, whatever the path's
    try:
        draft.write_text(json.dumps(value, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise RedlineError(f"{path} cannot be written ({error.strerror}): run again with --json elsewhere") from error
    finally:
        with suppress(OSError):  # whatever keeps it from going was said above
            draft.unlink(missing_ok=True)
