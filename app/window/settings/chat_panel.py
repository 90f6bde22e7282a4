"""The settings of a chat: the form for all of them, named presets, and the panel beside the open chat."""

from collections.abc import Mapping

from PySide6.QtCore import QEvent, QSignalBlocker, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QShowEvent
from PySide6.QtWidgets import QBoxLayout, QLineEdit, QPushButton, QWidget

from app.protocol import Loaded
from app.store.records import ChatSettings
from app.window.common.appearance import GAP
from app.window.common.form_fields import Field, Lines, choice
from app.window.common.layouts import STRETCH, column, row
from app.window.common.timer import Timer
from app.window.common.widgets import IconButton, label, scroll_area, style, wrapped
from app.window.settings.pair_form import PairForm
from app.window.settings.sampling_form import TYPING_MS, SamplingForm

NO_PRESET = "No Preset"
LONGEST_NAME = 60
BESIDE_TEXT = 44  # px of a drop-down
SYSTEM_HELP = "Instructions for the model, given before the conversation."


class ChatForm(QWidget):
    """The form for all settings of a chat. changed(ChatSettings): the user changed something; a part that is invalid
    keeps its last valid values."""

    changed = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.pair, self.sampling, self.system = PairForm(), SamplingForm(), Lines(4, "None")
        self._shown, self._context = ChatSettings(), 0
        self._typing = Timer(self, singleShot=True, interval=TYPING_MS)
        self._column = column(on=self, margins=(2 * GAP, 4, 2 * GAP, 2 * GAP), gap=12)
        self._add_section("Models", self.pair)
        self._add_section("Instructions", Field("System prompt", self.system, SYSTEM_HELP, wide=True))
        self._add_section("Speculation", *self.sampling.speculation)
        self._add_section("Sampling", *self.sampling.sampling, self.sampling.reset)
        self._add_section("Thinking", *self.sampling.thought)
        self._add_section("Replies", *self.sampling.ends)
        self._column.addStretch(1)
        self.pair.changed.connect(self._change)
        self.sampling.changed.connect(self._change)
        self.system.textChanged.connect(self._typing.start)
        self._typing.timeout.connect(self._change)

    def settings(self) -> ChatSettings:
        """Returns the values shown; for an invalid part, its last valid values."""
        shown = self._shown
        return ChatSettings(
            pair=self.pair.pair() if self.pair.valid else shown.pair,
            sampling=self.sampling.settings() if self.sampling.valid else shown.sampling,
            system=self.system.toPlainText().strip(),
        )

    def show_settings(self, settings: ChatSettings) -> None:
        """Shows these settings, without a signal, unless they are what the user has just typed."""
        if settings == self._shown and settings == self.settings():
            return
        self._shown = settings
        self.pair.show_pair(settings.pair)
        self.sampling.show_settings(settings.sampling)
        with QSignalBlocker(self.system):
            self.system.setPlainText(settings.system)
        self._set_limits()

    def set_model(self, loaded: Loaded) -> None:
        """Shows what the loaded pair has: its context, its own sampling settings and its switches."""
        self._context = loaded.context
        self.pair.set_model(loaded)
        self.sampling.set_model(loaded.defaults, loaded.thinking, loaded.efforts)
        self._set_limits()

    @property
    def valid(self) -> bool:
        """Whether every value is allowed."""
        return self.pair.valid and self.sampling.valid

    def _add_section(self, name: str, *parts: QWidget) -> None:
        if self._column.count():
            self._column.addSpacing(GAP)
        for widget in (label(name, "section"), *parts):
            self._column.addWidget(widget)

    def _set_limits(self) -> None:
        self.sampling.set_limits(self.pair.tree.isChecked(), self._context)

    def _change(self) -> None:
        self._typing.stop()
        self._set_limits()
        settings = self.settings()
        if settings != self._shown:
            self._shown = settings
            self.changed.emit(settings)


class Presets(QWidget):
    """Named settings, to choose, save and delete. The preset that equals the settings of the chat is shown as chosen.

    used(str), saved(str), deleted(str): by the user. Saving under an existing name replaces that preset.
    """

    used = Signal(str)
    saved = Signal(str)
    deleted = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.box, self.save, self.delete = choice({}), QPushButton("Save…"), QPushButton("Delete")
        self.name, self.confirm, self.cancel = QLineEdit(), QPushButton("Save"), QPushButton("Cancel")
        self.warning, self._naming = wrapped(role="caption"), QWidget()
        self._presets: Mapping[str, ChatSettings] = {}
        self.name.setPlaceholderText("Name")
        self.name.setMaxLength(LONGEST_NAME)
        for control, name in (
            *((self.box, "Preset"), (self.save, "Save as Preset"), (self.delete, "Delete Preset")),
            *((self.name, "Preset Name"), (self.confirm, "Save Preset"), (self.cancel, "Cancel Saving")),
        ):
            control.setAccessibleName(name)
        row((self.name, 1), self.confirm, self.cancel, on=self._naming, gap=6)
        self._line = row((self.box, 1), self.save, self.delete, gap=6)
        column(self._line, self._naming, self.warning, on=self, gap=6)
        self._connect()
        self._end()

    def event(self, event: QEvent) -> bool:
        done = super().event(event)
        if event.type() in (QEvent.Type.Resize, QEvent.Type.LayoutRequest):
            self._place()
        return done

    def _place(self) -> None:
        """Places the buttons below the presets where large text leaves no room beside them."""
        chosen = self.box.fontMetrics().horizontalAdvance(self.box.itemText(0)) + BESIDE_TEXT
        needed = chosen + sum(6 + button.sizeHint().width() for button in (self.save, self.delete))
        direction = QBoxLayout.Direction
        self._line.setDirection(direction.LeftToRight if needed <= self.width() else direction.TopToBottom)

    def show_all(self, presets: Mapping[str, ChatSettings], settings: ChatSettings) -> None:
        """Shows these presets, and which of them equals `settings`."""
        self._presets = presets
        self.box.clear()
        self.box.addItem(NO_PRESET, "")
        for name in sorted(presets, key=str.casefold):
            self.box.addItem(name, name)
        same = next((name for name, preset in presets.items() if preset == settings), "")
        self.box.choose(same)
        self.delete.setEnabled(bool(same))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self._naming.isVisible():
            self._end()
        else:
            super().keyPressEvent(event)

    def _connect(self) -> None:
        self.box.activated.connect(self._use)
        self.save.clicked.connect(self._begin)
        self.delete.clicked.connect(lambda: self.deleted.emit(self.box.currentData()))
        self.name.textChanged.connect(self._check)
        self.name.returnPressed.connect(self._save)
        self.confirm.clicked.connect(self._save)
        self.cancel.clicked.connect(self._end)

    def _use(self) -> None:
        if name := self.box.currentData():
            self.used.emit(name)

    @property
    def _typed(self) -> str:
        return " ".join(self.name.text().split())

    def _begin(self) -> None:
        self.name.setText(self.box.currentData() or "")
        self._naming.show()
        self._check()
        self.name.setFocus()
        self.name.selectAll()

    def _check(self) -> None:
        self.confirm.setEnabled(bool(self._typed))
        self.warning.setText(f"Replaces the preset “{self._typed}”." if self._typed in self._presets else "")
        self.warning.setVisible(bool(self.warning.text()))

    def _save(self) -> None:
        if self._typed:
            self._end()
            self.saved.emit(self._typed)

    def _end(self) -> None:
        self._naming.hide()
        self.warning.hide()


class ChatPanel(QWidget):
    """The settings of the open chat, at its side. They apply from the next reply on.

    changed(ChatSettings): the user changed something. reset(): the user wants the defaults. shown(): it became visible.
    """

    changed = Signal(object)
    reset = Signal()
    closed = Signal()
    shown = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        style(self, ground="page")
        self.presets, self.form, self.state = Presets(), ChatForm(), wrapped(role="detail")
        self.close_button, self.defaults = IconButton("close", "Close Chat Settings"), QPushButton("Reset to Defaults")
        self._saved: Mapping[str, ChatSettings] = {}
        self._top = row((label("Chat Settings", "header"), 1), self.close_button, margins=(2 * GAP, 10, GAP, 0))
        self._area = scroll_area(self.form)
        self._area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)  # a small window, large text
        head = column(self.state, self.presets, margins=(2 * GAP, 0, 2 * GAP, GAP), gap=GAP)
        foot = row(self.defaults, STRETCH, margins=(2 * GAP, GAP, 2 * GAP, 12))
        column(self._top, head, (self._area, 1), foot, on=self, gap=GAP)
        self.form.changed.connect(self._change)
        self.defaults.clicked.connect(self.reset)
        self.close_button.clicked.connect(self.closed)

    def minimumSizeHint(self) -> QSize:
        """As narrow as the widest part of the form. The presets make room by themselves, so that they do not count."""
        form = self.form.minimumSizeHint().width() + self._area.verticalScrollBar().sizeHint().width()
        return QSize(max(form, self._top.minimumSize().width()), super().minimumSizeHint().height())

    def show_chat(self, settings: ChatSettings, presets: Mapping[str, ChatSettings]) -> None:
        """Shows the settings of the chat, and the presets there are."""
        self._saved = presets
        self.form.show_settings(settings)
        self.presets.show_all(presets, settings)

    def show_state(self, text: str) -> None:
        """Shows whether speculation is on, and if not, why."""
        self.state.setText(text)
        self.state.setVisible(bool(text))

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.shown.emit()

    def _change(self, settings: ChatSettings) -> None:
        self.presets.show_all(self._saved, settings)
        self.changed.emit(settings)
