"""A question: a calm bubble at the right, its attachments above it, and an editor in its place while it is edited.
Where the context was full, what the model still sees of the messages above stands over it."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, QRect, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFontDatabase,
    QFontMetrics,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QTextCharFormat,
    QTextCursor,
)
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QHBoxLayout, QPlainTextEdit, QPushButton, QVBoxLayout, QWidget

from app.reply_statistics import count
from app.store.records import Attachment, ContextTrim, trim_in_words
from app.window.common import theme
from app.window.common.appearance import GAP
from app.window.common.widgets import label, style
from app.window.transcript.message_entry import MessageEntry
from app.window.transcript.message_tile import COPY, EDIT, RACE, FooterAction, MessageFooter, MessageTile
from app.window.transcript.text_page import BODY, SIDE, DisplayOptions, PageText, TextPage
from app.window.transcript.tile_buttons import BUTTON, LabelledButton

_CHIP_HEIGHT, _WIDEST_CHIP = 30, 260  # px
_LONGEST_PREVIEW = 200_000  # characters
_TALLEST = 320  # px of the editor, then it scrolls
_INSET_X, _INSET_Y, _RADIUS = 14, 10, 14  # px around the text of the bubble
_WIDEST = 0.82  # of the column
_CONTINUE = "Continue Editing"  # a text that was not sent
_LINES, _CHARACTERS = 16, 1400  # of a question; what is longer is folded


class AttachmentChip(LabelledButton):
    """The name of a text file that came with a question; a click opens a preview."""

    def __init__(self, attachment: Attachment, parent: QWidget) -> None:
        super().__init__(parent, role="chip")
        self.setAutoRaise(False)
        name = " ".join(attachment.name.split()) or "file"
        self.setText(self.fontMetrics().elidedText(name, Qt.TextElideMode.ElideMiddle, _WIDEST_CHIP - 48))
        self.setToolTip(f"{name}, {count(len(attachment.text), 'character')}")
        self.setAccessibleName(f"Attached file {name}")
        self.show_icon("file")
        self.clicked.connect(lambda: preview(attachment, self).open())


def place_chips(chips: Sequence[QWidget], left: int, top: int, width: int) -> int:
    """Places chips in rows that end at the right. Returns the height of the rows."""
    rows: list[list[QWidget]] = [[]]
    used = 0
    for chip in chips:
        needed = min(chip.sizeHint().width(), _WIDEST_CHIP, width)
        if rows[-1] and used + needed > width:
            rows.append([])
            used = 0
        chip.setFixedSize(needed, _CHIP_HEIGHT)
        rows[-1].append(chip)
        used += needed + GAP // 2
    for number, row in enumerate(rows):
        x = left + width
        for chip in reversed(row):
            chip.move(x - chip.width(), top + number * (_CHIP_HEIGHT + GAP // 2))
            x -= chip.width() + GAP // 2
    return len(rows) * (_CHIP_HEIGHT + GAP // 2)


def preview(attachment: Attachment, parent: QWidget) -> QDialog:
    """Returns a window with the text of a file, to be opened."""
    dialog = QDialog(parent.window())
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.setWindowTitle(attachment.name)
    dialog.resize(720, 560)
    text = QPlainTextEdit(attachment.text[:_LONGEST_PREVIEW], dialog, readOnly=True)
    text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
    text.setAccessibleName(f"Text of {attachment.name}")
    lines = count(attachment.text.count("\n") + 1, "line")
    about = f"{count(len(attachment.text), 'character')}, {lines}"
    if len(attachment.text) > _LONGEST_PREVIEW:
        about += f"; the first {_LONGEST_PREVIEW:,} characters are shown"
    buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, dialog)
    buttons.rejected.connect(dialog.close)
    column = QVBoxLayout(dialog)
    for part in (label(about, role="detail"), text, buttons):
        column.addWidget(part)
    return dialog


class QuestionEditor(QWidget):
    """Edits a question in its own place. As in the composer, Enter sends and Shift-Enter begins a new line; Esc leaves
    the editor.

    text: of the question. edit: its new text so far, or ""; Undo goes back to the question's own. saved: the new text.
    changed: the text so far, "" if it is the question's own. left: the text is to be kept. discarded: it is not.
    resized: it needs another height.
    """

    saved = Signal(str)
    changed = Signal(str)
    left = Signal()
    discarded = Signal()
    resized = Signal()

    def __init__(self, text: str, edit: str, parent: QWidget) -> None:
        super().__init__(parent)
        self._text = text
        self.field = QPlainTextEdit(text, self)
        if edit:
            cursor = QTextCursor(self.field.document())
            cursor.select(QTextCursor.SelectionType.Document)
            cursor.insertText(edit)
        self.field.setAccessibleName("Edit message")
        self.field.setTabChangesFocus(True)
        self.field.moveCursor(QTextCursor.MoveOperation.End)
        self.field.setStyleSheet(
            f"QPlainTextEdit {{ background: palette(base); color: palette(text); border: 1px solid palette(mid);"
            f" border-radius: 10px; padding: 6px; font-size: {theme.current().px(BODY)}px; }}"
            f"QPlainTextEdit:focus {{ border-color: palette(highlight); }}"
        )
        self.field.installEventFilter(self)
        self.save, self.cancel = QPushButton("Save and Send", self), QPushButton("Cancel", self)
        style(self.save, role="primary")
        style(self.cancel, role="secondary")
        column, row = QVBoxLayout(self), QHBoxLayout()
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.field)
        row.addStretch()
        row.addWidget(self.cancel)
        row.addWidget(self.save)
        column.addLayout(row)
        self.field.textChanged.connect(self._text_changed)
        self.save.clicked.connect(self._save)
        self.cancel.clicked.connect(self.discarded)
        self._show_buttons()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if not isinstance(event, QKeyEvent) or event.type() != QEvent.Type.KeyPress:
            return super().eventFilter(watched, event)
        enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        elif enter and not event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            if not self.field.textCursor().block().layout().preeditAreaText():  # else it accepts what is composed
                self._save()
        else:
            return super().eventFilter(watched, event)
        return True

    def lay_out(self, width: int) -> int:
        """Returns the height that the text needs in this width, up to a bound."""
        metrics = self.field.fontMetrics()
        letters = max(1, (width - 4 * GAP) // max(1, metrics.averageCharWidth()))
        lines = sum(1 + len(line) // letters for line in self.field.toPlainText().split("\n"))
        tall = min(max(2, lines) * metrics.lineSpacing() + 4 * GAP, _TALLEST)
        self.field.setFixedHeight(tall)
        return tall + self.save.sizeHint().height() + 2 * GAP

    def focus_widgets(self) -> list[QWidget]:
        """Returns what the keyboard reaches, in order."""
        return [self.field, self.cancel, self.save]

    def _text_changed(self) -> None:
        text = self.field.toPlainText()
        self._show_buttons()
        self.changed.emit(text if text != self._text else "")
        self.resized.emit()

    def _show_buttons(self) -> None:
        text = self.field.toPlainText()
        self.save.setEnabled(bool(text.strip()))
        self.cancel.setText("Cancel" if text == self._text else "Discard Changes")

    def _save(self) -> None:
        if self.field.toPlainText().strip():
            self.saved.emit(self.field.toPlainText())


class PlainPage(TextPage):
    """Shows a text as it was typed."""

    def _write(self) -> None:
        self.document().clear()
        shape = QTextCharFormat()
        shape.setForeground(QColor(self._options.appearance.text))
        QTextCursor(self.document()).insertText(self.text.source, shape)


class TrimNote(QWidget):
    """What the model sees of the messages above from here on, between two lines, and the summary of the others."""

    def __init__(self, trim: ContextTrim, parent: QWidget) -> None:
        super().__init__(parent)
        self.sentence = label(trim_in_words(trim), role="detail", tone="faint", wrap=True)
        self.summary = label(trim.summary, role="detail", wrap=True)
        self.summary.setTextFormat(Qt.TextFormat.PlainText)
        self.summary.setVisible(bool(trim.summary))
        self.summary.setAccessibleName("Summary of earlier messages")
        for part in (self.sentence, self.summary):
            part.setParent(self)
            flags = Qt.TextInteractionFlag
            part.setTextInteractionFlags(flags.TextSelectableByMouse | flags.TextSelectableByKeyboard)
        self.sentence.setAlignment(Qt.AlignmentFlag.AlignHCenter)

    def place(self, y: int, width: int) -> int:
        """Takes its place at `y`. Returns its height."""
        height = GAP
        for part in (self.sentence, self.summary):
            if part.text():
                tall = part.heightForWidth(width)
                part.setGeometry(0, height, width, tall)
                height += tall + GAP
        self.setGeometry(SIDE, y, width, height)
        return height

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setPen(QColor(theme.current().hairline))
        for y in (0, self.height() - 1):
            painter.drawLine(0, y, self.width(), y)


class QuestionTile(MessageTile):
    """A message of the user. editor: stands in the place of the text while that is edited."""

    def __init__(self, entry: MessageEntry, options: DisplayOptions, parent: QWidget) -> None:
        super().__init__(entry, options, MessageFooter(entry.record, (COPY, RACE, EDIT), right=True), parent)
        self.page = self._add_page(0, PlainPage(options, self), "Your message")
        self.more = QPushButton(self)
        style(self.more, role="quiet")
        self.more.clicked.connect(self._toggle_length)
        self.trim = TrimNote(entry.record.trim, self) if entry.record.trim is not None else None
        self.chips: list[QWidget] = [AttachmentChip(attachment, self) for attachment in entry.record.attachments]
        self.editor: QuestionEditor | None = None
        self._focused_after: QWidget = self.footer.buttons[EDIT.name]  # what has the focus once the editor is left
        self._bubble = QRect()
        self._shows_all = False  # as the text was written last
        self._show_text()
        self._show_edit_button()
        if entry.editing:
            self._open_editor()

    def arrange(self, width: int, top: int, bottom: int) -> int:
        y = GAP
        self._tops = {}
        if self._shows_all != self.entry.expanded:
            self._show_text()
        if self.trim is not None:
            y += self.trim.place(y, width) + 2 * GAP
        if self.chips:
            y += place_chips(self.chips, SIDE, y, width) + GAP // 2
        if self.editor is not None:
            height = self.editor.lay_out(width)
            self.editor.setGeometry(SIDE, y, width, height)
            return y + height + GAP
        if self.entry.record.text:
            y = self._arrange_bubble(y, width)
        self.footer.setGeometry(SIDE, y + 2, width, BUTTON)
        return y + BUTTON + GAP

    def focus_widgets(self) -> list[QWidget]:
        if self.editor is not None:
            return [*self.chips, *self.editor.focus_widgets()]
        noted = [] if self.trim is None else [self.trim.sentence, self.trim.summary]
        shown = [part for part in (*noted, self.page, self.more) if part.isVisibleTo(self)]
        return [*self.chips, *shown, *self.footer.focus_widgets()]

    def set_options(self, options: DisplayOptions) -> None:
        super().set_options(options)
        self._show_text()

    @property
    def kept(self) -> bool:
        return super().kept or self.editor is not None

    def _arrange_bubble(self, y: int, width: int) -> int:
        widest = round(width * _WIDEST) - 2 * _INSET_X
        metrics = QFontMetrics(self.options.appearance.font(BODY))
        lines = self.page.text.source.splitlines()
        longest = max((metrics.horizontalAdvance(line[:200]) for line in lines), default=0) + 4
        inner = max(min(widest, longest), self.more.sizeHint().width() if self._folds() else 0)
        bottom = y + _INSET_Y + self.page.lay_out(inner)
        left = SIDE + width - inner - _INSET_X
        self._tops[0] = y + _INSET_Y
        self.page.move(left, y + _INSET_Y)
        self.more.setVisible(self._folds())
        if self._folds():
            self.more.setGeometry(left - 4, bottom + 4, self.more.sizeHint().width(), BUTTON)
            bottom += BUTTON + 4
        self._bubble = QRect(left - _INSET_X, y, inner + 2 * _INSET_X, bottom + _INSET_Y - y)
        self.update()
        return bottom + _INSET_Y

    def _folds(self) -> bool:
        text = self.entry.record.text
        return len(text) > _CHARACTERS or text.count("\n") >= _LINES

    def _show_text(self) -> None:
        """Shows the text, or the beginning of a long one."""
        text = self.entry.record.text
        self._shows_all = self.entry.expanded
        self.more.setText("Show Less" if self.entry.expanded else f"Show All {len(text):,} Characters")
        if self._folds() and not self.entry.expanded:
            text = "\n".join(text[:_CHARACTERS].splitlines()[:_LINES]) + "…"
        self.page.show_text(PageText(text), self.options, self.page.width())
        self.page.show_found(self.options.find)

    def _toggle_length(self) -> None:
        self.entry.expanded = not self.entry.expanded
        self._show_text()
        self.resized.emit()

    # --- editing ------------------------------------------------------------------------------

    def begin_edit(self, focused_after: QWidget) -> None:
        """Opens the editor, if it is not open. focused_after: what has the focus once the editor is left."""
        self._focused_after = focused_after
        editor = self.editor or self._open_editor()
        editor.field.setFocus(Qt.FocusReason.OtherFocusReason)

    def _open_editor(self) -> QuestionEditor:
        """Opens the editor with what was typed in it last, without giving it the focus."""
        self.editor = editor = QuestionEditor(self.entry.record.text, self.entry.edit, self)
        self.entry.editing = True
        editor.saved.connect(self._save)
        editor.changed.connect(self._keep)
        editor.left.connect(self._end_edit)
        editor.discarded.connect(self._discard)
        editor.resized.connect(self.resized)
        self._show_parts()
        return editor

    def _run(self, action: FooterAction) -> None:
        if action == EDIT:
            self.begin_edit(self.footer.buttons[EDIT.name])
        else:
            super()._run(action)

    def _save(self, text: str) -> None:
        """Asks for the edit. The branch with the new text has another tile; where it is refused, the editor stays."""
        self.requested.emit("edit", (self.entry.record.id, text))

    def _keep(self, text: str) -> None:
        self.entry.edit = text
        self.requested.emit("edit_changed", (self.entry.record.id, text))

    def _discard(self) -> None:
        self._keep("")
        self._end_edit()

    def _end_edit(self) -> None:
        """Closes the editor. What was typed is there when it is opened again."""
        self.entry.editing = False
        if self.editor is not None:
            self.editor.hide()
            self.editor.deleteLater()
            self.editor = None
            self._show_parts()
            self._focused_after.setFocus(Qt.FocusReason.OtherFocusReason)

    def _show_parts(self) -> None:
        for part in (self.page, self.footer):
            part.setVisible(self.editor is None)
        self.more.setVisible(self.editor is None and self._folds())
        self._show_edit_button()
        if self.editor is not None:
            self.editor.show()
        self.resized.emit()
        self.update()

    def _show_edit_button(self) -> None:
        """Has the button say, and stay shown, where the text of an edit is kept."""
        self.footer.buttons[EDIT.name].set_word(_CONTINUE if self.entry.edit else EDIT.word)
        self.footer.always = EDIT.name if self.entry.edit else ""
        self._show_actions()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.editor is None and self.entry.record.text:
            painter = QPainter(self)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(self.options.appearance.hover))
            painter.drawRoundedRect(self._bubble, _RADIUS, _RADIUS)
            painter.end()
