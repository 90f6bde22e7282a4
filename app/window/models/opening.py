"""Between the main window and the Models page, which is made when it is first asked for; downloads need no page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace
from PySide6.QtWidgets import QApplication

from app.protocol import Pair
from app.window.shell.beside import Beside

if TYPE_CHECKING:
    from app.window.controller import Controller
    from app.window.models.library import Library
    from app.window.models.pulling import Pulls
    from app.window.models.window import ModelsWindow
    from app.window.shell.window import MainWindow


class Models(Beside):
    """Of the whole app. command: of the children, the terminal's own if empty. names: of the targets and of the
    drafters that are here, for the forms."""

    def __init__(self, controller: Controller, window: MainWindow, command: Sequence[str] = ()) -> None:
        super().__init__(window)
        self._controller, self._main, self.command = controller, window, list(command)
        self.library: Library | None = None
        self.pulls: Pulls | None = None
        self.window: ModelsWindow | None = None
        self.names: tuple[list[str], list[str]] = ([], [])
        window.commands["models"].triggered.connect(lambda _=False: self.show())
        for asking in (window.parts.welcome, window.parts.panel.form.pair):
            asking.models_asked.connect(self.show)
        controller.settings_changed.connect(lambda _: self._refresh())
        controller.opened.connect(lambda _: self._refresh())
        application = QApplication.instance()
        if application is not None:
            application.aboutToQuit.connect(self.quit)

    def show(self) -> ModelsWindow:
        """Show the page, and look again at what is here."""
        library, pulls = self._made()
        if self.window is None:
            from app.window.models.window import ModelsWindow

            self.window = ModelsWindow(library, pulls, self._pair, self._main)
            self.window.use_asked.connect(self._use)
            self.window.set_look(self._look)
        library.look()
        self.window.show()
        self.window.raise_()
        self.window.activateWindow()
        self.window.list.setFocus()
        return self.window

    def look(self) -> None:
        """Find out what is here, for the forms, unless that is known."""
        library, _ = self._made()
        if not library.shelf.here and not library.loading:
            library.look_for_names()

    def quit(self) -> None:
        """The app quits: downloads pause, to be gone on with another time."""
        if self.pulls is not None:
            self.pulls.close()
        if self.library is not None:
            self.library.asker.close()

    def _made(self) -> tuple[Library, Pulls]:
        if self.library is None or self.pulls is None:
            from app.window.models.asking import Asker
            from app.window.models.library import Library
            from app.window.models.pulling import Pulls

            self.library, self.pulls = Library(Asker(self.command, self), self), Pulls(self.command, self)
            self.pulls.ended.connect(lambda _, library=self.library: library.look())
            self.library.listed.connect(self._list)
        return self.library, self.pulls

    def _list(self) -> None:
        whole = [one for one in self.library.shelf.here if one.complete] if self.library else []
        targets = [one.name for one in whole if one.kind == "model"]
        self.names = targets, [one.name for one in whole if one.kind in ("model", "eagle3", "medusa")]
        self._main.parts.panel.form.pair.show_present(*self.names)

    def _pair(self) -> Pair:
        return self._controller.conversation.settings.pair

    def _use(self, pair: Pair) -> None:
        """For the open chat, and every new one from now on."""
        self._controller.change_settings(replace(self._controller.conversation.settings, pair=pair))

    def _refresh(self) -> None:
        if self.window is not None:
            self.window.refresh()
