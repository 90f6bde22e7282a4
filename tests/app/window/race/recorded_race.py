"""The recorded race in its window, for pictures."""

from PySide6.QtWidgets import QWidget

from app.protocol.race_messages import RaceProgress
from app.race.race_document import open_race
from app.window.chat.host_connection import HostConnection
from app.window.chat.host_process import HostProcess
from app.window.race.race_request import RaceRequest
from app.window.race.race_window import RaceWindow
from tests.app.race.sample_races import RACE

SHOWN = 0.6  # of the race


def recorded_race(parent: QWidget, share: float = SHOWN) -> RaceWindow:
    """Its replay so far on, with no engine behind it."""
    document = open_race(RACE)
    window = RaceWindow(RaceRequest(HostConnection(HostProcess(["no-such-program"]))), parent=parent)
    window.still = True
    sides = tuple(one.side for one in document.sides)
    window.form.show_race(document.prompt, document.sampling, sides, document.pairs)
    window.show()
    window.show_race(document)
    window.controls.seek(share * window.controls.player.end_s)
    return window


def measured_race(parent: QWidget) -> RaceWindow:
    """While its second pair of runs is measured."""
    window = recorded_race(parent)
    window._show(window.measuring)
    window.measuring.begin("ABBAAB", 120)
    text = "The sky is blue because molecules of air scatter short waves of sunlight more than long ones."
    window.measuring.show_progress(
        RaceProgress(id=1, message="run 2 of 3", time_s=9.0, run=2, side=1, tokens=48, text=text)
    )
    return window
