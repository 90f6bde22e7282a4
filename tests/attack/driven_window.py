"""The window, driven from outside: `python -m tests.attack.driven_window FOLDER BEHAVIOUR [COMMAND ...]`.

What it shows is told on standard output, a JSON object a line, when it has been shown: {"shown": characters of the
reply so far, "tokens": likewise, "at_s": monotonic}. Commands, carried out when the engine is ready: a text to send,
`raise: TEXT`, or `stall: SECONDS`, which from then on keeps the thread of the window busy for so long twice in three
such times, and has the next command follow at once.
"""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PySide6.QtCore import QTimer

from app.reply import Change
from app.window.chat import Controller, Notice, SpeculationStatus
from app.window.main_window import secondary_windows
from app.window.main_window import start as window
from tests.app.window.chat.fake_host import command


def say(**what: Any) -> None:
    print(json.dumps(what | {"at_s": time.monotonic()}), flush=True)


class Driver:
    """Carries out the commands one after the other."""

    def __init__(self, controller: Controller, commands: Sequence[str]) -> None:
        self.controller = controller
        self.commands = list(commands)
        self.stalling = QTimer()
        controller.pair.status_changed.connect(self.go_on)
        controller.replies.changed.connect(self.tell)
        controller.notice.connect(self.notify)

    def go_on(self, state: SpeculationStatus) -> None:
        say(state=state.state)
        if state.state == "on" and self.commands:
            self.obey(self.commands.pop(0))

    def obey(self, words: str) -> None:
        if words.startswith("raise: "):
            raise ValueError(words)
        if words.startswith("stall: "):
            self.stall_every(float(words.removeprefix("stall: ")))
            self.obey(self.commands.pop(0))
            return
        self.controller.send(words)

    def stall_every(self, seconds: float) -> None:
        def stall() -> None:
            until_s = time.monotonic() + seconds
            while time.monotonic() < until_s:
                pass

        self.stalling.timeout.connect(stall)
        self.stalling.start(round(1500 * seconds))

    def tell(self, message: int, change: Change) -> None:
        say(shown=change.end, tokens=self.controller.replies.reply_of(message).metrics.tokens)

    def notify(self, notice: Notice) -> None:
        say(notice=notice.text)


def main(words: Sequence[str]) -> int:
    folder, behaviour, *commands = words
    wire = window._connect

    def connect(application: Any, controller: Controller, shell: Any, place: Path) -> None:
        wire(application, controller, shell, place)
        shell.driver = Driver(controller, commands)
        say(modules=list(sys.modules))

    def come_forward(shell: Any) -> None:
        raised(shell)
        say(raised=shell.isVisible())

    raised = secondary_windows.come_forward
    window._connect, secondary_windows.come_forward = connect, come_forward
    host = tuple(command(**json.loads(behaviour)))
    return window.run(window.WindowOptions(Path(folder), host=host))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
