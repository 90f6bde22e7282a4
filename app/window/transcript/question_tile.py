"""A question: a calm bubble at the right, and its attachments above it.
Where the context was full, what the model still sees of the messages above stands over it."""

from collections.abc import Callable, Mapping, Sequence

from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import (
    QColor,
    QFontDatabase,
    QFontMetrics,
    QPainter,
    QPaintEvent,
    QTextCharFormat,
    QTextCursor,
)
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QPlainTextEdit, QPushButton, QVBoxLayout, QWidget

from app.reply import Span
from app.reply_statistics import count
from app.store.records import Attachment, ContextTrim, trim_in_words
from app.window.common import theme
from app.window.common.appearance import GAP
from app.window.common.widgets import label, style
from app.window.transcript.message_entry import MessageEntry
from app.window.transcript.message_tile import COPY, DELETE, EDIT, RACE, MessageFooter, MessageTile
from app.window.transcript.text_page import BODY, SIDE, DisplayOptions, PageText, TextPage
from app.window.transcript.tile_buttons import BUTTON, LabelledButton

_CHIP_HEIGHT, _WIDEST_CHIP = 30, 260  # px
_LONGEST_PREVIEW = 200_000  # characters
_INSET_X, _INSET_Y, _RADIUS = 14, 10, 14  # px around the text of the bubble
_WIDEST = 0.82  # of the column
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


class PlainPage(TextPage):
    """Shows a text as it was typed."""

    def _writer(self) -> Callable[[str, Sequence[Span], Mapping[int, str]], None]:
        document, shape = self.document(), QTextCharFormat()
        shape.setForeground(QColor(self._options.appearance.text))

        def write(source: str, *_: object) -> None:
            document.clear()
            QTextCursor(document).insertText(source, shape)

        return write


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
    """A message of the user."""

    def __init__(self, entry: MessageEntry, options: DisplayOptions, parent: QWidget) -> None:
        super().__init__(entry, options, MessageFooter(entry.record, (COPY, RACE, EDIT, DELETE), right=True), parent)
        self.page = self._add_page(0, PlainPage(options, self), "Your message")
        self.more = QPushButton(self)
        style(self.more, role="quiet")
        self.more.clicked.connect(self._toggle_length)
        self.trim = TrimNote(entry.record.trim, self) if entry.record.trim is not None else None
        self.chips: list[QWidget] = [AttachmentChip(attachment, self) for attachment in entry.record.attachments]
        self._bubble = QRect()
        self._shows_all = False  # as the text was written last
        self._show_text()
        self._restore_editor()

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
            return y + self.editor.place(y, width)
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

    def _show_parts(self) -> None:
        self.page.setVisible(self.editor is None)
        self.more.setVisible(self.editor is None and self._folds())
        super()._show_parts()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.editor is None and self.entry.record.text:
            painter = QPainter(self)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(self.options.appearance.hover))
            painter.drawRoundedRect(self._bubble, _RADIUS, _RADIUS)
            painter.end()
