"""What goes with a question, shown as chips above it: name, size, and a button that takes it away."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QSizePolicy, QWidget

from app.records import Attachment
from app.window.fonts import font
from app.window.icons import pixmap
from app.window.look import Look
from app.window.shell.attachments import size_of
from app.window.shell.flow import FlowLayout
from app.window.shell.widgets import IconButton

WIDEST = 220  # px, of a name


class Chip(QFrame):
    """One attachment."""

    removed = Signal()

    def __init__(self, attachment: Attachment, look: Look, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("chip")
        self.setAccessibleName(f"Attachment {attachment.name}")
        picture, name, size = QLabel(), QLabel(), QLabel(size_of(len(attachment.text)))
        picture.setPixmap(pixmap("file", look.faint, 16, self.devicePixelRatioF()))
        self.setToolTip(f"{attachment.name}\n\n{attachment.text[:400]}")
        name.setTextFormat(Qt.TextFormat.PlainText)
        name.setFont(font(look, 12, name.font().Weight.Medium))
        shown = name.fontMetrics().elidedText(attachment.name, Qt.TextElideMode.ElideMiddle, WIDEST)
        name.setText(shown)
        size.setFont(font(look, 12))
        size.setStyleSheet(f"color: {look.faint};")
        self.remove = IconButton("close", f"Remove {attachment.name}")
        self.remove.setFixedSize(24, 24)
        self.remove.setIconSize(QSize(14, 14))
        self.remove.set_look(look)
        self.remove.clicked.connect(self.removed)
        row = QHBoxLayout(self)
        row.setContentsMargins(8, 2, 3, 2)
        row.setSpacing(6)
        for widget in (picture, name, size, self.remove):
            row.addWidget(widget)
        self.setStyleSheet(
            f"#chip {{ background: {look.background}; border: 1px solid {look.hairline}; border-radius: 8px; }}"
        )


class Chips(QWidget):
    """The attachments, in as many rows as they need; takes no room while there are none."""

    removed = Signal(int)  # its place

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._flow = FlowLayout(self)
        self._flow.setContentsMargins(0, 0, 0, 4)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.setAccessibleName("Attachments")
        self.hide()

    def show_all(self, attachments: Sequence[Attachment], look: Look) -> None:
        """Show these instead."""
        while (item := self._flow.takeAt(0)) is not None:
            if (old := item.widget()) is not None:
                old.hide()
                old.deleteLater()
        for place, attachment in enumerate(attachments):
            chip = Chip(attachment, look, self)
            chip.removed.connect(lambda place=place: self.removed.emit(place))
            self._flow.addWidget(chip)
        self.setVisible(bool(attachments))
        self.updateGeometry()

    @property
    def all(self) -> list[Chip]:
        """As they stand."""
        items = (self._flow.itemAt(i) for i in range(self._flow.count()))
        widgets = (item.widget() for item in items if item is not None)
        return [widget for widget in widgets if isinstance(widget, Chip)]
