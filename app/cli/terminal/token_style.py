"""How the kinds of tokens look in a terminal: a tint and a second cue, so that nobody depends on the colour.

accepted: tint alone. corrected: solid underline. bonus: dotted underline, or italics where that is not known.
"""

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from app import palette
from engine.events import Origin

Depth = Literal["none", "256", "truecolor"]
Theme = Literal["light", "dark"]
THEMES = ("auto", "light", "dark")

RESET = "\x1b[0m"
FAINT = "\x1b[2m"
SOLID = "\x1b[4m"
DOTTED = "\x1b[4:4m"
ITALIC = "\x1b[3m"


class Tint(NamedTuple):
    """A background. rgb: "#rrggbb". indexed: of the 256 colours, the nearest of the same hue (the nearest of all would
    give two kinds the same grey)."""

    rgb: str
    indexed: int


_INDEXED: dict[Theme, dict[Origin, int]] = {
    "light": {"accepted": 151, "corrected": 223, "bonus": 153},
    "dark": {"accepted": 22, "corrected": 94, "bonus": 24},
}
TEXT: dict[Theme, Tint] = {
    "light": Tint(palette.TEXT["light"], 234),
    "dark": Tint(palette.TEXT["dark"], 255),
}
TINTS: dict[Theme, dict[Origin, Tint]] = {
    theme: {kind: Tint(rgb, _INDEXED[theme][kind]) for kind, rgb in tints.items()}
    for theme, tints in palette.TINTS.items()
}

# Terminals that do not understand the 4:4 of a dotted underline.
_NO_COLON_PROGRAMS = ("Apple_Terminal",)
_NO_COLON_TERMS = ("linux", "screen", "rxvt", "vt", "ansi", "cygwin")


@dataclass(frozen=True)
class Look:
    """What a terminal can show. escapes: whether it understands escape sequences; without them, text is plain."""

    escapes: bool
    depth: Depth = "none"
    theme: Theme = "dark"
    dotted: bool = True

    def start(self, origin: Origin) -> str:
        """Returns the escape sequences that begin a token of this origin; `RESET` ends it."""
        cues = {"accepted": "", "corrected": SOLID, "bonus": DOTTED if self.dotted else ITALIC}
        return self._tint(origin) + cues[origin] if self.escapes else ""

    def faint(self, text: str) -> str:
        """Returns text about the reply, which is shown faintly."""
        return f"{FAINT}{text}{RESET}" if self.escapes else text

    def _tint(self, origin: Origin) -> str:
        if self.depth == "none":
            return ""
        text, tint = TEXT[self.theme], TINTS[self.theme][origin]
        if self.depth == "256":
            return f"\x1b[38;5;{text.indexed};48;5;{tint.indexed}m"
        return f"\x1b[38;2;{_triple(text.rgb)};48;2;{_triple(tint.rgb)}m"


PLAIN = Look(escapes=False)


def choose_look(is_terminal: bool, environment: Mapping[str, str], theme: str = "auto") -> Look:
    """Returns what the terminal that `environment` describes can show. theme: one of THEMES."""
    term = environment.get("TERM", "")
    if not is_terminal or term in ("", "dumb"):
        return PLAIN
    program = environment.get("TERM_PROGRAM", "")
    dotted = program not in _NO_COLON_PROGRAMS and not term.startswith(_NO_COLON_TERMS)
    return Look(True, _depth(environment, term), _theme(environment, theme), dotted)


def add_theme(parser: argparse.ArgumentParser, of: str = "the terminal") -> None:
    """Adds the option for the background of the terminal. of: what has this background."""
    parser.add_argument("--theme", choices=THEMES, default="auto", help=f"background of {of} (default: auto)")


def output_look(theme: str) -> Look:
    """Returns what standard output can show. theme: one of THEMES."""
    return choose_look(sys.stdout.isatty(), os.environ, theme)


def _depth(environment: Mapping[str, str], term: str) -> Depth:
    if environment.get("NO_COLOR") or term.startswith(("vt", "linux")):
        return "none"
    return "truecolor" if environment.get("COLORTERM") in ("truecolor", "24bit") else "256"


def _theme(environment: Mapping[str, str], theme: str) -> Theme:
    """COLORFGBG is "text;background" in the 16 colours, of which 7 and 9 to 15 are light."""
    if theme != "auto":
        return "light" if theme == "light" else "dark"
    background = environment.get("COLORFGBG", "").rpartition(";")[2]
    return "light" if background in {"7", *map(str, range(9, 16))} else "dark"


def _triple(rgb: str) -> str:
    return ";".join(str(int(rgb[i : i + 2], 16)) for i in (1, 3, 5))
