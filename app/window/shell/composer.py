"""Where a question is written: the text, what goes with it, how full the context is, and Send or Stop."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.records import Attachment
from app.window.inspector import ContextMeter
from app.window.look import GAP, LIGHT, TEXT_WIDTH, Look
from app.window.shell.attachments import AttachmentError, check_sum, pasted, read_file
from app.window.shell.chips import Chips
from app.window.shell.editor import Editor
from app.window.shell.preferences import Draft
from app.window.shell.styles import faint_style, flat_style, wear
from app.window.shell.widgets import IconButton, SendButton, wrapped

BESIDE = 30  # px: the text in the box begins where the text above it does
LEGEND_FROM = 480  # px, of the composer
NEAR = 0.9  # of the context: from here on the composer warns
NO_PICTURES = "A picture cannot be attached: the models here read text. Paste its text instead."


class Composer(QWidget):
    """meter: shown beside Send; its set_count is called from here. legend: shown where there is room for it."""

    sent = Signal(str, object)  # text, tuple of Attachment
    edited = Signal(int, str)  # message, text
    stop_asked = Signal()
    attach_asked = Signal()
    edit_last_asked = Signal()
    changed = Signal(object)  # Draft
    refused = Signal(str)

    def __init__(
        self, meter: ContextMeter | None = None, legend: QWidget | None = None, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setObjectName("composer")
        self.editor, self.chips, self.hint = Editor(), Chips(), wrapped()
        self.attach, self.send = IconButton("attach", "Attach text files"), SendButton()
        self.editing, self.cancel = wrapped("Editing your last message"), QPushButton("Cancel")
        self._box, self._bar, self._meter, self._legend = QFrame(), QWidget(), meter, legend or QWidget()
        self._explained = False  # whether the legend is wanted
        self._attachments: list[Attachment] = []
        self._message: int | None = None  # whose text is being edited
        self._before = Draft()  # what stood here when editing began
        self._busy, self._look, self._told = False, LIGHT, True
        self._set_up()
        self._wire()

    @property
    def draft(self) -> Draft:
        """What is written and attached; while a message is edited, what stood here before."""
        if self._message is not None:
            return self._before
        return Draft(text=self.editor.toPlainText(), attachments=tuple(self._attachments))

    def set_draft(self, draft: Draft) -> None:
        """Show this instead, without telling."""
        self._message = None
        self._show(draft)

    def attach_files(self, paths: Sequence[Path]) -> None:
        """Attach text files; each that cannot be is refused with its reason."""
        for path in paths:
            try:
                self._attach(read_file(path))
            except AttachmentError as error:
                self.refused.emit(str(error))
        self.editor.setFocus()

    def begin_edit(self, message: int, text: str) -> None:
        """Let the text of a message be written again; Send then edits it, Esc leaves it."""
        before = self.draft
        self._message, self._before = message, before
        self._show(Draft(text=text))
        self.editor.setFocus()

    def cancel_edit(self) -> bool:
        """Back to what stood here before; False if nothing was being edited."""
        if self._message is None:
            return False
        self.set_draft(self._before)
        self.changed.emit(self.draft)
        return True

    def set_busy(self, busy: bool) -> None:
        """Whether a reply is being written: then the button stops it."""
        self._busy = busy
        self._restyle()

    def set_count(self, tokens: int, context: int) -> None:
        """How full the context is with what is written here."""
        if self._meter is not None:
            self._meter.set_count(tokens, context)
        left = context - tokens
        if context <= 0 or tokens < NEAR * context:
            self.hint.hide()
            return
        self.hint.setText(
            f"This is {-left:,} tokens too long for the context of {context:,}: shorten it, or raise the context."
            if left < 0
            else f"The context is nearly full: {left:,} of {context:,} tokens are left for the reply."
        )
        colour = self._look.error if left < 0 else self._look.warning
        style = f"color: {colour}; font-size: {self._look.px(12)}px;"
        wear(self.hint, style)
        self.hint.show()

    def set_model(self, name: str) -> None:
        """Whom one writes to."""
        self.editor.setPlaceholderText(f"Message {name}" if name else "Message")

    def show_legend(self, wanted: bool) -> None:
        """Whether there are tints to explain."""
        self._explained = wanted
        self._legend.setVisible(wanted and self.width() >= round(LEGEND_FROM * self._look.scale))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.show_legend(self._explained)

    def set_look(self, look: Look) -> None:
        self._look = look
        self._box.setMaximumWidth(round(TEXT_WIDTH * max(1.0, look.scale)) + BESIDE)
        self.show_legend(self._explained)
        for part in (self.editor, self.attach):
            part.set_look(look)
        self.chips.show_all(self._attachments, look)
        self.editing.setStyleSheet(faint_style(look))
        link = f"QPushButton {{ color: {look.accent}; font-size: {look.px(12)}px; padding: 1px 6px; }}"
        self.cancel.setStyleSheet(flat_style(look, "QPushButton") + link)
        self._restyle()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Esc ends the edit of a message; otherwise the window gets it."""
        if event.key() != Qt.Key.Key_Escape or not self.cancel_edit():
            super().keyPressEvent(event)

    def _set_up(self) -> None:
        bar = QHBoxLayout(self._bar)
        bar.setContentsMargins(4, 0, 0, 0)
        bar.addWidget(self.editing, 1)
        bar.addWidget(self.cancel)
        below = QHBoxLayout()
        below.setSpacing(GAP)
        below.addWidget(self.attach)
        below.addWidget(self._legend, 0, Qt.AlignmentFlag.AlignVCenter)
        below.addStretch(1)
        if self._meter is not None:
            below.addWidget(self._meter)
        below.addWidget(self.send)
        self._box.setObjectName("box")
        box = QVBoxLayout(self._box)
        box.setContentsMargins(12, 10, 8, 8)
        box.setSpacing(6)
        for widget in (self._bar, self.chips, self.editor):
            box.addWidget(widget)
        box.addLayout(below)
        self.hint.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self.hint.hide()
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GAP, 4, 2 * GAP, 2 * GAP)
        column.setSpacing(4)
        column.addWidget(self.hint)
        middle = QHBoxLayout()
        middle.addStretch(1)
        middle.addWidget(self._box, 1000)
        middle.addStretch(1)
        column.addLayout(middle)
        self.setTabOrder(self.editor, self.attach)

    def _wire(self) -> None:
        self.editor.submitted.connect(self._submit)
        self.editor.went_up.connect(self._go_up)
        self.editor.textChanged.connect(self._tell)
        self.editor.files_given.connect(self.attach_files)
        self.editor.text_given.connect(lambda text: self._attach(pasted(text, [a.name for a in self._attachments])))
        self.editor.picture_given.connect(lambda: self.refused.emit(NO_PICTURES))
        self.editor.focused.connect(lambda _: self._restyle())
        self.attach.clicked.connect(self.attach_asked)
        self.send.clicked.connect(lambda: self.stop_asked.emit() if self._busy else self._submit())
        self.cancel.clicked.connect(self.cancel_edit)
        self.chips.removed.connect(self._remove)

    def _submit(self) -> None:
        """Send what is written, unless it is nothing or a reply is being written."""
        text, attachments, message = self.editor.toPlainText(), tuple(self._attachments), self._message
        if self._busy or not (text.strip() or (attachments and message is None)):
            return
        if message is not None:
            self.set_draft(self._before)
            self.changed.emit(self.draft)
            self.edited.emit(message, text)
            return
        self.set_draft(Draft())
        self.changed.emit(Draft())
        self.sent.emit(text, attachments)

    def _attach(self, attachment: Attachment) -> None:
        if self._message is not None:
            self.refused.emit("A message that is edited keeps its attachments: send the file with a new one.")
            return
        try:
            check_sum([*self._attachments, attachment])
        except AttachmentError as error:
            self.refused.emit(str(error))
            return
        self._attachments.append(attachment)
        self.chips.show_all(self._attachments, self._look)
        self._tell()

    def _remove(self, place: int) -> None:
        del self._attachments[place]
        self.chips.show_all(self._attachments, self._look)
        self._tell()
        self.editor.setFocus()

    def _go_up(self) -> None:
        if not self._busy and self._message is None and not self._attachments:
            self.edit_last_asked.emit()

    def _show(self, draft: Draft) -> None:
        self._told = False
        self._attachments = list(draft.attachments)
        self.editor.setPlainText(draft.text)
        self.editor.moveCursor(self.editor.textCursor().MoveOperation.End)
        self.chips.show_all(self._attachments, self._look)
        self._told = True
        self._restyle()

    def _tell(self) -> None:
        self._restyle()
        if self._told and self._message is None:
            self.changed.emit(self.draft)

    def _restyle(self) -> None:
        """Show what can be done now: the ring of focus, Send while there is something to send."""
        look, live = self._look, self._busy or bool(self.editor.toPlainText().strip() or self._attachments)
        self._bar.setVisible(self._message is not None)
        self.send.show_state(look, live, self._busy)
        ring = look.accent if self.editor.hasFocus() else look.hairline
        style = f"#box {{ background: {look.raised}; border: 1px solid {ring}; border-radius: 14px; }}"
        wear(self._box, style)
