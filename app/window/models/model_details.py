"""The details of one model: what can be done with it, and all that is known about it."""

import time
from collections.abc import Collection
from typing import NamedTuple

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QGridLayout, QPushButton, QScrollArea, QWidget

from app.duration_text import ago_words
from app.model_words import KINDS, bits, joined, parameters, size
from app.window.common.appearance import GAP
from app.window.common.layouts import STRETCH, FlowLayout, clear, column, row
from app.window.common.sentence import sentence
from app.window.common.widgets import Hairline, label, style, wrapped
from app.window.models.download_view import DownloadView
from app.window.models.downloads import Download
from app.window.models.drafter_list import DrafterList
from app.window.models.known_models import KnownModels, ModelRow
from app.window.models.memory_view import MemoryView, memory_need
from models.catalogue.search import smallest_mac_gb

MAX_WIDTH = 640  # px
ORIGINS = {"hub": "Hugging Face cache", "lm-studio": "LM Studio", "redline": "Imported", "builtin": "Built in"}
BUILTIN_TEXT = (
    "Comes with Redline and works without a network. Larger models write better: the recommended ones fit this "
    "computer and can be downloaded here."
)
TOO_LARGE = "This model does not fit in this computer's memory."


class ModelAction(NamedTuple):
    """A button. name: get, both, pause, resume, cancel, forget, use or delete. why: its tooltip. main: whether it is
    the primary action."""

    name: str
    text: str
    enabled: bool = True
    main: bool = False
    why: str = ""


def actions_for(model: ModelRow, used: bool) -> list[ModelAction]:
    """Returns the actions for a model in their order. used: whether the open chat uses it."""
    if model.download is not None:
        return _download_actions(model.download)
    if model.here is not None:
        return _installed_actions(model, used)
    if model.entry is None or model.entry.trouble:
        return []
    large = f" ({size(model.size_bytes)})" if model.size_bytes else ""
    if model.fit == "no":
        return [ModelAction("get", f"Download Anyway{large}", why=TOO_LARGE)]
    if model.missing_drafter:
        why = f"Downloads {model.drafter} as well, its best known drafter"
        total = f" ({size(model.size_bytes + model.missing_bytes)})" if model.size_bytes and model.missing_bytes else ""
        both = ModelAction("both", f"Download with Drafter{total}", main=True, why=why)
        return [both, ModelAction("get", f"Download Model Only{large}")]
    return [ModelAction("get", f"Download{large}", main=True)]


def _download_actions(download: Download) -> list[ModelAction]:
    cancel = ModelAction("cancel", "Cancel Download", why="Deletes what was downloaded")
    if download.state == "discarding":
        return []
    if download.live:
        return [ModelAction("pause", "Pause", why="Keeps what was downloaded"), cancel]
    if download.state == "failed" and not download.done_bytes:
        dismiss = ModelAction("forget", "Dismiss", why="Nothing was downloaded")
        return [ModelAction("resume", "Try Again", main=True), dismiss]
    return [ModelAction("resume", "Resume", main=True), cancel]


def _installed_actions(model: ModelRow, used: bool) -> list[ModelAction]:
    found = []
    if model.usable:
        fits = model.fit != "no"
        why = "Uses this model in the open chat, with the automatic drafter" if fits else TOO_LARGE
        found.append(ModelAction("use", "In Use" if used else "Use", fits and not used, main=True, why=why))
    if model.here is not None and model.here.origin != "builtin":
        why = "Shows what will be deleted, and what else uses it, before asking"
        found.append(ModelAction("delete", "Delete…", why=why))
    return found


class ModelDetails(QScrollArea):
    """requested(str): the user wants this `ModelAction` for the model that is shown."""

    requested = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        style(self, ground="page")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.title, self.name, self.text = wrapped(role="title"), wrapped(role="detail"), wrapped(role="body")
        self.download, self.memory, self.drafters = DownloadView(), MemoryView(), DrafterList()
        self.buttons: dict[str, QPushButton] = {}
        self._key, self._facts = "", list[tuple[str, str]]()
        self._actions, self._grid, about = QWidget(), QGridLayout(), QWidget()
        FlowLayout(self._actions, GAP).setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(2 * GAP)
        self._grid.setVerticalSpacing(4)
        self._grid.setColumnStretch(1, 1)
        self._grid.setContentsMargins(0, 0, 0, 0)
        about.setLayout(self._grid)
        self._memory, self._drafters = _section("Memory", self.memory), _section("Drafters", self.drafters)
        inside, outside = QWidget(), QWidget()
        inside.setMaximumWidth(MAX_WIDTH)
        top = (self.title, self.name, 6, self._actions, 2, self.text, 4, self.download)
        parts = (*top, self._memory, self._drafters, _section("About", about), STRETCH)
        column(*parts, on=inside, margins=(3 * GAP, 3 * GAP, 3 * GAP, 3 * GAP), gap=GAP)
        row((inside, 1000), STRETCH, on=outside)
        self.setWidget(outside)
        self.viewport().setAutoFillBackground(False)
        outside.setAutoFillBackground(False)

    def show_model(self, model: ModelRow, known: KnownModels, drafter: str, running: Collection[str]) -> None:
        """Shows another model, or more about the same one.

        drafter: with which the open chat uses it, "" if it does not. running: repositories being downloaded.
        """
        self.title.setText(model.title)
        self.name.setText(model.here.name if model.here else model.key)
        self.text.setText(_introduction(model, known, drafter))
        self.text.setVisible(bool(self.text.text()))
        self._show_actions(actions_for(model, bool(drafter)))
        self.download.setVisible(model.download is not None)
        if model.download is not None:
            self.download.show_download(model.download)
        need = memory_need(model, known)
        self._memory.setVisible(need is not None)
        if need is not None:
            self.memory.show_need(need)
        target = model.usable or (model.here is None and model.target is not None)
        self._drafters.setVisible(target and model.download is None)
        self.drafters.show_target(model, known, running)
        self._show_facts(_facts(model, time.time()))
        if model.key != self._key:
            self._key = model.key
            self.verticalScrollBar().setValue(0)

    def _show_actions(self, actions: list[ModelAction]) -> None:
        """Keeps the buttons that stay, so that the keyboard focus stays on them during a download."""
        if [action.name for action in actions] != list(self.buttons):
            focused = any(button.hasFocus() for button in self.buttons.values())
            self._make_buttons([action.name for action in actions])
            if focused and self.buttons:
                next(iter(self.buttons.values())).setFocus(Qt.FocusReason.OtherFocusReason)
        for action in actions:
            button = self.buttons[action.name]
            button.setText(action.text)
            button.setAccessibleName(action.text.rstrip("…"))
            button.setToolTip(action.why)
            button.setEnabled(action.enabled)
            style(button, role="primary" if action.main and action.enabled else "")
        self._actions.setVisible(bool(actions))

    def _make_buttons(self, names: list[str]) -> None:
        layout = self._actions.layout()
        assert layout is not None
        clear(layout)
        self.buttons = {name: QPushButton(self._actions) for name in names}
        for name, button in self.buttons.items():
            button.clicked.connect(lambda _=False, name=name: self.requested.emit(name))
            layout.addWidget(button)
            button.show()

    def _show_facts(self, facts: list[tuple[str, str]]) -> None:
        if facts == self._facts:
            return
        self._facts = facts
        clear(self._grid)
        for line, (name, value) in enumerate(facts):
            text = wrapped(value, role="body")
            text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            text.setAccessibleName(f"{name}: {value}")
            self._grid.addWidget(label(name, tone="faint"), line, 0, Qt.AlignmentFlag.AlignTop)
            self._grid.addWidget(text, line, 1)


def _section(title: str, part: QWidget) -> QWidget:
    made = QWidget()
    column(4, Hairline(), label(title, "heading"), part, on=made, gap=GAP)
    return made


def _introduction(model: ModelRow, known: KnownModels, drafter: str) -> str:
    """Returns how the model is used, what it is, and what is wrong with it."""
    lines = []
    if drafter:
        how = "with the automatic drafter" if drafter == "auto" else f"with {known.title(drafter)}"
        lines.append(f"In use by the open chat, {how}.")
    if model.here is not None and model.here.origin == "builtin":
        lines.append(BUILTIN_TEXT)
    if model.here is not None and model.download is None:
        lines.append(sentence(model.here.trouble))
    if model.target is not None:
        lines.append(sentence(model.target.good_at and f"good at {model.target.good_at}"))
    if model.entry is not None:
        lines.append(sentence(model.entry.trouble))
    return " ".join(line for line in lines if line)


def _facts(model: ModelRow, now_s: float) -> list[tuple[str, str]]:
    """Returns the names and values of what is known. now_s: since the epoch."""
    entry, here = model.entry, model.here
    found = []
    if entry is not None:
        estimated = "estimated" if here is None and entry.size == "estimated" else ""
        found += [
            ("Kind", "Target" if model.target else KINDS[entry.kind]),
            ("Parameters", parameters(entry.parameters_b)),
            ("Weights", bits(entry.bits)),
            ("Size", joined((size(model.size_bytes), estimated))),
            ("Licence", entry.licence),
        ]
        if model.target is not None:
            mac_gb = smallest_mac_gb(model.target.size_bytes)
            found.append(("Smallest Mac", f"{mac_gb} GB" if mac_gb else "none"))
    elif here is not None:
        kind = "Target" if here.kind == "model" else KINDS.get(here.kind, "")
        found += [("Kind", kind), ("Size", size(here.size_bytes))]
    if here is not None:
        found += [
            ("Source", ORIGINS.get(here.origin, here.origin)),
            ("Last used", ago_words(here.last_used_s, now_s) if here.path else ""),
            ("Folder", here.path),
            ("Shared with", ", ".join(here.shared_with)),
            ("Architecture", here.reference),
        ]
    return [(name, value) for name, value in found if value]
