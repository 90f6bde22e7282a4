"""The composer: the text of a message, its attachments, how full the context is, and the button that sends or stops."""

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QPushButton, QWidget

from app.store.records import Attachment
from app.window.common import theme
from app.window.common.appearance import GAP, TEXT_WIDTH, Appearance
from app.window.common.layouts import STRETCH, column, row
from app.window.common.preferences import Draft
from app.window.common.widgets import IconButton, label, style, wrapped
from app.window.composer.attachments import NO_IMAGES, AttachmentError, Chips, check_total, from_paste, read_file
from app.window.composer.context_meter import COMPOSER_WARNS_AT, ContextMeter
from app.window.composer.pdf_reader import PdfReader, is_pdf
from app.window.composer.prompt_editor import PromptEditor

BOX_OVERHANG = 30  # px by which the box is wider than the transcript, so that their texts are aligned
LEGEND_FROM = 480  # px: a narrower composer has no room for the legend
SAVED_FROM = 720  # px: nor, up to this, for the time that was saved
CHOOSE = "Choose how to send your message, or edit an earlier one."
CHOICES = {
    "keep_recent": "Send the message with the last messages that fit. The model no longer sees the others.",
    "summarize": "Have the model summarize the earlier messages first, and send the message with the summary.",
    "new_chat": "Start an empty chat with the same settings.",
}


class SendButton(IconButton):
    """The round button of the composer: sends the message, or stops the reply that is being written."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("send", "Send", parent)
        style(self, role="send")

    def show_state(self, enabled: bool, stops: bool) -> None:
        """enabled: whether there is anything to send or to stop. stops: whether a click stops the reply."""
        self.setEnabled(enabled)
        self.set_shape("stop" if stops else "send", "Stop" if stops else "Send")
        self.setToolTip("Stop (Esc)" if stops else "Send (Enter)")

    def icon_colour(self, look: Appearance) -> str:
        return look.on_accent if self.isEnabled() else look.faint


class Composer(QWidget):
    """The field for a message. meter: shown beside Send. legend: shown where there is room for it.

    sent(str, tuple[Attachment]): a new message. trim_asked(str, tuple[Attachment], bool): a new message for which the
    context is too full, to be sent with the last messages alone or, if True, with a summary of the others too.
    changed(Draft): the user typed or attached something. refused(str): why something cannot be attached.
    noted(str): how a file was read.
    """

    sent = Signal(str, object)
    trim_asked = Signal(str, object, bool)
    new_asked = Signal()
    stop_asked = Signal()
    attach_asked = Signal()
    edit_last_asked = Signal()
    changed = Signal(object)
    refused = Signal(str)
    noted = Signal(str)

    def __init__(self, meter: ContextMeter, legend: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.editor, self.chips, self.warning = PromptEditor(), Chips(), wrapped(role="detail")
        self.attach, self.send = IconButton("attach", "Attach Files"), SendButton()
        self.keep_recent, self.summarize = (
            QPushButton("Keep Recent Messages"),
            QPushButton("Summarize Earlier Messages"),
        )
        self.new_chat, self._choices = QPushButton("New Chat"), QWidget()
        self._box, self._meter, self._legend = QFrame(), meter, legend
        self._reading = wrapped(role="detail")
        self._reading.hide()
        self._legend_wanted = False
        self._saved = label(role="detail", tone="faint")
        self._attachments: list[Attachment] = []
        self._busy, self._emits_changes, self._too_long = False, True, False
        self._pdf_reader = PdfReader(self)
        self._lay_out()
        self._connect()
        self._limit_width()
        self._update_controls()

    @property
    def draft(self) -> Draft:
        """What is typed and attached."""
        return Draft(text=self.editor.toPlainText(), attachments=tuple(self._attachments))

    def set_draft(self, draft: Draft) -> None:
        """Shows this draft, without emitting `changed`."""
        self._pdf_reader.cancel()  # its text belongs to the draft that was here
        self._emits_changes = False
        self._attachments = list(draft.attachments)
        self.editor.setPlainText(draft.text)
        self.editor.moveCursor(self.editor.textCursor().MoveOperation.End)
        self.chips.show_all(self._attachments)
        self._emits_changes = True
        self._update_controls()

    def attach_files(self, paths: Sequence[Path]) -> None:
        """Attaches text files, and the text of PDF files once it has been read; emits `refused` for each one that
        cannot be attached, and `noted` where the encoding was guessed."""
        for path in paths:
            if is_pdf(path):
                self._pdf_reader.add(path)
                continue
            try:
                attachment, note = read_file(path)
                self._attach(attachment)
                if note:
                    self.noted.emit(note)
            except AttachmentError as error:
                self.refused.emit(str(error))
        self.editor.setFocus()

    def set_busy(self, busy: bool) -> None:
        """Sets whether a reply is being written, which the button then stops."""
        self._busy = busy
        self._update_controls()

    def set_count(self, tokens: int, context: int) -> None:
        """Shows how full the context is, the typed text included, and warns if it is nearly full. What is longer than
        the context cannot be sent."""
        self._meter.set_count(tokens, context)
        left, nearly_full = context - tokens, context > 0 and tokens >= COMPOSER_WARNS_AT * context
        self._too_long = nearly_full and left <= 0
        if self._too_long:
            over = "1 token" if left == 0 else f"{1 - left:,} tokens"
            text = f"The conversation is {over} too long for the context of {context:,}. {CHOOSE}"
        else:
            text = f"The context is nearly full: {left:,} of {context:,} tokens are left for the reply."
        self.warning.setText(text)
        style(self.warning, tone="error" if self._too_long else "warning")
        self.warning.setVisible(nearly_full)
        self._choices.setVisible(self._too_long)
        self._update_controls()

    def _show_reading(self, name: str) -> None:
        self.attach.setToolTip(f"Reading {name}…" if name else "Attach Files")
        self._reading.setText(f"Reading {name}…")
        self._reading.setVisible(bool(name))
        self._update_controls()

    def show_summary(self, text: str) -> None:
        """Shows the summary of earlier messages while the model writes it."""
        self.warning.setText(f"Summarizing earlier messages: {text}")
        style(self.warning, tone="warning")
        self.warning.show()

    def set_model(self, name: str) -> None:
        """Shows the name of the model in the empty field."""
        self.editor.setPlaceholderText(f"Message {name}" if name else "Message")

    def show_legend(self, wanted: bool) -> None:
        """Shows what the colours of tokens mean, if that is wanted and there is room."""
        self._legend_wanted = wanted
        scale = theme.current().scale
        self._legend.setVisible(wanted and self.width() >= round(LEGEND_FROM * scale))
        self._saved.setVisible(bool(self._saved.text()) and self.width() >= round(SAVED_FROM * scale))

    def show_saved(self, text: str) -> None:
        """Shows how much time was saved in this conversation, where there is room."""
        self._saved.setText(text)
        self.show_legend(self._legend_wanted)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.show_legend(self._legend_wanted)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._limit_width()

    def _lay_out(self) -> None:
        style(self._box, kind="box")
        legend = (self._legend, 0, Qt.AlignmentFlag.AlignVCenter)
        buttons = row(self.attach, legend, STRETCH, self._saved, self._meter, self.send, gap=GAP)
        column(self.chips, self._reading, self.editor, buttons, on=self._box, margins=(12, 10, 8, 8), gap=6)
        self.warning.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self.warning.hide()
        for button, what in CHOICES.items():
            getattr(self, button).setToolTip(what)
            getattr(self, button).setAccessibleDescription(what)
        choices = (self.keep_recent, self.summarize, self.new_chat)
        row(STRETCH, *choices, STRETCH, on=self._choices, gap=GAP)
        self._choices.hide()
        middle = row(STRETCH, (self._box, 1000), STRETCH)
        column(self.warning, self._choices, middle, on=self, margins=(2 * GAP, 4, 2 * GAP, 2 * GAP), gap=4)
        self.setTabOrder(self.editor, self.attach)

    def _connect(self) -> None:
        self._pdf_reader.read.connect(self._attach)
        self._pdf_reader.failed.connect(self.refused)
        self._pdf_reader.began.connect(self._show_reading)
        self.editor.submitted.connect(self._submit)
        self.editor.up_pressed.connect(self._edit_last)
        self.editor.textChanged.connect(self._handle_change)
        self.editor.files_pasted.connect(self.attach_files)
        self.editor.long_text_pasted.connect(self._attach_paste)
        self.editor.image_pasted.connect(self.refuse_image)
        self.editor.focused.connect(lambda focused: style(self._box, focused="true" if focused else "false"))
        self.attach.clicked.connect(self.attach_asked)
        self.send.clicked.connect(lambda: self.stop_asked.emit() if self._busy else self._submit())
        self.keep_recent.clicked.connect(lambda: self._submit_trimmed(summarize=False))
        self.summarize.clicked.connect(lambda: self._submit_trimmed(summarize=True))
        self.new_chat.clicked.connect(self.new_asked)
        self.chips.removed.connect(self._remove)

    def refuse_image(self) -> None:
        """Says that no image can be attached."""
        self.refused.emit(NO_IMAGES)

    def _submit(self) -> None:
        """Sends the message, unless it is empty or too long, or a reply is being written."""
        if self._can_send:
            draft = self.draft
            self.set_draft(Draft())
            self.changed.emit(Draft())
            self.sent.emit(draft.text, draft.attachments)

    def _submit_trimmed(self, summarize: bool) -> None:
        """Asks for the message to be sent, which stays here until it is."""
        self.trim_asked.emit(self.editor.toPlainText(), tuple(self._attachments), summarize)

    def _attach_paste(self, text: str) -> None:
        self._attach(from_paste(text, [a.name for a in self._attachments]))

    def _attach(self, attachment: Attachment) -> None:
        try:
            check_total([*self._attachments, attachment])
        except AttachmentError as error:
            self.refused.emit(str(error))
            return
        self._attachments.append(attachment)
        self.chips.show_all(self._attachments)
        self._handle_change()

    def _remove(self, place: int) -> None:
        del self._attachments[place]
        self.chips.show_all(self._attachments)
        self._handle_change()
        self.editor.setFocus()

    def _edit_last(self) -> None:
        if not self._busy and not self._attachments:
            self.edit_last_asked.emit()

    def _handle_change(self) -> None:
        self._update_controls()
        if self._emits_changes:
            self.changed.emit(self.draft)

    @property
    def _can_send(self) -> bool:
        """Whether there is a message and the conversation has room for it."""
        free = not self._busy and not self._pdf_reader.busy
        return self._has_message and free and not self._too_long

    @property
    def _has_message(self) -> bool:
        return bool(self.editor.toPlainText().strip() or self._attachments)

    def _update_controls(self) -> None:
        for button in (self.keep_recent, self.summarize):
            button.setEnabled(self._has_message and not self._busy)
        self.send.show_state(self._busy or self._can_send, self._busy)

    def _limit_width(self) -> None:
        self._box.setMaximumWidth(round(TEXT_WIDTH * max(1.0, theme.current().scale)) + BOX_OVERHANG)
        self.show_legend(self._legend_wanted)
