"""The JSON document of a forecast. Every key is always there; null if a number has no meaning.

environment    as in `app.bench.bench_document`
drafter        its name, or that of its folder
tree           whether it drafts trees; draft lengths are then numbers of nodes
prompts        how many
forecasts[]    one set of sampling settings and one acceptance rule each
  temperature, acceptance_rule, seed     as in `app.bench.bench_document`
  tokens                 in the target's replies, which were written without the drafter
  statistics             of p and q where a draft starts; null if drafts have no distribution (lookup, Medusa,
                         trees). At temperature 0 the distributions are those of temperature 1
    overlap              sum of min(p, q): the probability that rejection accepts a token
    divergence           KL(p || q), nats, over the drafter's vocabulary
    covered              the target's mass on those
    target_entropy, drafter_entropy      nats
    agreement            how often both have the same most likely token
    calibration_error    ECE: distance of the drafter's confidence from the acceptance, 0 to 1
    calibration[]        by confidence, in ten bins of equal width
      places             positions in this bin
      confidence, kept   mean confidence and share accepted; null without positions
  acceptance_by_position of the longest drafts: share accepted at each position (in a tree: depth) of those verified
  lengths[]              each draft length, 0 left out
    draft_length, and what follows under `auto`
  best_draft_length      the one with the greatest speed-up; 0 is plain decoding
  auto                   the adaptive policy
    tau                  tokens per verify pass
    tau_interval         95 %, bootstrap over prompts: [low, high], null for fewer than three prompts
    speedup              over plain decoding, all prompts together
    speedup_interval     as above
    speedup_median       over prompts, which `redline bench` calls speedup
    drafted              tokens, on average
  categories[]           the same for the prompts of one category each
    category, prompts, tokens, statistics, acceptance_by_position, best_draft_length
    lengths[], auto      as above
"""

from __future__ import annotations

from typing import Any

from app.forecast.forecast import DraftLength, Forecast, Interval
from models.forecast.distribution_overlap import OverlapStatistics


def document(environment: dict[str, Any], drafter: str, tree: bool, forecasts: list[Forecast]) -> dict[str, Any]:
    """Returns the document, ready for JSON."""
    return {
        "environment": environment,
        "drafter": drafter,
        "tree": tree,
        "prompts": len(forecasts[0].replies),
        "forecasts": [_forecast(one) for one in forecasts],
    }


def _forecast(forecast: Forecast) -> dict[str, Any]:
    return {
        "temperature": forecast.settings.temperature,
        "acceptance_rule": forecast.rule,
        "seed": forecast.settings.seed,
        **_group(forecast),
        "categories": [
            {"category": name, "prompts": len(part.replies), **_group(part)}
            for name, part in ((name, forecast.category(name)) for name in forecast.categories)
        ],
    }


def _group(forecast: Forecast) -> dict[str, Any]:
    longest = forecast.totals(forecast.lengths[-1])
    return {
        "tokens": longest.tokens,
        "statistics": None if forecast.statistics is None else _statistics(forecast.statistics),
        "acceptance_by_position": longest.acceptance_by_position,
        "lengths": [{"draft_length": length, **_rates(forecast, length)} for length in forecast.lengths],
        "best_draft_length": forecast.best,
        "auto": _rates(forecast, None),
    }


def _rates(forecast: Forecast, length: DraftLength) -> dict[str, Any]:
    totals = forecast.totals(length)
    return {
        "tau": totals.tau,
        "tau_interval": _ends(forecast.tau_interval(length)),
        "speedup": totals.speedup,
        "speedup_interval": _ends(forecast.speedup_interval(length)),
        "speedup_median": forecast.median_speedup(length),
        "drafted": totals.drafted,
    }


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]


def _statistics(statistics: OverlapStatistics) -> dict[str, Any]:
    return {
        "overlap": statistics.mean("overlap"),
        "divergence": statistics.mean("divergence"),
        "covered": statistics.mean("covered"),
        "target_entropy": statistics.mean("target_entropy"),
        "drafter_entropy": statistics.mean("drafter_entropy"),
        "agreement": statistics.mean("agreed"),
        "calibration_error": statistics.calibration_error,
        "calibration": [
            {
                "places": int(places),
                "confidence": confidence / places if places else None,
                "kept": kept / places if places else None,
            }
            for places, confidence, kept in statistics.bins.tolist()
        ],
    }
