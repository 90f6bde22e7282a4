"""A race in words: what its sides are called, how its numbers are written, what its receipts come to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from app.protocol import SamplingSettings
from app.protocol.race_messages import Contestant, Divergence, PairReceipt, Side
from app.race.race_document import RaceDocument
from app.race.race_replay import PaneState, Replay, State
from app.race.race_results import Spread

Level = Literal["good", "warning", "error", "info"]

_NAMES = {"eagle3": "EAGLE-3", "lookup": "prompt lookup", "medusa": "Medusa", "draft": "draft model"}
_NEUTRAL = SamplingSettings()
_SHAPES = {"top_p": "top-p", "top_k": "top-k", "min_p": "min-p", "repetition_penalty": "repetition penalty"}
NONE = "\N{EN DASH}"
MEASURED = "measured one after the other, then replayed side by side"


class RaceVerdict(NamedTuple):
    """What the receipts of a race come to, in a sentence without its full stop."""

    level: Level
    text: str


def names(contestants: Sequence[Contestant]) -> tuple[str, ...]:
    """What to call each side; where both would be called the same, with what sets them apart, or by their places."""
    short = [_name(one) for one in contestants]
    if len(set(short)) == len(short):
        return tuple(short)
    longer = [", ".join([name, *_details(one.side)]) for name, one in zip(short, contestants, strict=True)]
    if len(set(longer)) == len(longer):
        return tuple(longer)
    return tuple(f"{name} ({place})" for place, name in zip("AB", longer, strict=False))


def details(contestant: Contestant, greedy: bool) -> str:
    """How a side decodes: "draft length auto, coupled acceptance"; "the target alone, one token per pass"."""
    side = contestant.side
    if side.plain:
        return "the target alone, one token per pass"
    parts = _details(side)
    return ", ".join(parts[:-1] if greedy else parts)


def _details(side: Side) -> list[str]:
    if side.plain:
        return []
    length = "auto" if side.draft_length is None else str(side.draft_length)
    nodes = f"trees of {length} nodes" if side.draft_length is not None else "trees, length auto"
    return [nodes if side.tree else f"draft length {length}", f"{side.acceptance} acceptance"]


def _name(contestant: Contestant) -> str:
    if contestant.side.plain:
        return "Plain decoding"
    parts = [_NAMES.get(part, part) for part in contestant.name.split("+")]
    name = " + ".join(parts)
    return name[:1].upper() + name[1:]


def speedup(value: float | None) -> str:
    """1.24 times, or a dash."""
    return NONE if value is None else f"{value:.2f}\N{MULTIPLICATION SIGN}"


def paced(times: float) -> str:
    """Of a replay, behind MEASURED: ", at 3 times its speed", ", at half its speed"; nothing for 1."""
    slow = {0.25: "a quarter of its speed", 0.5: "half its speed"}
    return "" if times == 1 else f", at {slow.get(times, f'{times:g} times its speed')}"


def spread(found: Spread | None) -> str:
    """The least and the most: "1.19 to 1.31"."""
    return "" if found is None else f"{found.least:.2f} to {found.most:.2f}"


def number(value: float | None, form: str, unit: str = "") -> str:
    """A dash where there is none."""
    return NONE if value is None else f"{value:{form}}{unit}"


def medians_of(pairs: int) -> str:
    """What the numbers are of."""
    if pairs == 1:
        return "one run each"
    return f"medians of {pairs} runs each, {turns(pairs)}"


def turns(pairs: int) -> str:
    """The order of the runs: "AB BA AB"."""
    shown = " ".join("AB" if pair % 2 == 0 else "BA" for pair in range(min(pairs, 3)))
    return f"{shown} …" if pairs > 3 else shown


def verdict(document: RaceDocument) -> RaceVerdict:
    """Of all pairs of runs: the worst that any of them says."""
    receipts = document.receipts
    apart = [receipt for receipt in receipts if receipt.divergence is not None]
    if not apart:
        least, most = (f(receipt.tokens for receipt in receipts) for f in (min, max))
        over = counted(most) if least == most else f"{least} to {most} tokens"
        if broken := [receipt for receipt in receipts if receipt.failed]:
            return RaceVerdict(
                "error", f"texts identical, but logits not to the last bit{_in(len(broken), len(receipts))}"
            )
        bits = ", to the last bit," if all(receipt.same_bits for receipt in receipts) else ""
        return RaceVerdict("good", f"texts identical{bits} over {over}{_in(len(receipts), len(receipts))}")
    if not all(receipt.promised for receipt in receipts):
        lengths = {side.tokens for side in document.results.sides}
        per_token = "; speed-ups are per token, as one is longer" if len(lengths) > 1 else ""
        text = "texts differ: rejection sampling keeps the distribution, not the text; coupled sampling keeps both"
        return RaceVerdict("info", f"{text}{per_token}")
    worst = worst_of(apart)
    text = f"texts differ after {counted(worst.tokens)}{_in(len(apart), len(receipts))}"
    return RaceVerdict("error" if worst.failed else "warning", f"{text}: {gap(worst)}")


def worst_of(apart: Sequence[PairReceipt]) -> PairReceipt:
    """Returns the receipt to report, of pairs whose texts differ."""
    return next((receipt for receipt in apart if receipt.failed), apart[0])


def counted(tokens: int) -> str:
    """How many tokens."""
    return f"{tokens} token" if tokens == 1 else f"{tokens} tokens"


def gap(receipt: PairReceipt) -> str:
    """What the difference of a pair is."""
    parting = receipt.divergence
    if parting is None:
        return "no difference"
    if not receipt.promised:
        return "no promise of the same text"
    return ("a near-tie, " if parting.near_tie else "a failure, ") + _sizes(parting)


def _sizes(parting: Divergence) -> str:
    if parting.gap_ulps is None or parting.noise_ulps is None:
        return "rounding changed which tokens are possible" if parting.near_tie else "no rounding explains it"
    return f"gap {abs(parting.gap_ulps):.3g} ULPs, rounding noise {parting.noise_ulps:.3g} ULPs"


def _in(some: int, all_: int) -> str:
    if all_ == 1:
        return ""
    return f" in all {all_} pairs of runs" if some == all_ else f" in {some} of {all_} pairs of runs"


def made_with(document: RaceDocument) -> str:
    """Returns models, sampling and machine in one line."""
    found = document.environment
    kept = f", keys and values in {found.kv_bits} bits" if found.kv_bits else ""
    model = f"{found.target} in {found.dtype}{kept}, {sampling_text(document.sampling)}"
    return f"{model} · {found.processor}, {found.cores} cores, {found.backend} · mlx {found.mlx}"


def sampling_text(shared: SamplingSettings) -> str:
    """What both sides share: "greedy"; "temperature 0.7, seed 4, top-p 0.9, exact-verify"."""
    parts = [f"temperature {shared.temperature:g}", f"seed {shared.seed or 0}"] if shared.temperature else ["greedy"]
    shaped = {name: getattr(shared, name) for name in _SHAPES if getattr(shared, name) != getattr(_NEUTRAL, name)}
    parts += [f"{_SHAPES[name]} {value:g}" for name, value in shaped.items()]
    if shared.stop:
        parts.append("1 stop string" if len(shared.stop) == 1 else f"{len(shared.stop)} stop strings")
    return ", ".join([*parts, "exact-verify"] if shared.exact else parts)


def numbers(pane: PaneState) -> tuple[str, ...]:
    """Returns the numbers of a side at a time: tokens, decode speed, TTFT, target passes, tokens per pass."""
    metrics = pane.metrics
    return (
        f"{pane.tokens} / {pane.of}",
        number(metrics.tokens_per_s, ".1f"),
        number(metrics.ttft_s, ".2f", " s"),
        str(metrics.rounds),
        number(metrics.mean_acceptance_length, ".2f"),
    )


def sameness(replay: Replay, state: State) -> str:
    """Returns what both texts have in common by then, to stand behind the number of identical tokens."""
    noun = "token" if state.identical == 1 else "tokens"
    if state.parted is None:
        return f"identical {noun}" if state.done else f"identical {noun} so far"
    texts = replay.parting.texts if replay.parting is not None else ()
    ends = [" ".join(text.split()) or "a blank" if text is not None else "the end" for text in texts]
    shown = " / ".join(f"“{text[:16]}”" for text in ends)
    return f"identical {noun}, then {shown}: {gap(replay.receipt)}"
