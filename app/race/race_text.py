"""A race in words: how a side is typed, what the sides are called, how numbers are written, what receipts come to."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, cast, get_args

from app.model_words import DRAFTER_TITLES
from app.protocol import RoundDone, SamplingSettings
from app.protocol.race_messages import Divergence, PairReceipt, ReadySide, Run, ServerReport, Side
from app.race.race_document import RaceDocument, Spread, tokens_of
from app.race.race_replay import PaneState, Replay, State
from app.reply_statistics import ABOUT_EQUAL, not_neutral, settings_in_words
from engine.errors import UsageError
from engine.settings import AcceptanceRule

Level = Literal["good", "warning", "error", "info"]
MarkTone = Literal["accent", "warning", "error"]  # a colour of a palette

_SLOW = {0.25: "a quarter of its speed", 0.5: "half its speed"}
_AS_FAST = 0.995  # a speed-up that is shown as 1.00 is no loss
_NOISY = 1.25  # highest over lowest speed-up of a race, from which the machine counts as too busy to tell
NONE = "\N{EN DASH}"
NUMBERS = ("tokens", "decode tok/s", "TTFT", "target passes", "tokens/pass")
MEASURED = "measured one after the other, then replayed side by side"
MARKED = 0.45  # share of the mark's colour in the background of the token that differs


class RaceVerdict(NamedTuple):
    """What the receipts of a race come to, in a sentence without its full stop."""

    level: Level
    text: str


# --- sides ------------------------------------------------------------------------------------


def read_side(text: str) -> Side:
    """Returns the side that is typed as DRAFTER[:LENGTH][:tree][:RULE], for example lookup+eagle3:auto:coupled. It is
    read from the right, so that the name of a folder may contain colons. Raises UsageError."""
    drafter, length, tree, rule = text.strip(), "auto", False, "rejection"
    while ":" in drafter:
        head, _, word = drafter.rpartition(":")
        if word == "tree":
            tree = True
        elif word in get_args(AcceptanceRule):
            rule = word
        elif word == "auto" or word.isdecimal():
            length = word
        else:
            break
        drafter = head
    if not drafter:
        raise UsageError(f"side {text!r} names no drafter: give DRAFTER[:LENGTH][:tree][:RULE], eagle3:4 for example")
    return Side(
        drafter=drafter,
        tree=tree,
        draft_length=None if length == "auto" else int(length),
        acceptance=cast(AcceptanceRule, rule),
    )


def write_side(side: Side) -> str:
    """Returns a side as it is typed, as short as possible; a server by its address."""
    if side.server is not None:
        return side.server.url
    parts = [side.drafter]
    if side.draft_length is not None:
        parts.append(str(side.draft_length))
    if side.tree:
        parts.append("tree")
    if side.acceptance != "rejection":
        parts.append(side.acceptance)
    return ":".join(parts)


def names(sides: Sequence[ReadySide]) -> tuple[str, ...]:
    """Returns what to call each side: if both have the same name, with their settings, or else their places."""
    short = [_name(one) for one in sides]
    if len(set(short)) == len(short):
        return tuple(short)
    longer = [", ".join([name, *_details(one.side)]) for name, one in zip(short, sides, strict=True)]
    if len(set(longer)) == len(longer):
        return tuple(longer)
    return tuple(f"{name} ({place})" for place, name in zip("AB", longer, strict=False))


def details(ready: ReadySide, greedy: bool) -> str:
    """Returns how a side decodes: "draft length auto, coupled acceptance"; "the target alone, one token per pass"."""
    side = ready.side
    if side.server is not None:
        return "another program, timed by when its reply arrives"
    if side.plain:
        return "the target alone, one token per pass"
    parts = _details(side)
    return ", ".join(parts[:-1] if greedy else parts)


def _details(side: Side) -> list[str]:
    if side.plain or side.server is not None:
        return []
    length = "auto" if side.draft_length is None else str(side.draft_length)
    nodes = f"trees of {length} nodes" if side.draft_length is not None else "trees, length auto"
    return [nodes if side.tree else f"draft length {length}", f"{side.acceptance} acceptance"]


def _name(ready: ReadySide) -> str:
    if ready.side.server is not None:
        return ready.name
    if ready.side.plain:
        return "Plain decoding"
    parts = [DRAFTER_TITLES.get(part, part) for part in ready.name.split("+")]
    return _capital(" + ".join(parts))


# --- numbers ----------------------------------------------------------------------------------


def number(value: float | None, form: str, unit: str = "") -> str:
    """Returns a number as text; a dash for none."""
    return NONE if value is None else f"{value:{form}}{unit}"


def speedup(value: float | None) -> str:
    """Returns a speed-up as "1.24" times; a dash for none."""
    return number(value, ".2f", "\N{MULTIPLICATION SIGN}")


def speedup_tone(value: float | None) -> Literal["good", "warning"]:
    """Returns the tone of a speed-up: a warning if the second side is slower."""
    return "warning" if value is not None and value < _AS_FAST else "good"


def spread(found: Spread | None) -> str:
    """Returns the least and the most: "1.19 to 1.31"."""
    return "" if found is None else f"{found.least:.2f} to {found.most:.2f}"


def winner(document: RaceDocument) -> str:
    """Returns who was faster: "EAGLE-3 is faster"; "Too close to call" where the runs do not agree. A server may have
    read the prompt before, so it is compared by decode speed."""
    found = document.results.decode if document.has_server else document.results.total
    if found is None or found.least < 1 < found.most or 1 in (found.least, found.most):
        return "Too close to call"
    return f"{names(document.sides)[found.median > 1]} is faster"


def noise(document: RaceDocument) -> str:
    """Returns warnings, in sentences: of runs that differ too much to trust their median, of a machine whose speed
    changed, and of a server whose figures are not what was measured; "" where there are none."""
    found = document.results.decode if document.has_server else document.results.total
    warnings = list[str]()
    if found is not None and found.most >= _NOISY * found.least:
        warnings.append("The runs varied a lot. Close other programs and race again.")
    if document.drift is not None and abs(document.drift - 1) > ABOUT_EQUAL:
        warnings.append(f"Run again at the end, the first side had {document.drift:.2f} times its speed.")
    for name, one in zip(names(document.sides), reports(document), strict=True):
        if one is not None and one.warnings:
            warnings.append(f"{name}: {' '.join(one.warnings)}")
    return " ".join(warnings)


def reports(document: RaceDocument) -> list[ServerReport | None]:
    """Returns what each side says of the run that is shown; None for one that is no server."""
    shown = document.results.shown
    return [document.run(side, shown).report for side in range(len(document.sides))]


def own_figures(report: ServerReport) -> str:
    """Returns what a server says of a reply, in words."""
    parts = [
        f"{report.tokens} tokens" if report.tokens is not None else "",
        number(report.tokens_per_s, ".1f", " tok/s") if report.tokens_per_s is not None else "",
        f"TTFT {report.ttft_s:.2f} s" if report.ttft_s is not None else "",
        f"{report.cached_tokens} tokens of the prompt cached" if report.cached_tokens else "",
    ]
    return ", ".join(filter(None, parts)) or "nothing"


def numbers(pane: PaneState) -> tuple[str, ...]:
    """Returns the NUMBERS of a side at a time. Nobody sees the passes of a server."""
    metrics = pane.metrics
    return (
        f"{pane.tokens} / {pane.of}",
        number(metrics.tokens_per_s, ".1f"),
        number(metrics.ttft_s, ".2f", " s"),
        NONE if pane.is_server else str(metrics.rounds),
        NONE if pane.is_server else number(metrics.mean_acceptance_length, ".2f"),
    )


def widest_numbers(run: Run) -> tuple[str, ...]:
    """Returns for each of the NUMBERS a value as long as any of this run."""
    tokens = len(tokens_of(run))
    return f"{tokens} / {tokens}", "888.8", "88.88 s", str(len(run.rounds)), "8.88"


def counted(tokens: int) -> str:
    """Returns "1 token", "2 tokens"."""
    return f"{tokens} token" if tokens == 1 else f"{tokens} tokens"


# --- how it was measured ----------------------------------------------------------------------


def about(document: RaceDocument, pace: float) -> str:
    """Returns how the race was measured and replayed, and what its receipts come to, in two sentences."""
    return f"{_capital(MEASURED)}{paced(pace)}. {_capital(verdict(document).text)}."


def paced(times: float) -> str:
    """Returns the pace of a replay, to stand after MEASURED: ", at half its speed"; "" for the real one."""
    return "" if times == 1 else f", at {_SLOW.get(times, f'{times:g} times its speed')}"


def medians_of(document: RaceDocument) -> str:
    """Returns what the numbers are: "medians of 3 runs each, AB BA AB", or "one run each"."""
    if document.pairs == 1:
        return "one run each"
    return f"medians of {document.pairs} runs each, {_turns(document)}"


def shown_pair(document: RaceDocument) -> str:
    """Returns which runs a replay shows: "pair 2 of 3, the median, AB BA AB", or "one run each"."""
    pairs = document.pairs
    if pairs == 1:
        return "one run each"
    which = "the median" if pairs % 2 else "next to the median"
    return f"pair {document.results.shown} of {pairs}, {which}, {_turns(document)}"


def _turns(document: RaceDocument) -> str:
    turns = " ".join("BA" if first else "AB" for first in document.order[:3])
    return f"{turns} …" if document.pairs > 3 else turns


def made_with(document: RaceDocument) -> str:
    """Returns model, sampling and machine in one line."""
    found = document.environment
    kept = f", keys and values in {found.kv_bits} bits" if found.kv_bits else ""
    model = f"{found.target} in {found.dtype}{kept}, {sampling_text(document.sampling)}"
    return f"{model} · {found.processor}, {found.cores} cores, {found.backend} · mlx {found.mlx}"


def sampling_text(shared: SamplingSettings) -> str:
    """Returns the settings of both sides: "greedy"; "temperature 0.7, seed 4, top-p 0.9, exact"."""
    parts = [f"temperature {shared.temperature:g}", f"seed {shared.seed or 0}"] if shared.temperature else ["greedy"]
    if shaped := not_neutral(replace(shared, temperature=0.0)):
        parts.append(settings_in_words(shaped))
    if shared.stop:
        parts.append("1 stop string" if len(shared.stop) == 1 else f"{len(shared.stop)} stop strings")
    return ", ".join([*parts, "exact"] if shared.exact else parts)


# --- what the texts have in common ------------------------------------------------------------


def verdict(document: RaceDocument) -> RaceVerdict:
    """Returns the worst that a receipt of any pair of runs says."""
    receipts = document.receipts
    apart = [receipt for receipt in receipts if receipt.divergence is not None]
    if not apart:
        return _verdict_of_identical(receipts)
    if document.has_server:
        first = min(apart, key=lambda receipt: receipt.tokens)
        text = f"texts differ after {counted(first.tokens)}{_in(len(apart), len(receipts))}: {gap(first)}"
        return RaceVerdict("info", text)
    if not all(receipt.promised for receipt in receipts):
        lengths = {side.tokens for side in document.results.sides}
        per_token = "; speed-ups are per token, as one is longer" if len(lengths) > 1 else ""
        text = "texts differ: rejection sampling keeps the distribution, not the text; coupled sampling keeps both"
        return RaceVerdict("info", f"{text}{per_token}")
    worst = worst_of(apart)
    text = f"texts differ after {counted(worst.tokens)}{_in(len(apart), len(receipts))}"
    return RaceVerdict("error" if worst.failed else "warning", f"{text}: {gap(worst)}")


def _verdict_of_identical(receipts: Sequence[PairReceipt]) -> RaceVerdict:
    if broken := [receipt for receipt in receipts if receipt.failed]:
        return RaceVerdict("error", f"texts identical, but logits not bit-identical{_in(len(broken), len(receipts))}")
    least, most = (bound(receipt.tokens for receipt in receipts) for bound in (min, max))
    over = counted(most) if least == most else f"{least} to {most} tokens"
    bits = ", to the last bit," if all(receipt.same_bits for receipt in receipts) else ""
    return RaceVerdict("good", f"texts identical{bits} over {over}{_in(len(receipts), len(receipts))}")


def worst_of(apart: Sequence[PairReceipt]) -> PairReceipt:
    """Returns the receipt to report, of pairs whose texts differ."""
    return next((receipt for receipt in apart if receipt.failed), apart[0])


def gap(receipt: PairReceipt) -> str:
    """Returns what the difference of a pair is."""
    found = receipt.divergence
    if found is None:
        return "no difference"
    if not receipt.promised:
        if found.gap_ulps is not None:
            return f"the loaded model prefers Redline's token by {abs(found.gap_ulps):.3g} ULPs"
        return "the same text is not promised"
    return ("a near-tie, " if found.near_tie else "a failure, ") + _sizes(found)


def mark_tone(receipt: PairReceipt) -> MarkTone:
    """Returns the tone of a difference: an error if a promise was broken."""
    if not receipt.promised:
        return "accent"
    return "error" if receipt.failed else "warning"


def sameness(replay: Replay, state: State) -> str:
    """Returns what both texts have in common at a time, to stand after the number of identical tokens."""
    noun = "token" if state.identical == 1 else "tokens"
    if state.differs_at is None:
        return f"identical {noun}" if state.done else f"identical {noun} so far"
    texts = replay.receipt.divergence.texts if replay.receipt.divergence is not None else ()
    ends = [" ".join(text.split()) or "a blank" if text is not None else "the end" for text in texts]
    shown = " / ".join(f"“{text[:16]}”" for text in ends)
    return f"identical {noun}, then {shown}: {gap(replay.receipt)}"


def _sizes(found: Divergence) -> str:
    if found.gap_ulps is None or found.noise_ulps is None:
        return "rounding changed which tokens are possible" if found.near_tie else "no rounding explains it"
    return f"gap {abs(found.gap_ulps):.3g} ULPs, rounding noise {found.noise_ulps:.3g} ULPs"


def _in(some: int, all_: int) -> str:
    if all_ == 1:
        return ""
    if some == all_:
        return " in both pairs of runs" if all_ == 2 else f" in all {all_} pairs of runs"
    return f" in {some} of {all_} pairs of runs"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


# --- the thought of a run ---------------------------------------------------------------------

THOUGHT_END = "End of the thought."


def answer_start(rounds: Iterable[RoundDone]) -> int | None:
    """Returns the number of the first token of the answer after a thought, before which a text says THOUGHT_END; None
    for a run that did not think, or did nothing else."""
    channels = [channel for one in rounds for channel in one.round.channels or ("answer",) * len(one.round.tokens)]
    thought = channels.index("thought") if "thought" in channels else None
    return next((i for i, one in enumerate(channels) if thought is not None and i > thought and one == "answer"), None)
