"""The two texts of a race side by side in a terminal, replayed as they were timed, and the numbers below them.

The runs were made one after the other; a replay shows them from a common start, each token when it came. Whatever is
not a terminal gets one text after the other.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.rule import Rule
from rich.style import Style
from rich.table import Table
from rich.text import Text

from app.cli.terminal.keyboard import LEFT, RIGHT
from app.cli.terminal.output import plain_table
from app.cli.terminal.reply_view import legend_line
from app.cli.terminal.token_style import TEXT, TINTS, Look
from app.protocol.race_messages import Run
from app.race import race_text
from app.race.race_document import RaceDocument
from app.race.race_replay import SPEEDS, PaneState, Player, Replay, State
from app.safe_text import safe
from engine.events import Origin

FRAMES_PER_S = 20
STEPS = 50  # of an arrow key, from end to end
_KEYS = "space pauses, arrows move, + and - change the speed, Ctrl-C skips"
_GAP = 3
_ROOM = 12  # lines that a terminal needs for what is not text
_COLOURS = {"good": "green", "warning": "yellow", "error": "bold red", "info": ""}


def show(console: Console, look: Look, document: RaceDocument) -> None:
    """Shows both texts, then the numbers and the receipt."""
    replay = Replay(document)
    names = race_text.names(document.sides)
    titles = [f"{safe(name)}, {track.end_s:.1f} s" for name, track in zip(names, replay.tracks, strict=True)]
    if look.escapes:
        marked = None if replay.receipt.divergence is None else replay.receipt.divergence.position
        grid = _columns(console)
        grid.add_row(*(Text(title, "bold") for title in titles))
        grid.add_row(*(Rule(style="dim") for _ in titles))
        grid.add_row(*(_text(track.run, look, len(track.tokens), marked) for track in replay.tracks))
        console.print(grid)
        console.print(Text.from_ansi(f"\n{legend_line(replace(look, dotted=False))}\n"))
    else:
        for title, track in zip(titles, replay.tracks, strict=True):
            console.out(f"--- {title} ---\n{_text(track.run, look, len(track.tokens), None).plain}\n")
    console.print(_numbers(document, names))
    for line, style in _verdict(document):
        console.print(Text(line, style), soft_wrap=True)


def play(
    console: Console,
    look: Look,
    document: RaceDocument,
    speed: float = 1.0,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    keys: Callable[[], list[str]] = list,
) -> None:
    """Replays the runs from a common start, `speed` times as fast as they were. keys: returns the keys pressed since
    its last call, which pause, seek and change the speed. Ctrl-C goes to the end."""
    replay = Replay(document)
    player = Player(replay.end_s, now)
    player.set_speed(speed)
    player.play()
    with Live(console=console, auto_refresh=False, transient=True) as live:
        try:
            while player.playing or player.position_s < player.end_s:
                for key in keys():
                    _press(player, key)
                live.update(frame(console, look, replay, player.tick(), player.speed), refresh=True)
                sleep(1 / FRAMES_PER_S)
        except KeyboardInterrupt:
            return


def _press(player: Player, key: str) -> None:
    """Does what `key` stands for."""
    if key == " ":
        player.pause() if player.playing else player.play()
    elif key in (LEFT, RIGHT):
        player.seek(player.tick() + (player.end_s if key == RIGHT else -player.end_s) / STEPS)
    elif key in "+-":
        at = SPEEDS.index(player.speed) + (1 if key == "+" else -1)
        player.set_speed(SPEEDS[min(max(at, 0), len(SPEEDS) - 1)])


def frame(console: Console, look: Look, replay: Replay, now_s: float, speed: float = 1.0) -> RenderableType:
    """Returns what either side had said by `now_s`, its last lines if it is long. speed: of the replay, to be named."""
    state = replay.at(now_s)
    names = race_text.names(replay.document.sides)
    width = _column_width(console)
    grid = _columns(console)
    grid.add_row(*(Text(safe(name), "bold", no_wrap=True, overflow="ellipsis") for name in names))
    grid.add_row(*(_bar(pane, width) for pane in state.panes))
    grid.add_row(*(Text(_clock(pane), "dim") for pane in state.panes))
    texts = []
    for track, pane in zip(replay.tracks, state.panes, strict=True):
        lines = _text(track.run, look, pane.tokens, state.differs_at).wrap(console, width)
        texts.append(Text("\n").join(lines[-max(console.height - _ROOM, 3) :]))
    grid.add_row(*texts)
    about = [f"{race_text.MEASURED}{race_text.paced(speed)}", _KEYS]
    dim = [Text(line, "dim", no_wrap=True, overflow="ellipsis") for line in about]
    return Group(grid, Text(), _so_far(replay, state), *dim)


def _so_far(replay: Replay, state: State) -> Text:
    same = f"identical so far: {race_text.counted(state.identical)}"
    if state.differs_at is None:
        return Text(same, "green")
    return Text(
        f"texts differ after {race_text.counted(state.differs_at)}: {race_text.gap(replay.receipt)}", "bold yellow"
    )


def _columns(console: Console) -> Table:
    grid = Table.grid(padding=(0, _GAP, 0, 0))
    for _ in range(2):
        grid.add_column(width=_column_width(console))
    return grid


def _column_width(console: Console) -> int:
    return max((console.width - 2 * _GAP) // 2, 16)


def _bar(pane: PaneState, width: int) -> Text:
    """Returns a bar for the share of a run that has been shown."""
    count = f" {pane.tokens}/{pane.of}"
    room = max(width - len(count), 1)
    full = round(pane.share * room)
    return Text.assemble(("━" * full, "green" if pane.done else "cyan"), ("─" * (room - full), "dim"), (count, ""))


def _clock(pane: PaneState) -> str:
    """Returns two lines of numbers to stand above a text."""
    metrics = pane.metrics
    speed = race_text.number(metrics.tokens_per_s, ".1f", " tok/s")
    tau = race_text.number(metrics.mean_acceptance_length, ".2f", " per pass")
    first = f"{pane.clock_s:.1f} s · {speed}{' · done' if pane.done else ''}"
    if pane.is_server:
        return f"{first}\nTTFT {race_text.number(metrics.ttft_s, '.2f', ' s')}"
    return f"{first}\nTTFT {race_text.number(metrics.ttft_s, '.2f', ' s')} · {metrics.rounds} passes · {tau}"


def _text(run: Run, look: Look, tokens: int, marked: int | None) -> Text:
    """Returns the first `tokens` of a run in their tints, with the marked one reversed, and the end that no token
    completed."""
    text, count, answer = Text(), 0, race_text.answer_start(run.rounds)
    for one in run.rounds:
        round_ = one.round
        for piece, origin in zip(round_.texts, round_.origins, strict=True):
            if count >= tokens:
                return text
            if count == answer:
                text.append(f"\n\n{race_text.THOUGHT_END}\n\n", Style(dim=True))
            style = _style(look, origin) if round_.drafted else Style()
            text.append(safe(piece), style + Style(reverse=True) if count == marked else style)
            count += 1
    return text.append(safe(run.finished.text))


def _style(look: Look, origin: Origin) -> Style:
    """Returns the look of a token for rich, which has no dotted underline: a bonus is in italics."""
    cues = Style(underline=origin == "corrected", italic=origin == "bonus")
    if look.depth == "none":
        return cues
    text, tint = TEXT[look.theme], TINTS[look.theme][origin]
    if look.depth == "256":
        return cues + Style(color=f"color({text.indexed})", bgcolor=f"color({tint.indexed})")
    return cues + Style(color=text.rgb, bgcolor=tint.rgb)


def _numbers(document: RaceDocument, names: tuple[str, ...]) -> Table:
    """Returns a table with a row per side: medians of all runs."""
    table = plain_table([""], ["tokens", "tok/s", "TTFT", "total", "passes", "tokens per pass"])
    for name, side, ready in zip(names, document.results.sides, document.sides, strict=True):
        is_server = ready.side.server is not None
        table.add_row(
            Text(safe(name)),
            str(side.tokens),
            race_text.number(side.tokens_per_s, ".1f"),
            race_text.number(side.ttft_s, ".2f", " s"),
            race_text.number(side.total_s, ".2f", " s"),
            race_text.NONE if is_server else str(side.passes),
            race_text.number(None if is_server else side.mean_acceptance_length, ".2f"),
        )
    return table


def _verdict(document: RaceDocument) -> Iterator[tuple[str, str]]:
    """Yields the lines below the numbers, speed-up and receipt, each with its style."""
    found = document.results
    yield "", ""
    for what, spread in (("decoding", found.decode), ("with the prompt", found.total)):
        value = race_text.speedup(spread.median if spread else None)
        least_most = f", {race_text.spread(spread)} over the runs" if spread and found.pairs > 1 else ""
        yield f"speed-up {value} {what}{least_most}", "bold"
    yield f"{race_text.medians_of(document)}; {race_text.MEASURED}", "dim"
    for name, report in zip(race_text.names(document.sides), race_text.reports(document), strict=True):
        if report is not None:
            yield safe(f"{name} says of itself: {race_text.own_figures(report)}"), "dim"
    if noise := race_text.noise(document):
        yield safe(noise), "yellow"
    level, summary = race_text.verdict(document)
    yield f"receipt: {summary}", _COLOURS[level]
    yield from _apart(document)
    yield safe(race_text.made_with(document)), "dim"


def _apart(document: RaceDocument) -> Iterator[tuple[str, str]]:
    """Yields what either side says where their texts differ first."""
    if apart := [receipt for receipt in document.receipts if receipt.divergence is not None]:
        divergence = race_text.worst_of(apart).divergence
        assert divergence is not None
        endings = ["ends" if text is None else f"says {safe(text)!r}" for text in divergence.texts]
        names = [safe(name) for name in race_text.names(document.sides)]
        yield f"         there {names[0]} {endings[0]}, {names[1]} {endings[1]}", ""
