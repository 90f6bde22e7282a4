"""A walk over a window by keyboard: every control must be reached by Tab and say what it is."""

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLineEdit,
    QMenuBar,
    QPlainTextEdit,
    QScrollBar,
    QTabBar,
    QTextEdit,
    QWidget,
)

CONTROLS = (QAbstractButton, QAbstractItemView, QAbstractSlider, QAbstractSpinBox, QComboBox, QLineEdit, QPlainTextEdit,
            QTabBar, QTextEdit)  # fmt: skip
WHOLE = (QAbstractSpinBox, QComboBox, QLineEdit, QMenuBar)  # what is inside belongs to them


def controls(of: QWidget) -> list[QWidget]:
    """Returns the controls that are visible and enabled."""
    found = [w for w in of.findChildren(QWidget) if isinstance(w, CONTROLS) and w.isVisibleTo(of)]
    return [w for w in found if not isinstance(w, QScrollBar) and not _is_part(w) and w.isEnabled()]


def faults(of: QWidget, first: QWidget | None = None) -> list[str]:
    """Returns what is wrong with the controls of a widget. first: where a walk with Tab begins that must reach all;
    without one, what their focus policy says counts."""
    wrong = []
    reached = _reached(first) if first is not None else None
    for widget in controls(of):
        control = f"{type(widget).__name__} {_name(widget) or widget.objectName()!r}"
        if not _name(widget):
            wrong.append(f"{control}: no name")
        tabs = widget.focusPolicy() & Qt.FocusPolicy.TabFocus
        if not (tabs if reached is None else {widget, widget.focusProxy()} & reached):
            wrong.append(f"{control}: Tab does not reach it")
        if isinstance(widget, QAbstractButton) and not widget.text() and not widget.icon().isNull():
            wrong += [] if widget.toolTip() else [f"{control}: an icon without a tip"]
    return wrong


def _is_part(widget: QWidget) -> bool:
    """Returns whether a widget is part of another control."""
    above = widget.parentWidget()
    return above is not None and (isinstance(above, WHOLE) or _is_part(above))


def _name(widget: QWidget) -> str:
    """Returns the name that assistive technology reads."""
    return widget.accessibleName() or (widget.text() if isinstance(widget, QAbstractButton) else "")


def _reached(first: QWidget) -> set[QWidget | None]:
    """Returns the widgets that Tab reaches, beginning at `first`."""
    first.setFocus(Qt.FocusReason.TabFocusReason)
    seen: set[QWidget | None] = set()
    while (at := QApplication.focusWidget()) is not None and at not in seen:
        seen.add(at)
        QTest.keyClick(at, Qt.Key.Key_Tab)
    seen |= {proxy for widget in seen if (proxy := widget.focusProxy()) is not None}
    groups = [one.group() for one in seen if isinstance(one, QAbstractButton) and one.group() is not None]
    return seen | {button for group in groups for button in group.buttons()}  # the arrows go on from there
