"""The recorded race in its window, for pictures."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from app.race.document import open_race
from app.window.client import HostClient
from app.window.controller.engine import Engine
from app.window.look import Look
from app.window.race.asking import RaceAsker
from app.window.race.window import RaceWindow
from tests.race.made import RACE

SHOWN = 0.6  # of the race


def recorded_race(parent: QWidget, look: Look) -> RaceWindow:
    """In the middle of its replay, with no engine behind it."""
    document = open_race(RACE)
    window = RaceWindow(RaceAsker(Engine(HostClient(["no-such-program"]))), parent=parent)
    window.still = True
    window.set_look(look)
    sides = tuple(one.side for one in document.contestants)
    window.form.show_race(document.prompt, document.law, sides, document.pairs)
    window.show()
    window.show_race(document)
    window.seek(SHOWN * window.player.end_s)
    return window
