"""Where Tab goes: from part to part of the window in the order in which one reads, and through each by itself."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication, QWidget


def tab_on(parts: Sequence[QWidget], governed: QWidget, forward: bool) -> bool:
    """Move the keyboard to the next control, or the one before. parts: in order. governed: the one of them that leads
    the keyboard itself, and is asked first; whoever comes here from it wants to leave it. False where there is none."""
    now = QApplication.focusWidget()
    at = next((i for i, part in enumerate(parts) if now is not None and _within(part, now)), -1)
    if at >= 0 and now is not None and parts[at] is not governed:
        inside = stops(parts[at])
        place = inside.index(now) + (1 if forward else -1) if now in inside else -1
        if 0 <= place < len(inside):
            return _focus(inside[place], forward)
    step = 1 if forward else -1
    for turn in range(1, len(parts) + 1):
        part = parts[(at + step * turn) % len(parts)]
        found = stops(part)
        if part is governed and not forward:
            found.sort(key=_place)
        if found:
            return _focus(found[0 if forward else -1], forward)
    return False


def stops(part: QWidget) -> list[QWidget]:
    """What Tab comes to in a part of the window, in the order of Qt's own chain, which is that of making."""
    found: list[QWidget] = []
    widget = part.nextInFocusChain()
    while widget is not None and widget is not part:
        if _within(part, widget) and _takes_tab(widget):
            found.append(widget)
        widget = widget.nextInFocusChain()
    return found


def _takes_tab(widget: QWidget) -> bool:
    tabbed = bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus)
    return tabbed and widget.isVisible() and widget.isEnabled() and widget.focusProxy() is None


def _within(part: QWidget, widget: QWidget) -> bool:
    return widget is part or part.isAncestorOf(widget)


def _place(widget: QWidget) -> tuple[int, int]:
    at = widget.mapToGlobal(QPoint(0, 0))
    return at.y() + widget.height(), at.x()


def _focus(widget: QWidget, forward: bool) -> bool:
    widget.setFocus(Qt.FocusReason.TabFocusReason if forward else Qt.FocusReason.BacktabFocusReason)
    return True
