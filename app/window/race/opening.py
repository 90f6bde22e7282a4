"""Between the main window and the race's own, which is made when it is first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.records import ChatSettings, MessageRecord
from app.window.shell.beside import Beside

if TYPE_CHECKING:
    from app.window.controller import Controller
    from app.window.race.window import RaceWindow
    from app.window.shell.window import MainWindow

REPLIED = "The race was stopped, as a reply was asked for."


class Races(Beside):
    """Of the whole app."""

    def __init__(self, controller: Controller, window: MainWindow) -> None:
        super().__init__(window)
        self._controller, self._main = controller, window
        self.window: RaceWindow | None = None
        self._suggested: ChatSettings | None = None  # what the form began with
        window.commands["race"].triggered.connect(lambda _=False: self.show(self._last_question()))
        window.parts.transcript.race.connect(self.race_message)
        controller.reply_began.connect(self._give_way)

    def show(self, prompt: str = "") -> RaceWindow:
        """Show the race's window, with this prompt where none is written in it."""
        if self.window is None:
            from app.window.race.asking import RaceAsker
            from app.window.race.window import RaceWindow

            asker = RaceAsker(self._controller.engine, parent=self)
            self.window = RaceWindow(asker, lambda: self._settings.pair, self._wait, parent=self._main)
            self.window.set_look(self._look)
        if self._settings != self._suggested and not self.window.asker.busy:
            self._suggested = self._settings
            self.window.form.suggest(self._settings)
        self.window.still = self._main.theme.reduced_motion
        self.window.suggest(prompt)
        self.window.show()
        self.window.raise_()
        self.window.activateWindow()
        return self.window

    def race_message(self, message: int) -> None:
        """A question of the way shown, with its attachments."""
        asked = next((record for record in self._controller.path if record.id == message), None)
        if asked is not None:
            window = self.show()
            if not window.asker.busy:
                window.form.prompt.setPlainText(asked.content)

    @property
    def _settings(self) -> ChatSettings:
        return self._controller.conversation.settings

    def _wait(self) -> str:
        """What a race would wait for: the host does one thing at a time, and loads no other target in between."""
        busy = self._controller.in_use
        return "A reply is being written or verified. Race when that is over, or stop it." if busy else ""

    def _last_question(self) -> str:
        return next((record.content for record in reversed(self._controller.path) if record.role == "user"), "")

    def _give_way(self, _: MessageRecord) -> None:
        """The host does one thing at a time, and whoever writes should not have to wait for a measurement."""
        if self.window is not None and self.window.asker.busy:
            self.window.asker.stop(REPLIED)
