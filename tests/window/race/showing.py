"""The recorded race in its window, for pictures."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from app.race.race_document import open_race
from app.window.chat.host_connection import HostConnection
from app.window.chat.host_process import HostProcess
from app.window.race.race_request import RaceRequest
from app.window.race.race_window import RaceWindow
from tests.race.made import RACE

SHOWN = 0.6  # of the race


def recorded_race(parent: QWidget) -> RaceWindow:
    """In the middle of its replay, with no engine behind it."""
    document = open_race(RACE)
    window = RaceWindow(RaceRequest(HostConnection(HostProcess(["no-such-program"]))), parent=parent)
    window.still = True
    sides = tuple(one.side for one in document.sides)
    window.form.show_race(document.prompt, document.sampling, sides, document.pairs)
    window.show()
    window.show_race(document)
    window.controls.seek(SHOWN * window.controls.player.end_s)
    return window
