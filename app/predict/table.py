"""The prediction for people: a verdict, then lengths, categories and laws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.predict.forecast import Forecast, Interval, Way

_LEGEND = (
    "tau: tokens a pass. speed-up: over plain decoding here, all prompts together, from measured passes. ±: half of "
    "what 95 % of samples of prompts would give. accepted: by position, of those that got there."
)
_LAWS = (
    "overlap: of p and q, the chance that rejection keeps a token. KL: of p from q, nats. entropy: of p / q, nats. "
    "ECE: how far the drafter's confidence is from what is kept. agree: both hold the same token likeliest. "
    "At temperature 0 the laws are those of temperature 1."
)


def show(console: Console, about: str, forecasts: Sequence[Forecast], tree: bool) -> None:
    """about: what was foreseen, in a line. tree: whether draft lengths count nodes."""
    console.print()
    console.print(Text(about, "dim"))
    console.print(_lengths(forecasts, tree))
    console.print(Text(_LEGEND, "dim"))
    if len(forecasts[0].categories) > 1:
        console.print(_categories(forecasts))
    if any(one.statistics is not None for one in forecasts):
        console.print(_laws(forecasts))
        console.print(Text(_LAWS, "dim"))
    for forecast in forecasts:
        console.print(Text(verdict(forecast, tree), "bold"), soft_wrap=True)


def verdict(forecast: Forecast, tree: bool = False) -> str:
    """In a sentence, what to do."""
    auto = f"auto is expected to reach {_ratio(forecast, None)}"
    if not forecast.best:
        most = max(forecast.lengths, key=forecast.speedup)
        return (
            f"{named(forecast)}: no fixed draft length pays here, {_ratio(forecast, most)} at best with {most}; {auto}"
        )
    best = forecast.best
    unit = "tree of" if tree else "draft length"
    return f"{named(forecast)}: {unit} {best} is best, {_ratio(forecast, best)} at tau {_tau(forecast, best)}; {auto}"


def named(forecast: Forecast) -> str:
    temperature = forecast.settings.sampling.temperature
    return f"T {temperature:g}" if temperature == 0 else f"T {temperature:g}, {forecast.rule}"


def _ratio(forecast: Forecast, way: Way) -> str:
    return f"{forecast.speedup(way):.2f}x{_error(forecast.speedup_interval(way))}"


def _tau(forecast: Forecast, way: Way) -> str:
    return f"{forecast.tally(way).tau:.2f}{_error(forecast.tau_interval(way))}"


def _error(interval: Interval | None) -> str:
    return "" if interval is None else f" ±{(interval.high - interval.low) / 2:.2f}"


def _table(*columns: str) -> Table:
    """The first column is for words."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(columns[0], overflow="fold")
    for name in columns[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _lengths(forecasts: Sequence[Forecast], tree: bool) -> Table:
    table = _table("law", "nodes" if tree else "length", "tau", "speed-up", "accepted")
    for forecast in forecasts:
        ways: list[Way] = [*forecast.lengths, None]
        for way in ways:
            first = named(forecast) if way == ways[0] else ""
            style = "bold" if way == forecast.best else ""
            called = "auto" if way is None else str(way)
            table.add_row(first, called, _tau(forecast, way), _ratio(forecast, way), _kept(forecast, way), style=style)
        table.add_section()
    return table


def _kept(forecast: Forecast, way: Way) -> str:
    return " ".join(f"{share:.2f}".removeprefix("0") for share in forecast.tally(way).acceptance_by_position)


def _categories(forecasts: Sequence[Forecast]) -> Table:
    table = _table("category", "law", "prompts", "tokens", "accepted", "best", "tau", "speed-up", "auto")
    for forecast in forecasts:
        for name in forecast.categories:
            table.add_row(*_category(name, forecast, forecast.of(name)))
        table.add_section()
    return table


def _category(name: str, forecast: Forecast, part: Forecast) -> Iterator[str]:
    """At the length that is best for this category alone."""
    best = part.best or part.lengths[0]
    kept = part.tally(best).acceptance_by_position
    yield name
    yield named(forecast)
    yield str(len(part.replies))
    yield str(part.tally(best).tokens)
    yield f"{kept[0]:.0%}" if kept else "-"
    yield str(part.best)
    yield f"{part.tally(best).tau:.2f}" if part.best else "1.00"
    yield f"{part.speedup(part.best):.2f}x"
    yield f"{part.speedup(None):.2f}x"


def _laws(forecasts: Sequence[Forecast]) -> Table:
    table = _table("law", "overlap", "KL", "entropy", "ECE", "agree", "in vocabulary")
    for forecast in forecasts:
        found = forecast.statistics
        if found is not None:
            entropy = f"{found.mean('target_entropy'):.2f} / {found.mean('drafter_entropy'):.2f}"
            table.add_row(
                named(forecast),
                f"{found.mean('overlap'):.3f}",
                f"{found.mean('divergence'):.2f}",
                entropy,
                f"{found.calibration_error:.3f}",
                f"{found.mean('agreed'):.0%}",
                f"{found.mean('covered'):.1%}",
            )
    return table
