"""A round as pieces to show: every token that was drafted or emitted, with its kind, p and q. Knows no Qt."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, TypeVar

from app.protocol import RoundDone
from engine.events import Origin, Round

# refused: drafted, not kept. plain: the target's own, where nothing was drafted.
Kind = Origin | Literal["refused", "plain"]

LONGEST_TEXT = 24  # characters of a token
JOINER = "\u200d"  # between emoji, where it is part of what is seen

T = TypeVar("T")


class Piece(NamedTuple):
    """A token. p: the target's probability, known for emitted tokens. q: the drafter's, for what it drafted.
    depth: levels below the place where the round began, from 1. offered: refused where the target emitted its own."""

    text: str
    kind: Kind
    token: int
    p: float | None
    q: float | None
    depth: int
    offered: bool = False


def emitted_pieces(round_done: RoundDone) -> list[Piece]:
    """What the round committed, in order."""
    round_ = round_done.round
    nodes = round_.path if round_.parents is not None else range(round_.accepted)
    pieces = []
    for i, token in enumerate(round_.tokens):
        kind: Kind = round_.origin(i) if round_.drafted else "plain"
        text = _at(round_.texts, i) or (_at(round_done.drafted_texts, nodes[i]) if i < round_.accepted else None)
        q = _at(round_.q, nodes[i]) if i < round_.accepted else None
        pieces.append(Piece(shown(text, token), kind, token, _at(round_.p, i), q, i + 1))
    return pieces


def refused(round_done: RoundDone) -> list[Piece]:
    """Returns the refused tokens. First those offered where the target emitted its own token, then what stood beside
    the way taken, from its end back, each branch whole; in a chain simply the rest."""
    round_ = round_done.round
    levels = depths(round_)
    return [_drafted(round_done, node, levels[node]) for node in _nodes_lost(round_)]


def depths(round_: Round) -> list[int]:
    """For each drafted token its level, from 1."""
    if round_.parents is None:
        return list(range(1, len(round_.drafted) + 1))
    levels: list[int] = []
    for parent in round_.parents:
        levels.append(1 + (levels[parent] if parent >= 0 else 0))
    return levels


def describe(round_done: RoundDone) -> str:
    """A round in words, for a screen reader."""
    round_ = round_done.round
    own = "".join(f" {piece.text}" for piece in emitted_pieces(round_done))
    if not round_.drafted:
        return f"plain, 1 token:{own}"
    lost = ", ".join(piece.text for piece in refused(round_done))
    ends = round_.origins[-1] if round_.tokens else "nothing"
    refusals = f"; refused {lost}" if lost else ""
    return f"{shape(round_)}, {round_.accepted} of {len(round_.drafted)} accepted, then {ends}:{own}{refusals}"


def shape(round_: Round) -> str:
    """ "chain of 5", "tree of 16", "no draft"."""
    if not round_.drafted:
        return "no draft"
    return f"{'chain' if round_.parents is None else 'tree'} of {len(round_.drafted)}"


@lru_cache(maxsize=8192)
def shown(text: str | None, token: int) -> str:
    """A token's text on one short line, whitespace and control characters made visible; its id where there is none."""
    if not text:  # unknown, unfinished, or a token that is not text
        return f"#{token}"
    if not text.strip(" "):
        return "␣" * min(len(text), 4)
    cut = text.strip(" ").replace("\r\n", "⏎").replace("\n", "⏎").replace("\t", "⇥")
    if len(cut) > LONGEST_TEXT:
        cut = cut[:LONGEST_TEXT] + "…"
    return "".join(c if c.isprintable() or c == JOINER else "·" for c in cut)


def _nodes_kept(round_: Round) -> Sequence[int]:
    """Places in `drafted` of what was accepted."""
    return round_.path[: round_.accepted] if round_.parents is not None else range(round_.accepted)


def _nodes_lost(round_: Round) -> list[int]:
    """Places in `drafted` of what was refused, in the order of `refused`."""
    if round_.parents is None:
        return list(range(round_.accepted, len(round_.drafted)))
    kept = _nodes_kept(round_)
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(round_.parents):
        children.setdefault(parent, []).append(node)
    lost: list[int] = []
    for stem in (*reversed(kept), -1):
        waiting = [node for node in reversed(children.get(stem, ())) if node not in kept]
        while waiting:
            lost.append(waiting.pop())
            waiting.extend(reversed(children.get(lost[-1], ())))
    return lost


def _drafted(round_done: RoundDone, node: int, level: int) -> Piece:
    """A refused node."""
    round_, token = round_done.round, round_done.round.drafted[node]
    kept = _nodes_kept(round_)
    follows = node - 1 if round_.parents is None else round_.parents[node]
    offered = follows == (kept[-1] if kept else -1)
    text = shown(_at(round_done.drafted_texts, node), token)
    return Piece(text, "refused", token, None, _at(round_.q, node), level, offered)


def _at(values: Sequence[T], i: int) -> T | None:
    return values[i] if 0 <= i < len(values) else None
