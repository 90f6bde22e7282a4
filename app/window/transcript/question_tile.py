"""A question: a calm bubble at the right, its attachments above it, and an editor in its place while it is edited."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QRect, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFontDatabase,
    QFontMetrics,
    QGuiApplication,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QTextCharFormat,
    QTextCursor,
)
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
    QPlainTextEdit,
    QPushButton,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.store.records import Attachment
from app.window.common import theme
from app.window.common.appearance import GAP
from app.window.common.icons import icon
from app.window.common.widgets import label, style
from app.window.transcript.message_entry import MessageEntry
from app.window.transcript.message_tile import COPY, EDIT, RACE, MessageFooter, MessageTile
from app.window.transcript.reply_body import TextPlace
from app.window.transcript.text_page import BODY, BUTTON, SIDE, DisplayOptions, PageText, Selection, TextPage

_CHIP_HEIGHT, _WIDEST_CHIP = 30, 260  # px
_LONGEST_PREVIEW = 200_000  # characters
_TALLEST = 320  # px of the editor, then it scrolls
_INSET_X, _INSET_Y, _RADIUS = 14, 10, 14  # px around the text of the bubble
_WIDEST = 0.82  # of the column
_LINES, _CHARACTERS = 16, 1400  # of a question; what is longer is folded


class AttachmentChip(QToolButton):
    """The name of a text file that came with a question; a click opens a preview."""

    def __init__(self, attachment: Attachment, parent: QWidget) -> None:
        super().__init__(parent)
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setIconSize(QSize(16, 16))
        style(self, role="chip")
        name = " ".join(attachment.name.split()) or "file"
        self.setText(self.fontMetrics().elidedText(name, Qt.TextElideMode.ElideMiddle, _WIDEST_CHIP - 48))
        self.setToolTip(f"{name}, {len(attachment.text):,} characters")
        self.setAccessibleName(f"Attached file {name}")
        self.clicked.connect(lambda: preview(attachment, self).open())
        self._show_icon()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._show_icon()

    def _show_icon(self) -> None:
        self.setIcon(icon("file", theme.current().faint))


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
    about = f"{len(attachment.text):,} characters, {attachment.text.count(chr(10)) + 1:,} lines"
    if len(attachment.text) > _LONGEST_PREVIEW:
        about += f"; the first {_LONGEST_PREVIEW:,} characters are shown"
    buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, dialog)
    buttons.rejected.connect(dialog.close)
    column = QVBoxLayout(dialog)
    for part in (label(about, role="detail"), text, buttons):
        column.addWidget(part)
    return dialog


class QuestionField(QPlainTextEdit):
    """The text of a question while it is edited. Enter saves, Shift-Enter begins a new line, Esc cancels: as in the
    composer."""

    saved = Signal()
    cancelled = Signal()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.cancelled.emit()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and not (
            event.modifiers() & Qt.KeyboardModifier.ShiftModifier
        ):
            self.saved.emit()
        else:
            super().keyPressEvent(event)


class QuestionEditor(QWidget):
    """Edits a question in its own place. saved: the new text. resized: it needs another height."""

    saved = Signal(str)
    cancelled = Signal()
    resized = Signal()

    def __init__(self, text: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.field = QuestionField(text, self)
        self.field.setAccessibleName("Edit the question")
        self.field.setTabChangesFocus(True)
        self.field.moveCursor(self.field.textCursor().MoveOperation.End)
        self.field.setStyleSheet(
            f"QPlainTextEdit {{ background: palette(base); color: palette(text); border: 1px solid palette(mid);"
            f" border-radius: 10px; padding: 6px; font-size: {theme.current().px(BODY)}px; }}"
            f"QPlainTextEdit:focus {{ border-color: palette(highlight); }}"
        )
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
        self.field.saved.connect(self._save)
        self.field.cancelled.connect(self.cancelled)
        self.save.clicked.connect(self._save)
        self.cancel.clicked.connect(self.cancelled)

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
        self.save.setEnabled(bool(self.field.toPlainText().strip()))
        self.resized.emit()

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


class QuestionTile(MessageTile):
    """A message of the user."""

    def __init__(self, entry: MessageEntry, options: DisplayOptions, parent: QWidget) -> None:
        footer = MessageFooter(entry.record, (COPY, RACE, EDIT), right=True)
        super().__init__(entry, options, footer, parent)
        self.footer.triggered.connect(self._run)
        self.page = PlainPage(options, self)
        self.page.setAccessibleName("Question")
        self.page.dragged.connect(lambda place: self.dragged.emit(place.y()))
        self.page.copy_asked.connect(self.copy)
        self.page.menu_asked.connect(self.open_menu)
        self._pages: dict[int, TextPage] = {0: self.page}
        self._selection = Selection(self._pages)
        self.more = QPushButton(self)
        style(self.more, role="quiet")
        self.more.clicked.connect(self._toggle_length)
        self.chips: list[QWidget] = [AttachmentChip(attachment, self) for attachment in entry.record.attachments]
        self.editor: QuestionEditor | None = None
        self._bubble = QRect()
        self.set_options(options)

    def arrange(self, width: int, top: int, bottom: int) -> int:
        y = GAP
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

    def place_at(self, y: int) -> TextPlace | None:
        y -= self.page.y()
        if self.editor is not None or not 0 <= y < self.page.height():
            return None
        character = self.page.character_at(y)
        return TextPlace(0, character, y - self.page.top_of(character))

    def y_of(self, place: TextPlace) -> int:
        return round(self.page.y() + self.page.top_of(place.character or 0) + place.offset)

    def focus_widgets(self) -> list[QWidget]:
        if self.editor is not None:
            return [*self.chips, *self.editor.focus_widgets()]
        shown = [part for part in (self.page, self.more) if part.isVisibleTo(self)]
        return [*self.chips, *shown, *self.footer.focus_widgets()]

    def set_options(self, options: DisplayOptions) -> None:
        super().set_options(options)
        self.page.show_text(PageText(self._shown()), options, self.page.width())

    @property
    def selection(self) -> Selection:
        return self._selection

    @property
    def kept(self) -> bool:
        return super().kept or self.editor is not None

    def _arrange_bubble(self, y: int, width: int) -> int:
        widest = round(width * _WIDEST) - 2 * _INSET_X
        metrics = QFontMetrics(self.options.appearance.font(BODY))
        lines = self.page.text.source.splitlines()
        longest = max((metrics.horizontalAdvance(line[:200]) for line in lines), default=0) + 4
        inner = max(min(widest, longest), self.more.sizeHint().width() if self._folds() else 0)
        height = self.page.lay_out(inner)
        left = SIDE + width - inner - _INSET_X
        self.page.move(left, y + _INSET_Y)
        bottom = y + _INSET_Y + height
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

    def _shown(self) -> str:
        text = self.entry.record.text
        if self._folds():
            self.more.setText("Show Less" if self.entry.expanded else f"Show All {len(text):,} Characters")
        if not self._folds() or self.entry.expanded:
            return text
        return "\n".join(text[:_CHARACTERS].splitlines()[:_LINES]) + "…"

    def _toggle_length(self) -> None:
        self.entry.expanded = not self.entry.expanded
        self.page.show_text(PageText(self._shown()), self.options, self.page.width())
        self.resized.emit()

    # --- actions ------------------------------------------------------------------------------

    def _run(self, name: str) -> None:
        if name == EDIT[1]:
            self.begin_edit()
        elif name == RACE[1]:
            self.race.emit(self.entry.record.id)
        else:
            QGuiApplication.clipboard().setText(self.entry.record.text)
            self.footer.buttons[name].show_done()

    def begin_edit(self) -> None:
        """Puts an editor in the place of the bubble."""
        self.editor = QuestionEditor(self.entry.record.text, self)
        self.editor.saved.connect(self._save)
        self.editor.cancelled.connect(self._end_edit)
        self.editor.resized.connect(self.resized)
        self._show_parts()
        self.editor.field.setFocus(Qt.FocusReason.OtherFocusReason)

    def _save(self, text: str) -> None:
        self._end_edit()
        self.edit.emit(self.entry.record.id, text)

    def _end_edit(self) -> None:
        if self.editor is not None:
            self.editor.hide()
            self.editor.deleteLater()
            self.editor = None
            self._show_parts()
            self.footer.buttons[EDIT[1]].setFocus(Qt.FocusReason.OtherFocusReason)

    def _show_parts(self) -> None:
        for part in (self.page, self.footer):
            part.setVisible(self.editor is None)
        self.more.setVisible(self.editor is None and self._folds())
        if self.editor is not None:
            self.editor.show()
        self.resized.emit()
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.editor is None and self.entry.record.text:
            painter = QPainter(self)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(self.options.appearance.hover))
            painter.drawRoundedRect(self._bubble, _RADIUS, _RADIUS)
            painter.end()
