"""Why a token of a reply is there: in plain words, then as the papers' formula with the numbers of the place.

x is the drafted token, y the one that the target emitted in its place; p is the target's distribution, q the drafter's.
"""

import math
from typing import NamedTuple

from app.protocol import RoundDone
from engine.events import Refusal, Round, Rule

REJECTION, TREES = "Leviathan 2023, Chen 2023", "Yang 2024, Jeon 2024"
SOURCES: dict[Rule, str] = {
    "rejection": REJECTION,
    "point mass": f"{REJECTION}; q = 1 on one token",
    "fixed tree": f"{REJECTION}; q = 1 on each child, tried in order",
    "drawn tree": f"{TREES}: children drawn without replacement",
    "coupled": "arXiv 2408.07978, drafter-invariant speculative decoding",
    "greedy": "decoding at temperature 0",
}
UNRECORDED = "Why the draft was refused here is not recorded."


class TokenExplanation(NamedTuple):
    """words: for everyone, the first sentence plain. formula: with the papers' symbols and the numbers, "" if there is
    none. source: who says so, "" if there is none."""

    words: str
    formula: str = ""
    source: str = ""

    @property
    def text(self) -> str:
        """All of it, a line each."""
        return "\n".join(part for part in self if part)


def explain_emitted(done: RoundDone, place: int) -> TokenExplanation:
    """Returns why `tokens[place]` of the round is there."""
    round_ = done.round
    if not round_.drafted:
        return TokenExplanation("Nothing was drafted here: the target chose this token alone.")
    origin = round_.origin(place)
    if origin == "accepted":
        return _accepted(done, place)
    if origin == "bonus":
        return TokenExplanation(
            "The whole draft was accepted; the same pass of the target gives this token as well.",
            f"bonus: y ~ p; p(y) = {_number(round_.p[place])}",
        )
    by_draw = round_.rule in ("rejection", "point mass", "drawn tree")
    if round_.refusal is None or not round_.rule or (by_draw and not round_.draws):
        return TokenExplanation(UNRECORDED)
    return _corrected(done, round_.refusal)


def explain_refused(done: RoundDone, node: int) -> TokenExplanation:
    """Returns why `drafted[node]`, which was not kept, is not in the reply."""
    round_ = done.round
    offered = round_.offered(round_.accepted)
    if offered[:1] == [node]:
        return explain_emitted(done, len(round_.tokens) - 1)
    if round_.parents is None:
        return TokenExplanation("Not decided: a token before it in the draft was refused.")
    if node in offered:
        return TokenExplanation(
            "Another candidate for the same position in the tree. The target chose none of the candidates."
        )
    return TokenExplanation("On a branch of the tree that the target did not take.")


def _accepted(done: RoundDone, place: int) -> TokenExplanation:
    round_ = done.round
    p, q = round_.p[place], round_.q[round_.kept[place]]
    x = _quoted(round_.texts[place] if place < len(round_.texts) else "", round_.tokens[place])
    source = SOURCES.get(round_.rule, "")
    if round_.rule in ("greedy", "coupled"):
        what = "The target's likeliest token" if round_.rule == "greedy" else "With the same noise the target"
        rest = "is the drafted one" if round_.rule == "greedy" else "chooses the drafted token too"
        return TokenExplanation(
            f"{what} {rest}, {x}, so it is kept.", f"p(x) = {_number(p)}, q(x) = {_number(q)}", source
        )
    if round_.rule == "fixed tree":
        return TokenExplanation(f"The target drew {x} from p, and the tree has it.", f"p(x) = {_number(p)}", source)
    if place >= len(round_.draws) or round_.rule == "drawn tree":
        return TokenExplanation(f"The target accepted {x}.", f"p(x) = {_number(p)}, q(x) = {_number(q)}", source)
    u, q = round_.draws[place], 1.0 if round_.rule == "point mass" else q
    chance = _chance(p, q)
    sure = (
        "certain to be kept, because the target gives it at least that much"
        if chance == 1
        else f"kept with probability {_number(chance)}"
    )
    drawn = "" if chance == 1 else f"; the draw {_number(u)} was lower"
    words = (
        f"The drafter proposed {x} with probability {_percent(q)}. The target gives it {_percent(p)}, so it is "
        f"{sure}{drawn}."
    )
    return TokenExplanation(words, f"{_ratio(p, q)}; u = {_number(u)}", source)


def _corrected(done: RoundDone, refusal: Refusal) -> TokenExplanation:
    round_, source = done.round, SOURCES[done.round.rule]
    node = round_.offered(round_.accepted)[0]
    drafted = done.drafted_texts[node] if node < len(done.drafted_texts) else ""
    x = _quoted(drafted, round_.drafted[node])
    y = _quoted(round_.texts[-1] if round_.texts else "", round_.tokens[-1])
    if round_.rule in ("greedy", "coupled"):
        return TokenExplanation(*_by_match(round_, refusal, node, x, y), source)
    if round_.rule == "fixed tree":
        words = (
            f"The tree proposed {x}, to which the target gives {_percent(refusal.drafted_p)}. The target drew {y} "
            "instead."
        )
        return TokenExplanation(
            words, f"min(1, p(x)/1) = p(x) = {_number(refusal.drafted_p)}; {_given(round_)}", source
        )
    p, q, u = refusal.drafted_p, 1.0 if round_.rule == "point mass" else round_.q[node], round_.draws[-1]
    only = "only " if p < q else ""
    words = (
        f"The drafter proposed {x} with probability {_percent(q)}. The target gives it {only}{_percent(p)}, so it is "
        f"kept with probability {_number(_chance(p, q))}; the draw {_number(u)} was higher. {y} was drawn from the "
        "probability by which the target exceeds the drafter."
    )
    return TokenExplanation(words, f"{_ratio(p, q)}; u = {_number(u)}\n{_residual(round_, refusal)}", source)


def _by_match(round_: Round, refusal: Refusal, node: int, x: str, y: str) -> tuple[str, str]:
    """Returns words and formula for a draft that the target's own choice did not equal."""
    p_x, p_y, q_x = refusal.drafted_p, round_.p[-1], round_.q[node]
    given = f"p(x) = {_number(p_x)}, q(x) = {_number(q_x)}; p(y) = {_number(p_y)}"
    score_x, score_y = refusal.drafted_score, refusal.emitted_score
    if round_.rule == "greedy":
        words = (
            f"The drafter proposed {x}. The target's likeliest token is {y}: {_percent(p_y)} against {_percent(p_x)}."
        )
        gap = "" if not (p_x and p_y) else f"\nlog p(y) - log p(x) = {math.log(p_y / p_x):.3f}"
        return words, f"y = argmax p; {given}{gap}"
    words = (
        f"The drafter proposed {x}. Target and drafter choose with the same random noise, and with it the target chose "
        f"{y}: it gives {y} {_percent(p_y)} and {x} {_percent(p_x)}."
    )
    one, other = ("-∞" if score is None else f"{score:.3f}" for score in (score_x, score_y))
    return words, f"y = argmax(log p + g), g Gumbel noise\n{given}\nlog p(x) + g(x) = {one} < log p(y) + g(y) = {other}"


def _residual(round_: Round, refusal: Refusal) -> str:
    """Returns where the correction was drawn from: Z is what the probabilities of y and its residual make it."""
    p_y = round_.p[-1]
    if round_.rule == "drawn tree":
        return f"y ~ max(0, p - q)/Z, once for each child refused; p(y) = {_number(p_y)}"
    if round_.rule == "point mass":
        rest = 1 - refusal.drafted_p
        share = f" = {_number(p_y / rest)}" if rest > 0 else ""
        return f"y ~ p without x: p(y)/(1 - p(x)) = {_number(p_y)}/{_number(rest)}{share}"
    q_y, share_y = refusal.emitted_q or 0.0, refusal.residual or 0.0
    if share_y <= 0 or p_y <= q_y:  # p and q equal up to rounding: see `engine.acceptance.residual`
        return f"y ~ p; p(y) = {_number(p_y)}, q(y) = {_number(q_y)}"
    z = (p_y - q_y) / share_y
    return (
        f"y ~ max(0, p - q)/Z; p(y) = {_number(p_y)}, q(y) = {_number(q_y)}, Z = {_number(z)}: "
        f"max(0, p(y) - q(y))/Z = {_number(share_y)}"
    )


def _given(round_: Round) -> str:
    return f"p(y) = {_number(round_.p[-1])}"


def _ratio(p: float, q: float) -> str:
    return f"min(1, p(x)/q(x)) = min(1, {_number(p)}/{_number(q)}) = {_number(_chance(p, q))}"


def _chance(p: float, q: float) -> float:
    return 1.0 if p >= q else p / q


def _quoted(text: str, token: int) -> str:
    """Returns the text of a token on one line, in quotation marks; its id if it has no text of its own."""
    if not text or not text.replace(" ", "x").isprintable():
        shown = text.replace("\n", "⏎").replace("\t", "⇥")
        return f"“{shown}”" if shown and shown.isprintable() else f"token {token}"
    return f"“{text[:24]}{'…' if len(text) > 24 else ''}”"


def _percent(share: float) -> str:
    """Returns "38%"; with more figures where there is less."""
    percent = 100 * share
    if 0 < percent < 0.01:
        return "less than 0.01%"
    return f"{percent:.0f}%" if percent >= 9.5 or percent == 0 else f"{percent:.2g}%"


def _number(value: float) -> str:
    """Returns a probability with three decimals, a small one with two figures."""
    return f"{value:.3f}" if value >= 0.001 or value == 0 else f"{value:.1e}"
