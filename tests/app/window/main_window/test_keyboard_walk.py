"""Every control can be reached by keyboard and says what it is: a walk over the window, its panels and its settings."""

from __future__ import annotations

import pytest
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

from app.store.records import Attachment
from app.window.chat import Controller, Notice
from app.window.common.preferences import Draft
from app.window.main_window.main_window import MainWindow
from app.window.settings.settings_window import PAGES
from tests.app.window.chats import open_chat, show_loaded

CONTROLS = (QAbstractButton, QAbstractItemView, QAbstractSlider, QAbstractSpinBox, QComboBox, QLineEdit, QPlainTextEdit,
            QTabBar, QTextEdit)  # fmt: skip
WHOLE = (QAbstractSpinBox, QComboBox, QLineEdit, QMenuBar)  # what is inside belongs to them


@pytest.fixture
def whole(window: MainWindow, controller: Controller) -> MainWindow:
    """The window with something in every part."""
    window.resize(1400, 900)
    show_loaded(controller)
    open_chat(controller, "Why?", "So.\n\n```\ncode\n```\n")
    controller.regenerate(controller.path[1].id)
    controller.stop()
    controller.select(min(controller.path[1].siblings))
    controller.notice.emit(Notice("error", "It broke.", (("Continue", controller.stop),)))
    window.parts.composer.set_draft(Draft(text="a", attachments=(Attachment(name="a.txt", text="a"),)))
    QApplication.processEvents()
    return window


def controls(of: QWidget) -> list[QWidget]:
    """Returns the controls that are visible and enabled."""
    found = [w for w in of.findChildren(QWidget) if isinstance(w, CONTROLS) and w.isVisibleTo(of)]
    return [w for w in found if not isinstance(w, QScrollBar) and not inner(w) and w.isEnabled()]


def inner(widget: QWidget) -> bool:
    """Returns whether a widget is part of another control."""
    above = widget.parentWidget()
    while above is not None:
        if isinstance(above, WHOLE):
            return True
        above = above.parentWidget()
    return False


def called(widget: QWidget) -> str:
    """Returns the name that assistive technology reads."""
    return widget.accessibleName() or (widget.text() if isinstance(widget, QAbstractButton) else "")


def faults(of: QWidget) -> list[str]:
    """Returns what is wrong with the controls of a widget."""
    wrong = []
    for widget in controls(of):
        control = f"{type(widget).__name__} {called(widget) or widget.objectName()!r}"
        if not called(widget):
            wrong.append(f"{control}: no name")
        if not widget.focusPolicy() & Qt.FocusPolicy.TabFocus:
            wrong.append(f"{control}: Tab does not reach it")
        if isinstance(widget, QAbstractButton) and not widget.text() and not widget.icon().isNull():
            wrong += [] if widget.toolTip() else [f"{control}: an icon without a tip"]
    return wrong


def walked(window: QWidget, first: QWidget) -> set[QWidget]:
    """Returns the widgets that Tab reaches, beginning at `first`."""
    first.setFocus(Qt.FocusReason.TabFocusReason)
    seen: set[QWidget] = set()
    for _ in range(400):
        at = QApplication.focusWidget()
        if at is None or at in seen:
            return seen
        seen.add(at)
        QTest.keyClick(at, Qt.Key.Key_Tab)
    return seen


def unreached(window: QWidget, first: QWidget) -> list[str]:
    """Returns the controls that Tab does not reach."""
    seen = walked(window, first)
    seen |= {proxy for w in seen if (proxy := w.focusProxy()) is not None}
    groups = [w.group() for w in seen if isinstance(w, QAbstractButton) and w.group() is not None]
    seen |= {button for group in groups for button in group.buttons()}  # the arrows go on from there
    return [f"{type(w).__name__} {called(w)}" for w in controls(window) if w not in seen and w.focusProxy() not in seen]


@pytest.mark.parametrize(
    "side", ["chat settings", *(pytest.param(name, marks=pytest.mark.slow) for name in ("", "inspector"))]
)
def test_every_control_of_the_window_is_named_and_reached(whole: MainWindow, side: str) -> None:
    whole.show_side(side)  # type: ignore[arg-type]
    QApplication.processEvents()
    assert len(controls(whole)) > 15
    assert faults(whole) == []
    assert unreached(whole, whole.parts.composer.editor) == []


def test_every_control_of_the_welcome_is_named_and_reached(whole: MainWindow) -> None:
    whole.parts.welcome.set_first(True)
    whole.controller.new()
    QApplication.processEvents()
    assert faults(whole) == []
    assert unreached(whole, whole.parts.composer.editor) == []


@pytest.mark.slow
@pytest.mark.parametrize("page", list(PAGES))
def test_every_control_of_the_settings_is_named_and_reached(whole: MainWindow, page: str) -> None:
    shown = whole.settings.show(page)
    QApplication.processEvents()
    assert faults(shown) == []
    assert unreached(shown, controls(shown)[0]) == []


@pytest.mark.slow
def test_hidden_fields_of_the_form_are_named_too(whole: MainWindow) -> None:
    whole.show_side("chat settings")
    form = whole.parts.panel.form
    for field in (*form.pair.fields, *form.sampling.fields):
        field.show()
    assert faults(whole.parts.panel) == []


def test_the_walk_finds_faults() -> None:
    page = QWidget()
    bad, good = QLineEdit(page), QLineEdit(page)
    bad.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
    good.setAccessibleName("Good")
    page.show()
    assert faults(page) == ["QLineEdit '': no name", "QLineEdit '': Tab does not reach it"]
    page.close()
