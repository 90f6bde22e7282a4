"""Rounds taken elsewhere: copied as JSON or CSV, or written to a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtGui import QAction, QGuiApplication, QKeySequence
from PySide6.QtWidgets import QFileDialog, QMenu, QMessageBox, QWidget

from app.protocol import Told
from app.window.inspector.export import rounds_csv, rounds_json

Rounds = Callable[[], list[Told]]


class Sharing(QMenu):
    """A menu that copies and exports. chosen: the round that was pointed at or selected, if any; rounds: all."""

    def __init__(self, chosen: Rounds, rounds: Rounds, parent: QWidget) -> None:
        super().__init__("Copy or export rounds", parent)
        self._chosen, self._rounds = chosen, rounds
        self.copy_chosen = self._add("Copy this round as JSON", lambda: copy(rounds_json(chosen())))
        self.copy_chosen.setShortcut(QKeySequence.StandardKey.Copy)
        self.addSeparator()
        self.all = [
            self._add("Copy all rounds as JSON", lambda: copy(rounds_json(rounds()))),
            self._add("Copy all rounds as CSV", lambda: copy(rounds_csv(rounds()))),
            self._add("Export all rounds…", self.export),
        ]
        self.aboutToShow.connect(self.renew)

    def renew(self) -> None:
        """Offer only what there is something for."""
        self.copy_chosen.setEnabled(bool(self._chosen()))
        for action in self.all:
            action.setEnabled(bool(self._rounds()))

    def export(self) -> None:
        """Ask for a file and write all rounds to it; as CSV if it is called so, else as JSON."""
        name, _ = QFileDialog.getSaveFileName(
            self.parentWidget(), "Export rounds", "rounds.json", "JSON (*.json);;CSV (*.csv)"
        )
        if not name:
            return
        try:
            write(Path(name), self._rounds())
        except OSError as error:
            said = f"The rounds were not written to {name}: {error.strerror}. Choose another folder."
            QMessageBox.warning(self.parentWidget(), "Export rounds", said)

    def _add(self, text: str, does: Callable[[], None]) -> QAction:
        action = self.addAction(text)
        action.triggered.connect(does)
        return action


def copy(text: str) -> None:
    QGuiApplication.clipboard().setText(text)


def write(path: Path, rounds: list[Told]) -> None:
    """Raises OSError."""
    text = rounds_csv(rounds) if path.suffix.lower() == ".csv" else rounds_json(rounds)
    path.write_text(text, encoding="utf-8")
