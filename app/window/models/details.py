"""The right side of the page: one model, what can be done with it, and all that is known about it."""

from __future__ import annotations

import time
from typing import NamedTuple

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont
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

from app.window.fonts import font
from app.window.look import GAP, LIGHT, Look
from app.window.models.acting import Deed, deeds
from app.window.models.downloading import Downloading
from app.window.models.drafting import Drafting, offers
from app.window.models.fitting import Fitting, account
from app.window.models.knowing import facts_of
from app.window.models.shelf import Row, Shelf
from app.window.models.wording import sentence
from app.window.shell.flow import FlowLayout
from app.window.shell.styles import controls_style, faint_style, wear
from app.window.shell.widgets import Hairline, wrapped
from app.window.transcript.buttons import filled

WIDTH = 640  # px, the widest
ALONG = (
    "It comes with Redline and answers at once, without a network. Larger models write better: those that are "
    "recommended here fit this computer, and Redline gets them for you."
)


class Shown(NamedTuple):
    """What the details are of. used: the drafter with which the open chat uses it, "" if it does not. under_way: what
    is being downloaded."""

    row: Row
    shelf: Shelf
    used: str = ""
    under_way: frozenset[str] = frozenset()


class Details(QScrollArea):
    """asked(str): a deed of `acting.deeds`, for the model that is shown."""

    asked = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("details")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.row: Row | None = None
        self.title, self.name, self.said = wrapped(), wrapped(), wrapped()
        self.downloading, self.fitting, self.drafting = Downloading(), Fitting(), Drafting()
        self.buttons: dict[str, QPushButton] = {}
        self._headings, self._facts = list[QLabel](), list[QLabel]()
        self._actions, self._grid = QWidget(), QGridLayout()
        self._hairlines = [Hairline(), Hairline(), Hairline()]
        self._look: Look = LIGHT
        self._lay_out()

    def show_model(self, shown: Shown) -> None:
        """Another model, or more about the same."""
        row, shelf = shown.row, shown.shelf
        other = self.row is None or self.row.key != row.key
        self.row = row
        self.title.setText(row.title)
        self.name.setText(row.here.name if row.here else row.key)
        self.said.setText(_said(shown))
        self.said.setVisible(bool(self.said.text()))
        self._show_deeds(deeds(row, bool(shown.used)))
        self.downloading.setVisible(row.download is not None)
        if row.download is not None:
            self.downloading.show_download(row.download)
        found = account(row, shelf)
        self._section(0, found is not None, self.fitting)
        if found is not None:
            self.fitting.show_account(found)
        target = row.usable or (row.here is None and row.entry is not None and row.entry.kind == "target")
        self._section(1, target and row.download is None, self.drafting)
        fits = row.room != "no"
        self.drafting.show_offers(offers(row, shelf), _auto(row, shelf), row.usable, fits, set(shown.under_way))
        self._show_facts(facts_of(row, time.time()))
        if other:
            self.verticalScrollBar().setValue(0)

    def set_look(self, look: Look) -> None:
        self._look = look
        for part in (self.downloading, self.fitting, self.drafting, *self._hairlines):
            part.set_look(look)  # type: ignore[attr-defined]  # each has it
        self.title.setFont(font(look, 22, QFont.Weight.DemiBold))
        self.name.setFont(font(look, 12))
        wear(self.title, f"color: {look.text};")
        wear(self.name, faint_style(look, 12))
        wear(self.said, f"color: {look.text}; font-size: {look.px(13)}px;")
        for heading in self._headings:
            heading.setFont(font(look, 13, QFont.Weight.DemiBold))
            wear(heading, f"color: {look.text};")
        for place, label in enumerate(self._facts):
            wear(label, f"color: {look.text if place % 2 else look.faint}; font-size: {look.px(13)}px;")
        self._dress_buttons()

    def _dress_buttons(self) -> None:
        for name, button in self.buttons.items():
            main = name == next(iter(self.buttons)) and button.isEnabled() and button.property("main")
            wear(button, filled(self._look) if main else controls_style(self._look))

    def _show_deeds(self, found: list[Deed]) -> None:
        """The same buttons stay, so that the keyboard stays on them while a download goes on."""
        if [deed.name for deed in found] != list(self.buttons):
            focused = any(button.hasFocus() for button in self.buttons.values())
            layout = self._actions.layout()
            for button in self.buttons.values():
                if layout is not None:
                    layout.removeWidget(button)
                button.hide()
                button.deleteLater()
            self.buttons = {deed.name: QPushButton(self._actions) for deed in found}
            for name, button in self.buttons.items():
                button.clicked.connect(lambda _=False, name=name: self.asked.emit(name))
                if layout is not None:
                    layout.addWidget(button)
                button.show()
            if focused and self.buttons:
                next(iter(self.buttons.values())).setFocus(Qt.FocusReason.OtherFocusReason)
        for deed in found:
            button = self.buttons[deed.name]
            button.setText(deed.text)
            button.setAccessibleName(deed.text.rstrip("…"))
            button.setToolTip(deed.why)
            button.setEnabled(deed.possible)
            button.setProperty("main", deed.main)
        self._actions.setVisible(bool(found))
        self._dress_buttons()

    def _show_facts(self, found: list[tuple[str, str]]) -> None:
        texts = [text for fact in found for text in fact]
        if texts == [label.text() for label in self._facts]:
            return
        for label in self._facts:
            self._grid.removeWidget(label)
            label.hide()
            label.deleteLater()
        self._facts = []
        for line, (name, value) in enumerate(found):
            title, told = QLabel(name), wrapped(value)
            told.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            told.setAccessibleName(f"{name}: {value}")
            self._grid.addWidget(title, line, 0, Qt.AlignmentFlag.AlignTop)
            self._grid.addWidget(told, line, 1)
            self._facts += [title, told]
        self.set_look(self._look)

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
            (self.said, 2),
            (self.downloading, 4),
        ):
            column.addSpacing(above)
            column.addWidget(widget)
        self._grid.setHorizontalSpacing(2 * GAP)
        self._grid.setVerticalSpacing(4)
        self._grid.setColumnStretch(1, 1)
        about = QWidget()
        about.setLayout(self._grid)
        self._grid.setContentsMargins(0, 0, 0, 0)
        parts: dict[str, QWidget] = {"Will It Fit?": self.fitting, "Drafters": self.drafting, "About": about}
        for place, (name, part) in enumerate(parts.items()):
            heading = QLabel(name)
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


def _said(shown: Shown) -> str:
    """What comes before everything else."""
    row = shown.row
    told = []
    if shown.used:
        how = "drafted for automatically" if shown.used == "auto" else f"with {shown.shelf.title(shown.used)}"
        told.append(f"The open chat uses it, {how}.")
    if row.here is not None and row.here.origin == "builtin":
        told.append(ALONG)
    if row.here is not None and row.here.trouble and row.download is None:
        told.append(sentence(row.here.trouble))
    if row.entry is not None and row.entry.trouble:
        told.append(sentence(row.entry.trouble))
    return " ".join(told)


def _auto(row: Row, shelf: Shelf) -> str:
    """What the automatic choice comes to."""
    judged = shelf.judged.get(row.here.name) if row.here else None
    if judged is None:
        return ""
    if judged.trouble:
        return sentence(judged.trouble)
    return f"The automatic choice takes {judged.auto_why}." if judged.auto else ""
