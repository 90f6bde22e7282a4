"""Rounds taken elsewhere: as JSON as `redline chat --json` prints rounds, or as CSV with one line per round."""

import csv
import io
import json
from collections.abc import Callable, Iterable
from pathlib import Path

from PySide6.QtGui import QAction, QGuiApplication, QKeySequence
from PySide6.QtWidgets import QFileDialog, QMenu, QMessageBox, QWidget

from app.protocol import RoundDone
from app.window.common.file_output import FileError, write_text
from engine.events import to_json

Rounds = Callable[[], list[RoundDone]]

COLUMNS = (
    *("round", "time_s", "drafted", "accepted", "kind", "reason", "draft_s", "verify_s", "waits", "width"),
    *("tokens", "origins", "texts", "p", "drafted_tokens", "drafted_texts", "q", "parents", "path"),
)


def rounds_json(rounds: Iterable[RoundDone]) -> str:
    """Returns a list of rounds with every field of the event, and the texts of the drafted tokens."""
    values = [{**to_json(one.round), "drafted_texts": one.drafted_texts} for one in rounds]
    return json.dumps(values, ensure_ascii=False, indent=1) + "\n"


def rounds_csv(rounds: Iterable[RoundDone]) -> str:
    """Returns COLUMNS with a heading. Lists are JSON in a cell. No cell begins so that a spreadsheet takes it for a
    formula: texts come from models, and reasons from files that were imported."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(map(_line, rounds))
    return out.getvalue()


def _line(done: RoundDone) -> list[object]:
    r = done.round
    kind = "plain" if not r.drafted else "chain" if r.parents is None else "tree"
    reason = f"'{r.reason}" if r.reason.lstrip()[:1] in tuple("=+-@") else r.reason
    plain = [r.index, r.time_s, len(r.drafted), r.accepted, kind, reason, r.draft_s, r.verify_s, r.waits, r.width]
    lists = [r.tokens, r.origins, r.texts, r.p, r.drafted, done.drafted_texts, r.q]
    tree = ["", ""] if r.parents is None else [json.dumps(r.parents), json.dumps(r.path)]
    return [*plain, *(json.dumps(values, ensure_ascii=False) for values in lists), *tree]


class ShareMenu(QMenu):
    """Copies and exports. chosen: returns the round that was pointed at or selected, if any; rounds: returns all."""

    def __init__(self, chosen: Rounds, rounds: Rounds, parent: QWidget) -> None:
        super().__init__("Copy or Export Rounds", parent)
        self._chosen, self._rounds = chosen, rounds
        self.copy_chosen = self._add("Copy Round as JSON", lambda: copy(rounds_json(chosen())))
        self.copy_chosen.setShortcut(QKeySequence.StandardKey.Copy)
        self.addSeparator()
        self.all = [
            self._add("Copy All Rounds as JSON", lambda: copy(rounds_json(rounds()))),
            self._add("Copy All Rounds as CSV", lambda: copy(rounds_csv(rounds()))),
            self._add("Export All Rounds…", self.export),
        ]
        self.aboutToShow.connect(self.renew)

    def renew(self) -> None:
        """Enables only what there are rounds for."""
        self.copy_chosen.setEnabled(bool(self._chosen()))
        for action in self.all:
            action.setEnabled(bool(self._rounds()))

    def export(self) -> None:
        """Asks for a file and writes all rounds to it: as CSV if its name ends so, else as JSON."""
        name, _ = QFileDialog.getSaveFileName(
            self.parentWidget(), "Export Rounds", "rounds.json", "JSON (*.json);;CSV (*.csv)"
        )
        if name:
            path, rounds = Path(name), self._rounds()
            try:
                write_text(path, rounds_csv(rounds) if path.suffix.lower() == ".csv" else rounds_json(rounds))
            except FileError as error:
                QMessageBox.warning(self.parentWidget(), "Export Rounds", str(error))

    def _add(self, text: str, action: Callable[[], None]) -> QAction:
        made = self.addAction(text)
        made.triggered.connect(action)
        return made


def copy(text: str) -> None:
    """Copies text to the clipboard."""
    QGuiApplication.clipboard().setText(text)
