"""The forecast as tables with a recommendation, and as a JSON document, in which every key is always there."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.cli.terminal.output import ruled_table
from models.forecast.forecast import DraftLength, Forecast, Rates

_LEGEND = (
    "tau: mean acceptance length, tokens per pass. speed-up: over plain decoding, all prompts together, from {times}. "
    "±: half of the 95% interval over prompts. accepted: by position, of the tokens verified there."
)
_TIMES = {True: "round times of this machine", False: "typical round times: this pair has not replied here yet"}


def show(console: Console, about: str, forecasts: Sequence[Forecast], tree: bool, learnt: bool) -> None:
    """Prints the forecasts. about: the pair and the prompts, in a line. tree: whether draft lengths count nodes.
    learnt: whether round times are of this machine."""
    console.print()
    console.print(Text(about, "dim"))
    console.print(_lengths(forecasts, tree))
    console.print(Text(_LEGEND.format(times=_TIMES[learnt]), "dim"))
    if len(forecasts[0].categories) > 1:
        console.print(_categories(forecasts))
    for forecast in forecasts:
        console.print(Text(recommendation(forecast, tree), "bold"), soft_wrap=True)


def recommendation(forecast: Forecast, tree: bool = False) -> str:
    """Returns the recommendation in a sentence."""
    label, rates = sampling_label(forecast), forecast.rates
    auto = f"auto: {_speedup(rates[None])} expected"
    if not forecast.best:
        closest = max(forecast.lengths, key=lambda length: rates[length].speedup)
        most = f"{_speedup(rates[closest])} at best with {closest}"
        return f"{label}: no fixed draft length is faster than plain decoding, {most}; {auto}"
    unit, best = "tree of" if tree else "draft length", rates[forecast.best]
    return f"{label}: {unit} {forecast.best} is best, {_speedup(best)} at tau {_tau(best)}; {auto}"


def sampling_label(forecast: Forecast) -> str:
    """Returns the temperature, with the acceptance rule if it matters."""
    temperature = forecast.settings.temperature
    return f"T {temperature:g}" if temperature == 0 else f"T {temperature:g}, {forecast.rule}"


def _speedup(rates: Rates) -> str:
    return f"{rates.speedup:.2f}x{half_width(rates.speedup_interval)}"


def _tau(rates: Rates) -> str:
    return f"{rates.tau:.2f}{half_width(rates.tau_interval)}"


def half_width(interval: tuple[float, float] | None) -> str:
    """Returns how far an interval reaches to either side, "" for none."""
    return "" if interval is None else f" ±{(interval[1] - interval[0]) / 2:.2f}"


def _lengths(forecasts: Sequence[Forecast], tree: bool) -> Table:
    table = ruled_table(["sampling"], ["nodes" if tree else "length", "tau", "speed-up", "accepted"])
    for forecast in forecasts:
        lengths: list[DraftLength] = [*forecast.lengths, None]
        for length in lengths:
            rates, called = forecast.rates[length], "auto" if length is None else str(length)
            accepted = " ".join(f"{share:.2f}".removeprefix("0") for share in rates.acceptance_by_position)
            first = sampling_label(forecast) if length == lengths[0] else ""
            style = "bold" if length == forecast.best else ""
            table.add_row(first, called, _tau(rates), _speedup(rates), accepted, style=style)
        table.add_section()
    return table


def _categories(forecasts: Sequence[Forecast]) -> Table:
    """Returns each category at the draft length that is best for it alone."""
    table = ruled_table(["category"], ["sampling", "prompts", "tokens", "accepted", "best", "tau", "speed-up", "auto"])
    for forecast in forecasts:
        for name, part in forecast.categories.items():
            best, accepted = part.rates[part.best], part.rates[part.best or part.lengths[0]].acceptance_by_position
            numbers = str(len(part.replies)), str(part.tokens), f"{accepted[0]:.0%}" if accepted else "-"
            rates = str(part.best), f"{best.tau:.2f}", f"{best.speedup:.2f}x", f"{part.rates[None].speedup:.2f}x"
            table.add_row(name, sampling_label(forecast), *numbers, *rates)
        table.add_section()
    return table


# --- the document ---------------------------------------------------------------------------------


def document(about: dict[str, Any], forecasts: Sequence[Forecast]) -> dict[str, Any]:
    """Returns the forecasts of one pair, ready for JSON. about: what was forecast, and how."""
    records = [
        {
            "temperature": one.settings.temperature,
            "acceptance_rule": one.rule,
            "seed": one.settings.seed,
            **_record(one),
            "categories": [{"category": name, **_record(part)} for name, part in one.categories.items()],
        }
        for one in forecasts
    ]
    return {**about, "prompts": len(forecasts[0].replies), "forecasts": records}


def _record(forecast: Forecast) -> dict[str, Any]:
    return {
        "prompts": len(forecast.replies),
        "tokens": forecast.tokens,  # in the target's replies, which were written without the drafter
        "lengths": [{"draft_length": length, **asdict(forecast.rates[length])} for length in forecast.lengths],
        "best_draft_length": forecast.best,  # 0 is plain decoding
        "auto": asdict(forecast.rates[None]),
    }
