"""What was written and not sent, kept for each conversation, so that not even a crash loses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

from app.window.shell.preferences import DRAFT, Draft, read, written

if TYPE_CHECKING:
    from app.window.controller import Controller

KEEP_MS = 400  # after the last key


class Drafts(QObject):
    """Written a moment after the last change, and before another conversation is shown."""

    def __init__(self, controller: Controller, parent: QObject) -> None:
        super().__init__(parent)
        self._controller = controller
        self._unwritten: dict[int, Draft] = {}
        self._timer = QTimer(self, singleShot=True, interval=KEEP_MS)
        self._timer.timeout.connect(self.write)

    def of(self, conversation: int) -> Draft:
        """What stands in its composer."""
        if conversation in self._unwritten:
            return self._unwritten[conversation]
        return read(self._controller.value(DRAFT.format(conversation)), Draft)

    def keep(self, conversation: int, draft: Draft) -> None:
        """Have this instead."""
        self._unwritten[conversation] = draft
        self._timer.start()

    def write(self) -> None:
        """To disk, now."""
        self._timer.stop()
        for conversation, draft in self._unwritten.items():
            self._controller.set_value(DRAFT.format(conversation), written(draft) if draft else "")
        self._unwritten.clear()
