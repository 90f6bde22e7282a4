"""Parts of a form: a named control with its explanation and what is wrong with it, numbers, a folder to choose."""

from __future__ import annotations

from PySide6.QtCore import QObject, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QWheelEvent
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QGridLayout,
    QLabel,
    QPlainTextEdit,
    QSpinBox,
    QStyle,
    QStyleOptionButton,
    QWidget,
)

from app.window.fonts import font
from app.window.icons import pixmap
from app.window.look import LIGHT, Look
from app.window.shell.styles import choice_style, edge, wear
from app.window.shell.theme import NATIVE
from app.window.shell.widgets import wrapped

CONTROL_WIDTH = 148  # px
DECIMALS = 4


class Field(QWidget):
    """A control with its name. help: what it does, below. wide: the control stands below its name, over the width."""

    def __init__(self, name: str, control: QWidget, help: str = "", wide: bool = False) -> None:
        super().__init__()
        self.control, self._help, self._error = control, help, ""
        self._look: Look | None = None
        self._name, self._below = QLabel(name), wrapped()
        self._name.setBuddy(control)
        self._name.setWordWrap(True)
        control.setAccessibleName(name)
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(12)
        grid.setVerticalSpacing(3)
        grid.addWidget(self._name, 0, 0)
        if wide:
            grid.addWidget(control, 1, 0, 1, 2)
        else:
            control.setFixedWidth(CONTROL_WIDTH)
            grid.addWidget(control, 0, 1, Qt.AlignmentFlag.AlignRight)
        grid.setColumnStretch(0, 1)
        grid.addWidget(self._below, 2, 0, 1, 2)
        self._show()

    def say(self, help: str) -> None:
        """Another explanation."""
        self._help = help
        self._show()

    def fail(self, error: str) -> None:
        """What is wrong with the value; "" for nothing."""
        self._error = error
        self._show()

    @property
    def error(self) -> str:
        """What is wrong with the value."""
        return self._error

    def set_look(self, look: Look) -> None:
        self._look = look
        self._name.setFont(font(look, 13))
        self._name.setStyleSheet(f"color: {look.text};")
        self.control.setFont(font(look))
        if isinstance(self.control, Choice | Check):
            self.control.set_look(look)
        self._show()

    def _show(self) -> None:
        text = self._error or self._help
        self._below.setText(text)
        self._below.setVisible(bool(text))
        if self._look is not None:
            colour = self._look.error if self._error else self._look.faint
            wear(self._below, f"color: {colour}; font-size: {self._look.px(11.5)}px;")
        self.control.setAccessibleDescription(text)


class _Unrolled(QObject):
    """Keeps the wheel from changing a value that is only scrolled past."""

    def eventFilter(self, watched: QObject, event: object) -> bool:
        if isinstance(event, QWheelEvent) and isinstance(watched, QWidget) and not watched.hasFocus():
            event.ignore()
            return True
        return False


def unrolled(control: QWidget) -> None:
    """The wheel changes the control only while the keyboard is on it."""
    control.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    control.installEventFilter(_Unrolled(control))


def whole(low: int, high: int, special: str = "") -> QSpinBox:
    """A whole number. special: what the lowest is called."""
    box = QSpinBox()
    box.setRange(low, high)
    box.setSpecialValueText(special)
    box.setGroupSeparatorShown(True)
    _settle(box)
    return box


def _settle(box: QAbstractSpinBox) -> None:
    """A value counts once it is typed; the arrow keys step. Off macOS there are no buttons beside it."""
    box.setKeyboardTracking(False)
    if not NATIVE:
        box.setButtonSymbols(QAbstractSpinBox.ButtonSymbols.NoButtons)
    unrolled(box)


class Real(QDoubleSpinBox):
    """A number, shown with no more decimals than it has."""

    def textFromValue(self, value: float) -> str:
        return f"{value:g}"


def real(low: float, high: float, step: float) -> Real:
    """A number with up to DECIMALS decimals."""
    box = Real()
    box.setDecimals(DECIMALS)
    box.setRange(low, high)
    box.setSingleStep(step)
    _settle(box)
    return box


class Choice(QComboBox):
    """A drop-down; off macOS with an arrow in the window's own strokes."""

    def set_look(self, look: Look) -> None:
        self._arrow = look.faint
        self.setStyleSheet(choice_style(look))

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if not NATIVE:
            painter = QPainter(self)
            drawn = pixmap("down", self._arrow, 14, self.devicePixelRatioF())
            painter.drawPixmap(self.width() - 21, (self.height() - 14) // 2, drawn)
            painter.end()

    _arrow = LIGHT.faint


class Check(QCheckBox):
    """A box to tick; off macOS in the window's own strokes, so that it is seen on dark grounds too."""

    _look = LIGHT

    def set_look(self, look: Look) -> None:
        self._look = look
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if NATIVE:
            return
        option = QStyleOptionButton()
        self.initStyleOption(option)
        box = self.style().subElementRect(QStyle.SubElement.SE_CheckBoxIndicator, option, self)
        look, ratio = self._look, self.devicePixelRatioF()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(box, QColor(look.background))
        painter.setPen(QColor(look.accent if self.isChecked() else edge(look)))
        painter.setBrush(QColor(look.accent if self.isChecked() else look.background))
        painter.drawRoundedRect(QRectF(box).adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
        if self.isChecked():
            painter.drawPixmap(box, pixmap("check", look.on_accent, box.width(), ratio))
        painter.end()


def choice(options: dict[str, str]) -> Choice:
    """One of several. options: from what is kept to what is shown."""
    box = Choice()
    for value, shown in options.items():
        box.addItem(shown, value)
    box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
    box.setMinimumContentsLength(8)
    unrolled(box)
    return box


def choose(box: QComboBox, value: str) -> None:
    """Show the option that is kept as `value`."""
    box.setCurrentIndex(max(0, box.findData(value)))


class Lines(QPlainTextEdit):
    """A few lines of text; Tab goes on to the next control."""

    def __init__(self, lines: int, placeholder: str) -> None:
        super().__init__()
        self._lines = lines
        self.setTabChangesFocus(True)
        self.setPlaceholderText(placeholder)

    def sizeHint(self) -> QSize:
        return QSize(160, self.fontMetrics().lineSpacing() * self._lines + 14)

    def minimumSizeHint(self) -> QSize:
        return QSize(80, self.sizeHint().height())
