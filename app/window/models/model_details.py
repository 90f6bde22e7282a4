"""The details of one model: what can be done with it, and all that is known about it."""

from __future__ import annotations

import time
from typing import NamedTuple

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.duration_text import ago_words
from app.window.common.appearance import GAP
from app.window.common.flow_layout import FlowLayout
from app.window.common.widgets import Hairline, label, style, wrapped
from app.window.models.catalogue_view import Row, Shelf
from app.window.models.download_view import DownloadView
from app.window.models.drafter_offers import DrafterList, offers
from app.window.models.memory_view import MemoryView, account
from app.window.models.model_actions import ModelAction, actions_for
from app.window.models.model_text import KINDS, ORIGINS, bits, joined, parameters, sentence, size

WIDTH = 640  # px, the widest
ALONG = (
    "Comes with Redline and works without a network. Larger models write better: the recommended ones fit this "
    "computer and can be downloaded here."
)


class Shown(NamedTuple):
    """A model to show. used: the drafter with which the open chat uses it, "" if it does not. under_way: what is being
    downloaded."""

    row: Row
    shelf: Shelf
    used: str = ""
    under_way: frozenset[str] = frozenset()


class ModelDetails(QScrollArea):
    """requested(str): the name of a `ModelAction` for the model that is shown."""

    requested = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        style(self, ground="page")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.row: Row | None = None
        self.title, self.name, self.text = wrapped(role="title"), wrapped(role="detail"), wrapped(role="body")
        self.download, self.memory, self.drafters = DownloadView(), MemoryView(), DrafterList()
        self.buttons: dict[str, QPushButton] = {}
        self._headings, self._facts = list[QLabel](), list[QLabel]()
        self._actions, self._grid = QWidget(), QGridLayout()
        self._hairlines = [Hairline(), Hairline(), Hairline()]
        self._lay_out()

    def show_model(self, shown: Shown) -> None:
        """Shows another model, or more about the same."""
        row, shelf = shown.row, shown.shelf
        other = self.row is None or self.row.key != row.key
        self.row = row
        self.title.setText(row.title)
        self.name.setText(row.here.name if row.here else row.key)
        self.text.setText(_status_text(shown))
        self.text.setVisible(bool(self.text.text()))
        self._show_actions(actions_for(row, bool(shown.used)))
        self.download.setVisible(row.download is not None)
        if row.download is not None:
            self.download.show_download(row.download)
        found = account(row, shelf)
        self._section(0, found is not None, self.memory)
        if found is not None:
            self.memory.show_account(found)
        target = row.usable or (row.here is None and row.entry is not None and row.entry.kind == "target")
        self._section(1, target and row.download is None, self.drafters)
        fits = row.room != "no"
        self.drafters.show_offers(offers(row, shelf), _auto(row, shelf), row.usable, fits, set(shown.under_way))
        self._show_facts(_facts_of(row, time.time()))
        if other:
            self.verticalScrollBar().setValue(0)

    def _show_actions(self, found: list[ModelAction]) -> None:
        """Keeps the buttons that stay, so that the keyboard focus stays on them during a download."""
        if [action.name for action in found] != list(self.buttons):
            focused = any(button.hasFocus() for button in self.buttons.values())
            layout = self._actions.layout()
            for button in self.buttons.values():
                if layout is not None:
                    layout.removeWidget(button)
                button.hide()
                button.deleteLater()
            self.buttons = {action.name: QPushButton(self._actions) for action in found}
            for name, button in self.buttons.items():
                button.clicked.connect(lambda _=False, name=name: self.requested.emit(name))
                if layout is not None:
                    layout.addWidget(button)
                button.show()
            if focused and self.buttons:
                next(iter(self.buttons.values())).setFocus(Qt.FocusReason.OtherFocusReason)
        for action in found:
            button = self.buttons[action.name]
            button.setText(action.text)
            button.setAccessibleName(action.text.rstrip("…"))
            button.setToolTip(action.why)
            button.setEnabled(action.possible)
            style(button, role="primary" if action.main and action.possible else "")
        self._actions.setVisible(bool(found))

    def _show_facts(self, found: list[tuple[str, str]]) -> None:
        texts = [text for fact in found for text in fact]
        if texts == [shown.text() for shown in self._facts]:
            return
        for shown in self._facts:
            self._grid.removeWidget(shown)
            shown.hide()
            shown.deleteLater()
        self._facts = []
        for line, (name, value) in enumerate(found):
            title, lines = label(name, tone="faint"), wrapped(value, role="body")
            lines.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            lines.setAccessibleName(f"{name}: {value}")
            self._grid.addWidget(title, line, 0, Qt.AlignmentFlag.AlignTop)
            self._grid.addWidget(lines, line, 1)
            self._facts += [title, lines]

    def _section(self, place: int, shown: bool, part: QWidget) -> None:
        for widget in (self._hairlines[place], self._headings[place], part):
            widget.setVisible(shown)

    def _lay_out(self) -> None:
        inside, outside = QWidget(), QWidget()
        inside.setMaximumWidth(WIDTH)
        flow = FlowLayout(self._actions, GAP)
        flow.setContentsMargins(0, 0, 0, 0)
        column = QVBoxLayout(inside)
        column.setContentsMargins(3 * GAP, 3 * GAP, 3 * GAP, 3 * GAP)
        column.setSpacing(GAP)
        for widget, above in (
            (self.title, 0),
            (self.name, 0),
            (self._actions, 6),
            (self.text, 2),
            (self.download, 4),
        ):
            column.addSpacing(above)
            column.addWidget(widget)
        self._grid.setHorizontalSpacing(2 * GAP)
        self._grid.setVerticalSpacing(4)
        self._grid.setColumnStretch(1, 1)
        about = QWidget()
        about.setLayout(self._grid)
        self._grid.setContentsMargins(0, 0, 0, 0)
        parts: dict[str, QWidget] = {"Memory": self.memory, "Drafters": self.drafters, "About": about}
        for place, (name, part) in enumerate(parts.items()):
            heading = label(name, "heading")
            self._headings.append(heading)
            column.addSpacing(4)
            column.addWidget(self._hairlines[place])
            column.addWidget(heading)
            column.addWidget(part)
        column.addStretch(1)
        row = QHBoxLayout(outside)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(inside, 1000)
        row.addStretch(1)
        self.setWidget(outside)
        self.viewport().setAutoFillBackground(False)
        outside.setAutoFillBackground(False)


def _status_text(shown: Shown) -> str:
    """Returns what comes first of all."""
    row = shown.row
    lines = []
    if shown.used:
        how = "with the automatic drafter" if shown.used == "auto" else f"with {shown.shelf.title(shown.used)}"
        lines.append(f"In use by the open chat, {how}.")
    if row.here is not None and row.here.origin == "builtin":
        lines.append(ALONG)
    if row.here is not None and row.here.trouble and row.download is None:
        lines.append(sentence(row.here.trouble))
    if row.entry is not None and row.entry.trouble:
        lines.append(sentence(row.entry.trouble))
    return " ".join(lines)


def _auto(row: Row, shelf: Shelf) -> str:
    """Returns what the automatic choice takes."""
    judged = shelf.judged.get(row.here.name) if row.here else None
    if judged is None:
        return ""
    if judged.trouble:
        return sentence(judged.trouble)
    return f"Automatic: {judged.auto_why}." if judged.auto else ""


def _facts_of(row: Row, now_s: float) -> list[tuple[str, str]]:
    """Returns names and values of what is known. now_s: since the epoch."""
    entry, here = row.entry, row.here
    found = []
    if entry is not None:
        estimated = here is None and entry.size == "estimated"
        found += [
            ("Kind", KINDS.get(entry.kind, entry.kind)),
            ("Parameters", parameters(entry.parameters_b)),
            ("Weights", bits(entry.bits)),
            ("Size", joined((size(row.size_bytes), "estimated" if estimated else ""))),
            ("Licence", entry.licence),
        ]
        if entry.kind == "target":
            smallest = f"{entry.smallest_mac_gb} GB" if entry.smallest_mac_gb else "none"
            found.append(("Smallest Mac", smallest))
    elif here is not None:
        kind = "Target" if here.kind == "model" else KINDS.get(here.kind, "")
        found += [("Kind", kind), ("Size", size(here.size_bytes))]
    if here is not None:
        used = ago_words(here.last_used_s, now_s) if here.path else ""
        found += [("Source", ORIGINS.get(here.origin, here.origin)), ("Last used", used), ("Folder", here.path)]
        found.append(("Shared with", ", ".join(here.shared_with)))
    return [(name, value) for name, value in found if value]
