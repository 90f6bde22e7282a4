"""A reply: its pages, of which only those in view exist, and folded thought; how it ended, its numbers and actions.
Before its first token, what it waits for."""

from functools import partial
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QTextCharFormat, QTextCursor, QTextDocument
from PySide6.QtWidgets import QApplication, QTextEdit, QWidget

from app.palette import mix
from app.reply_statistics import thought_line
from app.store.records import ENDED_EARLY, LENGTH_REACHED, THOUGHT_REACHED, MessageRecord
from app.window.common.appearance import GAP, LIGHT, Appearance
from app.window.common.timer import Timer
from app.window.common.widgets import label, style
from app.window.markdown import plain_text, token_runs, write
from app.window.markdown.formula_object import formula_mark
from app.window.markdown.text_blocks import OBJECT
from app.window.markdown.text_formats import GAP as BLOCK_GAP
from app.window.markdown.text_formats import HEADINGS
from app.window.transcript.message_entry import MessageEntry
from app.window.transcript.message_tile import (
    CONTINUE,
    COPY,
    COPY_PLAIN,
    DELETE,
    EDIT,
    REGENERATE,
    TURN_MS,
    VERIFY,
    FooterAction,
    MessageFooter,
    MessageTile,
)
from app.window.transcript.text_page import NONE, SIDE, DisplayOptions, TextPage
from app.window.transcript.tile_buttons import BUTTON, LabelledButton
from engine.audit.receipt import Difference

_TONES = {"failed": "error", "cut": "warning"}  # by the state of the reply
_LONG_PROMPT = 256  # tokens to read, from which on the progress is shown
_BLINK_MS = 530
_BELOW = 2 * GAP  # px to the next message
_KEPT = 1500  # px beyond the view within which pages that were made stay
_INDENT = 2 * GAP  # px, of thought
_SHARE = 0.4  # of its colour in the ground of a difference


class ThoughtHeader(LabelledButton):
    """The one line that a section of thought is folded into; a click unfolds it and folds it again."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, role="quiet")
        self.setCheckable(True)
        self._state: tuple[bool, str] | None = None

    def show_state(self, unfolded: bool, line: str) -> None:
        """Shows the state of the section. unfolded: whether it is shown. line: what is said of it."""
        if self._state == (unfolded, line):
            return
        self._state = (unfolded, line)
        self.setText(line)
        self.setAccessibleName(f"{self.text()}, {'shown' if unfolded else 'folded'}")
        self.setToolTip("Hide Thoughts" if unfolded else "Show Thoughts")
        self.setChecked(unfolded)
        self.show_icon("down" if unfolded else "right")

    def place(self, y: int, width: int) -> int:
        """Moves to `y` of the tile; returns the height."""
        size = self.sizeHint()
        height = max(size.height(), 3 * GAP)
        self.setGeometry(SIDE, y, min(width, size.width() + GAP), height)
        self.show()
        return height


class TokenCursor:
    """Marks tokens in the pages of one reply: the one that the keyboard points at, and those that a verification found.

    token: its number, NONE while there is none. differences: from plain decoding, by the number of the token; they have
    a wavy line and a ground of its colour."""

    def __init__(self, pages: dict[int, TextPage]) -> None:
        self._pages = pages
        self.token = NONE
        self.differences: dict[int, Difference] = {}

    def step(self, by: int) -> bool:
        """Moves to the next token that can be seen (by 1) or the one before (-1). Returns whether there are any."""
        tokens = sorted({token for page in self._pages.values() for token in page.tokens()})
        if self.token == NONE:
            ahead = tokens if by > 0 else tokens[-1:]
        else:
            ahead = [token for token in tokens if (token > self.token if by > 0 else token < self.token)]
        if ahead:
            self.token = ahead[0] if by > 0 else ahead[-1]
        return bool(tokens)

    def draw(self, page: TextPage, appearance: Appearance) -> None:
        """Marks the tokens of a page."""
        marks = []
        marked = {self.token, *self.differences} - {NONE}
        for token, start, end in token_runs(page.document()) if marked else ():
            if token in marked:
                mark: Any = QTextEdit.ExtraSelection()  # whose fields PySide's stubs do not know
                mark.cursor = QTextCursor(page.document())
                mark.cursor.setPosition(start)
                mark.cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
                shape = self._shape(token, appearance)
                within_formula = page.document().characterAt(start) == OBJECT
                mark.format = formula_mark(token, shape) if within_formula else shape
                marks.append(mark)
        page.set_marks(marks)

    def _shape(self, token: int, appearance: Appearance) -> QTextCharFormat:
        shape = QTextCharFormat()
        if (difference := self.differences.get(token)) is not None:
            hue = appearance.warning if difference.near_tie else appearance.error
            shape.setUnderlineStyle(QTextCharFormat.UnderlineStyle.WaveUnderline)
            shape.setUnderlineColor(QColor(hue))
            shape.setBackground(QColor(mix(appearance.background, hue, _SHARE)))
        if token == self.token:
            shape.setBackground(QColor(appearance.accent))
            shape.setForeground(QColor(appearance.on_accent))
        return shape


class ReplyTile(MessageTile):
    """An assistant's message, whether it is being written or not. folds: the headers of its sections of thought."""

    def __init__(self, entry: MessageEntry, options: DisplayOptions, parent: QWidget) -> None:
        actions = (COPY, COPY_PLAIN, VERIFY, REGENERATE, CONTINUE, EDIT, DELETE)
        super().__init__(entry, options, MessageFooter(entry.record, actions), parent)
        self.folds: dict[int, ThoughtHeader] = {}
        self._cursor = TokenCursor(self.pages)
        self.note, self.waiting = label(wrap=True), label(role="lead", tone="faint", wrap=True)
        for part in (self.note, self.waiting):
            part.setParent(self)
        self.note.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.waiting.setAccessibleName("Waiting for the reply")
        self._caret = True
        self._blink = Timer(self, interval=_BLINK_MS)
        self._blink.timeout.connect(self._toggle_caret)
        self._divide = Timer(self, singleShot=True, interval=TURN_MS)
        self._divide.timeout.connect(self._divide_on)
        self.refresh()
        self._restore_editor()

    # --- geometry -----------------------------------------------------------------------------

    @property
    def has_work_left(self) -> bool:
        return self._divide.isActive()

    def arrange(self, width: int, top: int, bottom: int) -> int:
        if self.editor is not None:
            return GAP + self.editor.place(GAP, width)
        self._show_waiting()
        y = text_end = self._arrange_text(width, top, bottom)
        for part in (self.waiting, self.note):
            if part.isVisibleTo(self):
                y += GAP if text_end > GAP else 0
                part.setGeometry(SIDE, y, width, part.heightForWidth(width))
                y += part.height()
        y += GAP // 2
        self.footer.setGeometry(SIDE, y, width, BUTTON)
        return y + BUTTON + _BELOW

    def _arrange_text(self, width: int, top: int, bottom: int) -> int:
        """Lays out the pages and the headers of thoughts. Returns where they end. A long reply has thousands of pieces,
        of which those out of view cost no more than a look at their heights."""
        y = end = GAP
        entry, options = self.entry, self.options
        if entry.long_unread:
            self._divide.start()
            return GAP + entry.height(width, options)
        beside = self._beside_focus()
        self._tops, headers = {}, set[int]()
        pieces, thoughts = entry.pieces, set[int]() if options.raw else entry.thoughts
        for number, piece in enumerate(pieces):
            thought = piece.section in thoughts
            if thought and piece.section not in headers:
                headers.add(piece.section)
                end = y + self._fold(piece.section).place(y, width)
                y = end + GAP
            if thought and piece.section not in entry.unfolded:
                continue
            self._tops[number] = y
            inner = width - (_INDENT if thought else 0)
            height = entry.height(inner, options, number)
            if number in self.pages:
                self.pages[number].move(SIDE + width - inner, y)
            if not piece.divided or number in beside or (y < bottom and y + height > top):
                height = self._arrange_page(number, y, inner, SIDE + width - inner, height)
            end = y + height
            y = end if piece.cut else end + self._gap(number)
        for section, fold in self.folds.items():
            fold.setVisible(section in headers)
        self._drop_pages(top - _KEPT, bottom + _KEPT)
        return end

    def _arrange_page(self, number: int, y: int, width: int, left: int, height: int) -> int:
        """Lays out a page that is in view, if there is time. height: as known so far. Returns its height."""
        entry, options = self.entry, self.options
        piece, page = entry.pieces[number], self.pages.get(number)
        if not piece.divided:
            self._divide.start()
            if page is not None:
                page.hide()
            return height
        key = (piece, len(entry.source) if options.raw else 0, options.document_key)
        new = page is None or page.key != key
        if new and not self.slice.has_time_for_page():
            self._divide.start()
            return height
        if page is None:
            page = self._add_page(number, TextPage(options, self), "Reply")
            page.move(left, y)
        page.joint = entry.joint(number, options)
        page.block = partial(entry.block_of, number)
        if page.key != key:
            page.key = key
            page.show_text(entry.text_of(number, options), options, width)
            self._cursor.draw(page, options.appearance)
            if options.find:
                page.show_found(options.find)
        height = page.lay_out(width)
        entry.keep_height(height, width, options, number)
        page.show()
        return height

    def _divide_on(self) -> None:
        """Goes on to read or divide a very long reply and to lay out what is in view, in another turn of the event
        loop."""
        if self.entry.long_unread:
            with self.slice:
                self.entry.read(self.slice.used_up)
            self._divide.start()
        elif self.slice.used_up():
            self._divide.start()
        else:
            with self.slice:
                self.entry.divide_on()
            self.resized.emit()

    def _gap(self, number: int) -> int:
        """Returns the distance to the next page, as between the blocks of one page: none where a block was cut."""
        pieces = self.entry.pieces
        if self.options.raw or number + 1 == len(pieces) or pieces[number].cut:
            return 0
        return HEADINGS[2][1] if self.entry.source.startswith("#", pieces[number + 1].start) else BLOCK_GAP

    def _beside_focus(self) -> set[int]:
        """Returns the neighbours of the page that has the focus, so that the keyboard can go there; the last page where
        the focus is below the text."""
        if not self.focused:
            return set()
        now = QApplication.focusWidget()
        own = [i for i, page in self.pages.items() if now is not None and (page is now or page.isAncestorOf(now))]
        return {number + by for number in own for by in (-1, 1)} or {len(self.entry.pieces) - 1}

    def _drop_pages(self, top: int, bottom: int) -> None:
        """Drops pages that are folded or far from the view, unless something is selected in them."""
        for number, page in list(self.pages.items()):
            near = page.y() <= bottom and page.y() + page.height() >= top
            kept = near or page.textCursor().hasSelection() or page.hasFocus()
            if number not in self._tops or not kept:
                self.pages.pop(number).deleteLater()

    # --- parts --------------------------------------------------------------------------------

    def _fold(self, section: int) -> ThoughtHeader:
        entry = self.entry
        if section not in self.folds:
            self.folds[section] = fold = ThoughtHeader(self)
            fold.clicked.connect(lambda: self._refold(section))
        line = thought_line(*entry.thought_in(section), entry.thinks(section))
        self.folds[section].show_state(section in entry.unfolded, line)
        return self.folds[section]

    def _refold(self, section: int) -> None:
        self.entry.unfolded ^= {section}
        self.resized.emit()

    def focus_widgets(self) -> list[QWidget]:
        if self.editor is not None:
            return self.editor.focus_widgets()
        folds = [fold for fold in self.folds.values() if fold.isVisibleTo(self)]
        found: list[QWidget] = []
        for part in sorted([*folds, *self.pages.values()], key=lambda part: part.y()):
            found += part.focus_widgets() if isinstance(part, TextPage) else [part]
        return [*found, *(self.footer.focus_widgets() if self.footer.isVisibleTo(self) else [])]

    def _show_parts(self) -> None:
        """An open editor takes the place of all else; the pages are made again once it is left."""
        if self.editor is not None:
            for part in (*self.folds.values(), *self.pages.values(), self.note, self.waiting):
                part.hide()
            for number in list(self.pages):
                self.pages.pop(number).deleteLater()
        else:
            self.refresh()
        super()._show_parts()

    def refresh(self) -> None:
        super().refresh()
        record = self.entry.record
        self.note.setText(ending(record))
        self.note.setVisible(bool(self.note.text()) and not self.entry.live)
        style(self.note, tone=_TONES.get(record.state, "faint"))
        self.footer.setVisible(not self.entry.live and self.editor is None)
        self._show_continue()
        for action in (COPY, COPY_PLAIN, EDIT):
            self.footer.buttons[action.name].setVisible(bool(record.text))
        self.footer.buttons[VERIFY.name].setVisible(record.checkable)
        if self._cursor.differences != self.entry.differences:
            self._cursor.differences = self.entry.differences
            self._draw_marks()
        self._show_waiting()

    def set_last(self, last: bool) -> None:
        super().set_last(last)
        self._show_continue()

    def _show_continue(self) -> None:
        self.footer.buttons[CONTINUE.name].setVisible(self._last and can_continue(self.entry.record))

    def _copied(self, action: FooterAction) -> str:
        return plain(self.entry.record.text) if action == COPY_PLAIN else super()._copied(action)

    # --- tokens -------------------------------------------------------------------------------

    def step(self, by: int) -> None:
        if self._cursor.step(by):
            self._draw_marks()
            self.pointed.emit(self._cursor.token, self._box_of(self._cursor.token), True)

    def clear_token(self) -> bool:
        had, self._cursor.token = self._cursor.token != NONE, NONE
        self._draw_marks()
        return had

    def _draw_marks(self) -> None:
        for page in self.pages.values():
            self._cursor.draw(page, self.options.appearance)

    # --- waiting ------------------------------------------------------------------------------

    def _show_waiting(self) -> None:
        waits = self.entry.live and not self.entry.source
        self.waiting.setVisible(waits)
        if not waits or self.options.still:
            self._blink.stop()
        elif not self._blink.isActive():
            self._blink.start()
        if self.entry.waits:
            self.waiting.setText(self.entry.waits)
            return
        progress = self.entry.progress
        reading = progress is not None and progress.total - progress.reused > _LONG_PROMPT
        if progress is not None and reading and progress.done < progress.total - 1:
            self.waiting.setText(f"Reading the prompt, {progress.done:,} of {progress.total:,} tokens")
        else:
            self.waiting.setText("▍" if self._caret or self.options.still else " ")

    def _toggle_caret(self) -> None:
        self._caret = not self._caret
        self._show_waiting()


def ending(record: MessageRecord) -> str:
    """Returns how a reply ended that is not whole, or a note on it; "" when there is nothing to say."""
    how = ENDED_EARLY.get(record.state, "")
    return ": ".join(part for part in (how, record.note) if part)


def can_continue(record: MessageRecord) -> bool:
    """Whether a reply can be continued: it broke off, or reached a limit of the settings."""
    if record.state == "complete":
        if LENGTH_REACHED in record.note or THOUGHT_REACHED in record.note:
            return True
        settings = record.sampling  # with one limit for all, the number of tokens tells it as well
        limit = settings.max_tokens if settings and settings.max_thought_tokens is None else None
        return bool(record.note and record.statistics and limit and record.statistics.tokens >= limit)
    return record.state != "streaming"


def plain(source: str) -> str:
    """Returns a reply without the marks of Markdown."""
    document = QTextDocument()
    write(document, source, [], LIGHT, False)
    return plain_text(document, 0, document.characterCount() - 1).strip()
