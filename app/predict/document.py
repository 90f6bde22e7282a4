"""The prediction's one JSON document. Every key is always there; null where a number means nothing.

environment    as in `app.bench.document`
drafter        its name, or that of its folder
tree           whether it drafts trees; draft lengths are then numbers of nodes
prompts        how many
forecasts[]    one law and one rule of acceptance each
  temperature, acceptance_rule, seed     as in `app.bench.document`
  tokens                 of the target's replies, which were written without the drafter
  statistics             of both laws where a draft begins; null where drafts have no law (prompt lookup, Medusa,
                         trees). At temperature 0 the laws are those of temperature 1
    overlap              sum of min(p, q): the chance that rejection keeps a token
    divergence           KL(p || q), nats, over the tokens that the drafter can say
    covered              the target's mass on those
    target_entropy, drafter_entropy      nats
    agreement            how often both hold the same token likeliest
    calibration_error    ECE: how far the drafter's confidence is from what is kept, 0 to 1
    calibration[]        by confidence, in the bins of `engine.gate`: places, confidence, kept; means, null without
                         places
  acceptance_by_position of the longest drafts: share kept at each place (in a tree: depth) of those that got there
  lengths[]              each draft length, 0 left out
    draft_length, and what follows under `auto`
  best_draft_length      the one with the greatest speed-up; 0 is plain decoding
  auto                   the adaptive policy
    tau                  tokens a verify pass
    tau_interval         95 %, prompts drawn anew (bootstrap): [low, high], null for fewer than three prompts
    speedup              over plain decoding, all prompts together
    speedup_interval     as above
    speedup_median       over prompts, which is what `redline bench` calls speedup
    drafted              tokens, on average
  categories[]           the same for the prompts of one category each
    category, prompts, tokens, statistics, acceptance_by_position, best_draft_length
    lengths[], auto      as above
"""

from __future__ import annotations

from typing import Any

from app.predict.forecast import Forecast, Interval, Way
from models.predict.laws import Statistics


def document(environment: dict[str, Any], drafter: str, tree: bool, forecasts: list[Forecast]) -> dict[str, Any]:
    """JSON-ready."""
    return {
        "environment": environment,
        "drafter": drafter,
        "tree": tree,
        "prompts": len(forecasts[0].replies),
        "forecasts": [_forecast(one) for one in forecasts],
    }


def _forecast(forecast: Forecast) -> dict[str, Any]:
    return {
        "temperature": forecast.settings.sampling.temperature,
        "acceptance_rule": forecast.rule,
        "seed": forecast.settings.sampling.seed,
        **_group(forecast),
        "categories": [
            {"category": name, "prompts": len(part.replies), **_group(part)}
            for name, part in ((name, forecast.of(name)) for name in forecast.categories)
        ],
    }


def _group(forecast: Forecast) -> dict[str, Any]:
    longest = forecast.tally(forecast.lengths[-1])
    return {
        "tokens": longest.tokens,
        "statistics": None if forecast.statistics is None else _statistics(forecast.statistics),
        "acceptance_by_position": longest.acceptance_by_position,
        "lengths": [{"draft_length": length, **_way(forecast, length)} for length in forecast.lengths],
        "best_draft_length": forecast.best,
        "auto": _way(forecast, None),
    }


def _way(forecast: Forecast, way: Way) -> dict[str, Any]:
    tally = forecast.tally(way)
    return {
        "tau": tally.tau,
        "tau_interval": _ends(forecast.tau_interval(way)),
        "speedup": tally.speedup,
        "speedup_interval": _ends(forecast.speedup_interval(way)),
        "speedup_median": forecast.middle_speedup(way),
        "drafted": tally.drafted,
    }


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]


def _statistics(statistics: Statistics) -> dict[str, Any]:
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
