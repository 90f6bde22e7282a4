"""The forecast as tables: draft lengths, categories and distributions, then a recommendation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.cli.terminal.output import ruled_table
from app.forecast.forecast import DraftLength, Forecast, Interval

_LEGEND = (
    "tau: tokens per pass. speed-up: over plain decoding on this machine, all prompts together, from measured pass "
    "times. ±: half of the 95% interval over prompts. accepted: by position, of the tokens verified there."
)
_OVERLAP_LEGEND = (
    "overlap: of p and q, the probability that rejection accepts a token. KL: of q from p, in nats. entropy: of p / q, "
    "in nats. ECE: distance of the drafter's confidence from the acceptance. agree: same most likely token. "
    "At temperature 0 the distributions are those of temperature 1."
)


def show(console: Console, about: str, forecasts: Sequence[Forecast], tree: bool) -> None:
    """Prints the forecasts. about: the pair and the prompts, in a line. tree: whether draft lengths count nodes."""
    console.print()
    console.print(Text(about, "dim"))
    console.print(_lengths(forecasts, tree))
    console.print(Text(_LEGEND, "dim"))
    if len(forecasts[0].categories) > 1:
        console.print(_categories(forecasts))
    if any(one.statistics is not None for one in forecasts):
        console.print(_overlaps(forecasts))
        console.print(Text(_OVERLAP_LEGEND, "dim"))
    for forecast in forecasts:
        console.print(Text(recommendation(forecast, tree), "bold"), soft_wrap=True)


def recommendation(forecast: Forecast, tree: bool = False) -> str:
    """Returns the recommendation in a sentence."""
    auto = f"auto: {_ratio(forecast, None)} expected"
    if not forecast.best:
        most = max(forecast.lengths, key=forecast.speedup)
        closest = f"{_ratio(forecast, most)} at best with {most}"
        return f"{sampling_label(forecast)}: no fixed draft length is faster than plain decoding, {closest}; {auto}"
    best = forecast.best
    unit = "tree of" if tree else "draft length"
    rates = f"{_ratio(forecast, best)} at tau {_tau(forecast, best)}"
    return f"{sampling_label(forecast)}: {unit} {best} is best, {rates}; {auto}"


def sampling_label(forecast: Forecast) -> str:
    """Returns the temperature, with the acceptance rule if it matters."""
    temperature = forecast.settings.temperature
    return f"T {temperature:g}" if temperature == 0 else f"T {temperature:g}, {forecast.rule}"


def _ratio(forecast: Forecast, length: DraftLength) -> str:
    return f"{forecast.speedup(length):.2f}x{_error(forecast.speedup_interval(length))}"


def _tau(forecast: Forecast, length: DraftLength) -> str:
    return f"{forecast.totals(length).tau:.2f}{_error(forecast.tau_interval(length))}"


def _error(interval: Interval | None) -> str:
    return "" if interval is None else f" ±{(interval.high - interval.low) / 2:.2f}"


def _lengths(forecasts: Sequence[Forecast], tree: bool) -> Table:
    table = ruled_table(["sampling"], ["nodes" if tree else "length", "tau", "speed-up", "accepted"])
    for forecast in forecasts:
        lengths: list[DraftLength] = [*forecast.lengths, None]
        for length in lengths:
            first = sampling_label(forecast) if length == lengths[0] else ""
            style = "bold" if length == forecast.best else ""
            called = "auto" if length is None else str(length)
            table.add_row(
                first, called, _tau(forecast, length), _ratio(forecast, length), _kept(forecast, length), style=style
            )
        table.add_section()
    return table


def _kept(forecast: Forecast, length: DraftLength) -> str:
    return " ".join(f"{share:.2f}".removeprefix("0") for share in forecast.totals(length).acceptance_by_position)


def _categories(forecasts: Sequence[Forecast]) -> Table:
    table = ruled_table(["category"], ["sampling", "prompts", "tokens", "accepted", "best", "tau", "speed-up", "auto"])
    for forecast in forecasts:
        for name in forecast.categories:
            table.add_row(*_category(name, forecast, forecast.category(name)))
        table.add_section()
    return table


def _category(name: str, forecast: Forecast, part: Forecast) -> Iterator[str]:
    """Yields the cells of a category, at the draft length that is best for it alone."""
    best = part.best or part.lengths[0]
    kept = part.totals(best).acceptance_by_position
    yield name
    yield sampling_label(forecast)
    yield str(len(part.replies))
    yield str(part.totals(best).tokens)
    yield f"{kept[0]:.0%}" if kept else "-"
    yield str(part.best)
    yield f"{part.totals(best).tau:.2f}" if part.best else "1.00"
    yield f"{part.speedup(part.best):.2f}x"
    yield f"{part.speedup(None):.2f}x"


def _overlaps(forecasts: Sequence[Forecast]) -> Table:
    table = ruled_table(["sampling"], ["overlap", "KL", "entropy", "ECE", "agree", "covered"])
    for forecast in forecasts:
        found = forecast.statistics
        if found is not None:
            entropy = f"{found.mean('target_entropy'):.2f} / {found.mean('drafter_entropy'):.2f}"
            table.add_row(
                sampling_label(forecast),
                f"{found.mean('overlap'):.3f}",
                f"{found.mean('divergence'):.2f}",
                entropy,
                f"{found.calibration_error:.3f}",
                f"{found.mean('agreed'):.0%}",
                f"{found.mean('covered'):.1%}",
            )
    return table
