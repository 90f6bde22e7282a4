"""Asks before Redline quits while part of a conversation is not on disk, and saves it elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QApplication, QMessageBox, QWidget

from app.store.records import UNTITLED
from app.window.chat import Notice
from app.window.chat.reply_controller import QUIT_NOTE
from app.window.common.file_output import FileError, write_text
from app.window.common.widgets import style
from app.window.main_window import files

if TYPE_CHECKING:
    from app.window.chat import Controller


class QuitQuestion(QObject):
    """Keeps the window open while something would be lost, until the user has decided. box: the question on screen."""

    def __init__(self, window: QWidget, controller: Controller) -> None:
        super().__init__(window)
        self.box: QMessageBox | None = None
        self._window, self._controller = window, controller
        self._answered = False

    def allows_quit(self) -> bool:
        """Returns whether the window may close: everything is saved, or the user gives up what is not. Asks
        otherwise."""
        if self._answered or self._controller.replies.save():
            return True
        if self.box is None:
            self._ask()
        return False

    def _ask(self) -> None:
        unsaved = self._controller.replies.unsaved()
        titles = " and ".join(f"“{self._title(one)}”" for one in unsaved) or "the conversation"
        text = "Part of your conversation is not saved."
        self.box = box = QMessageBox(QMessageBox.Icon.NoIcon, "Quit Redline", text, parent=self._window)
        style(box, role="question")
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setInformativeText(
            f"The end of {titles} could not be written to disk. If you quit now, it will be lost. Free up space on "
            "the disk, or save the conversation to a different disk."
        )
        elsewhere = box.addButton("Save Elsewhere…", QMessageBox.ButtonRole.AcceptRole)
        leave = box.addButton("Quit Without Saving", QMessageBox.ButtonRole.DestructiveRole)
        box.addButton(QMessageBox.StandardButton.Cancel)
        box.setDefaultButton(elsewhere)
        elsewhere.clicked.connect(self._save_elsewhere)
        leave.clicked.connect(self._quit)
        box.finished.connect(self._forget)
        box.open()

    def _forget(self) -> None:
        self.box = None

    def _title(self, conversation: int) -> str:
        found = self._controller.library.find(conversation)
        return found.title if found is not None and found.title else UNTITLED

    def _save_elsewhere(self) -> None:
        """Exports each conversation that is not saved, and quits; stays where one is not written. Replies of which
        everything is saved end last, and may have an end that is not."""
        replies, written = self._controller.replies, set[int]()
        while left := [one for one in replies.unsaved() if one not in written]:
            if not self._export(left[0]):
                return
            written.add(left[0])
            if len(left) == 1:
                replies.finish(QUIT_NOTE)
        self._quit()

    def _export(self, conversation: int) -> bool:
        """Asks where to save a conversation, ends its reply and saves it; returns whether that was done."""
        path = files.ask_export_path(self._window, self._title(conversation), "json")
        if path is None:
            return False
        self._controller.replies.finish(QUIT_NOTE, conversation)
        text = self._controller.library.export_json(conversation)
        try:
            if text:
                write_text(path, text)
        except FileError as error:
            self._controller.notice.emit(Notice("error", str(error)))
            return False
        return bool(text)

    def _quit(self) -> None:
        self._answered = True
        QApplication.quit()
