"""The parts of a form: a field with a name, a control and an explanation or an error below, and the controls."""

from collections.abc import Callable, Mapping
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QWheelEvent
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QBoxLayout,
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QFileDialog,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QSpinBox,
    QStyle,
    QStyleOptionButton,
    QWidget,
)

from app.window.common import theme
from app.window.common.icons import pixmap
from app.window.common.layouts import column, row
from app.window.common.theme import NATIVE
from app.window.common.widgets import style, wrapped
from models.paths import exists

CONTROL_WIDTH, BESIDE = 168, 12  # px: of a control, and between its name and it
DECIMALS = 4
ARROW = 14  # px


class Field(QWidget):
    """A control with its name. help: an explanation, shown below. wide: whether the control is below its name, as wide
    as the form. Otherwise it is beside its name if there is room for both, which large text may not leave."""

    def __init__(self, name: str, control: QWidget, help: str = "", wide: bool = False) -> None:
        super().__init__()
        self.error, self._control, self._help, self._wide = "", control, help, wide
        self._name, self._below = wrapped(name, role="body"), wrapped(role="caption")
        self._name.setBuddy(control)
        control.setAccessibleName(name)
        self._line = column(self._name, control, gap=3) if wide else row((self._name, 1), control, gap=BESIDE)
        column(self._line, self._below, on=self, gap=3)
        self._show()
        self._place()

    def set_help(self, help: str) -> None:
        """Shows another explanation."""
        self._help = help
        self._show()

    def set_error(self, error: str) -> None:
        """Shows what is wrong with the value instead of the explanation; "" if nothing is."""
        self.error = error
        self._show()

    def minimumSizeHint(self) -> QSize:
        """As narrow as the longest word of the name: the control can go below it, and then is as wide as the field."""
        hint = super().minimumSizeHint()
        return hint if self._wide else QSize(self._longest_word_px(), hint.height())

    def event(self, event: QEvent) -> bool:
        done = super().event(event)
        if event.type() in (QEvent.Type.Resize, QEvent.Type.LayoutRequest, QEvent.Type.StyleChange):
            self._place()
        return done

    def _place(self) -> None:
        """Places the control beside its name where no word of the name is cut, else below."""
        if self._wide:
            return
        width = theme.current().scaled_width(CONTROL_WIDTH)
        below = self.width() < width + BESIDE + self._longest_word_px()
        direction = QBoxLayout.Direction
        gap = 3 if below else BESIDE
        self._line.setDirection(direction.TopToBottom if below else direction.LeftToRight)
        if self._line.spacing() != gap:  # even the same one would request a layout, for ever
            self._line.setSpacing(gap)
        self._control.setFixedWidth(min(width, self.width()) if below else width)

    def _longest_word_px(self) -> int:
        return max(map(self._name.fontMetrics().horizontalAdvance, self._name.text().split()), default=0)

    def _show(self) -> None:
        text = self.error or self._help
        self._below.setText(text)
        self._below.setVisible(bool(text))
        style(self._below, tone="error" if self.error else "faint")
        self._control.setAccessibleDescription(text)


class _WheelGuard(QObject):
    """Keeps the wheel from changing a value that the user only scrolls past."""

    def eventFilter(self, watched: QObject, event: object) -> bool:
        if isinstance(event, QWheelEvent) and isinstance(watched, QWidget) and not watched.hasFocus():
            event.ignore()
            return True
        return False


def _guard_wheel(control: QWidget) -> None:
    control.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    control.installEventFilter(_WheelGuard(control))


class RealSpinBox(QDoubleSpinBox):
    """A number, shown without trailing zeros."""

    def textFromValue(self, value: float) -> str:
        return f"{value:g}"


def whole_number(low: int, high: int, lowest: str = "") -> QSpinBox:
    """Returns a control for a whole number. lowest: the text that is shown for the lowest value."""
    box = QSpinBox(minimum=low, maximum=high)
    box.setSpecialValueText(lowest)
    box.setGroupSeparatorShown(True)
    _set_up_number(box)
    return box


def real_number(low: float, high: float, step: float) -> RealSpinBox:
    """Returns a control for a number with up to DECIMALS decimals."""
    box = RealSpinBox(decimals=DECIMALS, minimum=low, maximum=high, singleStep=step)
    _set_up_number(box)
    return box


def _set_up_number(box: QAbstractSpinBox) -> None:
    box.setKeyboardTracking(False)  # a value counts once it is typed
    if not NATIVE:
        box.setButtonSymbols(QAbstractSpinBox.ButtonSymbols.NoButtons)
    _guard_wheel(box)


class Choice(QComboBox):
    """A drop-down. Except on macOS, its arrow is one of the window's own icons."""

    def choose(self, value: str | int) -> None:
        """Shows the option with this value, or the first option if there is none."""
        self.setCurrentIndex(max(0, self.findData(value)))

    def offer(self, name: str) -> None:
        """Adds a model by its name before the last option, unless it is there."""
        if self.findData(name) < 0:
            self.insertItem(self.count() - 1, name.rpartition("/")[2], name)
            self.setItemData(self.findData(name), name, Qt.ItemDataRole.ToolTipRole)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if not NATIVE:
            painter = QPainter(self)
            drawn = pixmap("down", theme.current().faint, ARROW, self.devicePixelRatioF())
            painter.drawPixmap(self.width() - 21, (self.height() - ARROW) // 2, drawn)
            painter.end()


def choice(options: Mapping[str, str] | Mapping[int, str]) -> Choice:
    """Returns a drop-down. options: by value, the text that is shown."""
    box = Choice()
    for value, text in options.items():
        box.addItem(text, value)
    box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
    box.setMinimumContentsLength(8)
    _guard_wheel(box)
    return box


class CheckBox(QCheckBox):
    """A check box. Except on macOS, the window draws it itself, so that it is visible on dark backgrounds too."""

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if NATIVE:
            return
        option = QStyleOptionButton()
        self.initStyleOption(option)
        box = self.style().subElementRect(QStyle.SubElement.SE_CheckBoxIndicator, option, self)
        look, painter = theme.current(), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(box, QColor(look.background))
        painter.setPen(QColor(look.accent if self.isChecked() else look.edge))
        painter.setBrush(QColor(look.accent if self.isChecked() else look.background))
        painter.drawRoundedRect(QRectF(box).adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
        if self.isChecked():
            painter.drawPixmap(box, pixmap("check", look.on_accent, box.width(), self.devicePixelRatioF()))
        painter.end()


class Lines(QPlainTextEdit):
    """A text field of a few lines. Tab moves to the next control."""

    def __init__(self, lines: int, placeholder: str) -> None:
        super().__init__()
        self._lines = lines
        self.setTabChangesFocus(True)
        self.setPlaceholderText(placeholder)

    def sizeHint(self) -> QSize:
        return QSize(160, self.fontMetrics().lineSpacing() * self._lines + 14)

    def minimumSizeHint(self) -> QSize:
        return QSize(80, self.sizeHint().height())


class FolderField(QWidget):
    """A field for a folder, which is typed or chosen. changed(): the user entered another one."""

    changed = Signal()

    def __init__(self, placeholder: str, ask: Callable[[QWidget], str] | None = None) -> None:
        super().__init__()
        self._ask = ask or _ask_folder
        self.line, self.button = QLineEdit(), QPushButton("Choose…")
        self.line.setPlaceholderText(placeholder)
        row((self.line, 1), self.button, on=self, gap=6)
        self.setFocusProxy(self.line)
        self.line.editingFinished.connect(self.changed)
        self.button.clicked.connect(self._choose)

    def setAccessibleName(self, name: str) -> None:
        super().setAccessibleName(name)
        self.line.setAccessibleName(name)
        self.button.setAccessibleName(f"Choose {name}")

    def text(self) -> str:
        """Returns the folder as it was typed or chosen."""
        return self.line.text().strip()

    def set_text(self, text: str) -> None:
        """Shows another folder, without a signal."""
        self.line.setText(text)

    def _choose(self) -> None:
        if folder := self._ask(self):
            self.line.setText(folder)
            self.changed.emit()


def is_folder(spec: str) -> bool:
    """Returns whether `spec` is a folder rather than the name of a model, by the same rule as in the terminal."""
    return not spec or spec.startswith(("/", ".", "~")) or exists(spec)


def folder_error(text: str) -> str:
    """Returns what is wrong with a model folder, without reading the model; "" if nothing is."""
    if not text:
        return "Choose a folder."
    try:
        folder = Path(text).expanduser()
        if not folder.is_dir():
            return "This folder does not exist."
        return "" if (folder / "config.json").is_file() else "This folder does not contain a model (no config.json)."
    except (OSError, ValueError):
        return "This folder does not exist."


def _ask_folder(parent: QWidget) -> str:
    return QFileDialog.getExistingDirectory(parent, "Choose a Model Folder")
