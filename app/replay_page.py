"""A reply or a race as one web page that plays it: one file, with nothing from elsewhere, that works offline.

The page is `resources/replay.html`; this module fills in the data. All text of models and users goes in as JSON and is
shown as text, never as HTML.
"""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from app.palette import PALETTES, Scheme
from app.protocol import RoundDone
from app.token_explanation import explain_emitted

TEMPLATE = Path(__file__).parent.parent / "resources" / "replay.html"
_SHARED = ("background", "raised", "hairline", "text", "faint", "accent")  # fields of a palette that the page uses


@dataclass(frozen=True)
class Lane:
    """One column of the page: a run or a reply. detail: how it was decoded, in a line. steps: what its rounds are."""

    name: str
    detail: str
    rounds: Sequence[RoundDone]
    steps: str = "passes of the target"


def replay_page(prompt: str, lanes: Sequence[Lane], result: str, about: str) -> str:
    """Returns the page as HTML. result: shown once every lane has ended. about: how it was made, in a sentence."""
    data = {
        "prompt": prompt,
        "lanes": [_lane_json(lane) for lane in lanes],
        "result": result,
        "about": about,
    }
    values = {
        "title": html.escape(f"Redline: {' '.join(prompt.split())[:80]}"),
        "light": _variables("light"),
        "dark": _variables("dark"),
        "data": _script_json(data),
    }
    template = TEMPLATE.read_text(encoding="utf-8")
    return re.sub("@(title|light|dark|data)@", lambda match: values[match[1]], template)


def _lane_json(lane: Lane) -> dict[str, object]:
    rounds = [_round_json(one) for one in lane.rounds]
    return {"name": lane.name, "detail": lane.detail, "steps": lane.steps, "rounds": rounds}


def _round_json(done: RoundDone) -> dict[str, object]:
    """Returns the tokens of a round, whether they are thought, their origin and probabilities, why one was corrected,
    and the texts that were refused."""
    round_, kept = done.round, done.round.kept
    refused = [text for place, text in enumerate(done.drafted_texts) if place not in kept]
    tokens: list[dict[str, object]] = [
        {
            "text": round_.texts[place] if place < len(round_.texts) else "",
            "thought": round_.channels[place] == "thought" if place < len(round_.channels) else False,
            "origin": round_.origin(place) if round_.drafted else None,
            "p": round_.p[place] if place < len(round_.p) else None,
            "q": round_.q[kept[place]] if place < len(kept) and kept[place] < len(round_.q) else None,
        }
        for place in range(len(round_.tokens))
    ]
    if round_.refusal is not None and tokens:
        tokens[-1]["why"] = explain_emitted(done, len(tokens) - 1).text
    return {"time_s": round_.time_s, "tokens": tokens, "refused": refused}


def _script_json(data: object) -> str:
    """Returns JSON that cannot end the script element it stands in, nor open a comment there."""
    return msgspec.json.encode(data).decode().replace("<", "\\u003c").replace("\u2028", "\\u2028")


def _variables(scheme: Scheme) -> str:
    """Returns the colours of an appearance as CSS variables."""
    palette = PALETTES[scheme]
    colours = {name: palette.colour(name) for name in _SHARED}
    colours |= {str(origin): colour for origin, colour in palette.tints.items()}
    colours |= {f"{origin}-hue": colour for origin, colour in palette.hues.items()}
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())
