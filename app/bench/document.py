"""The benchmark's one JSON document: environment, runs, summary, and the costs behind `speedup_ideal`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.bench.tournament import Run
from app.measure import median, receipt_record, reply_record
from engine.costs import Costs
from engine.errors import UsageError
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
    )


def check_writable(path: Path) -> None:
    """Raises UsageError for a place where the document can't be written, before the runs rather than after."""
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"{path} cannot be written: give --json a file in a folder of yours")


def write(path: Path, value: dict[str, Any]) -> None:
    """The whole document or none of it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(json.dumps(value, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror}): give --json another place") from error
    finally:
        draft.unlink(missing_ok=True)
