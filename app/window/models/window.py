"""The Models page: a window of its own. The machine above, the list at the left, one model at the right."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QModelIndex, QSize, Qt, QUrl, Signal
from PySide6.QtGui import QAction, QFont, QKeyEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QSplitter, QVBoxLayout, QWidget

from app.protocol import Pair
from app.window.fonts import font
from app.window.icons import icon
from app.window.look import GAP, LIGHT, Look
from app.window.models.deleting import AskToDelete
from app.window.models.details import Details, Shown
from app.window.models.documents import Removal
from app.window.models.library import Library
from app.window.models.listing import ModelList, RowsModel
from app.window.models.pulling import Pulls
from app.window.models.rows import ModelDelegate
from app.window.models.shelf import MACHINE, Row
from app.window.models.wording import sentence, size
from app.window.race.line import Line
from app.window.reading import ask_to_open
from app.window.shell.fields import Check
from app.window.shell.styles import controls_style, faint_style, menu_style, scroll_style, wear
from app.window.shell.widgets import Hairline
from models.sizes import memory_words

FIRST_SIZE, LEAST_SIZE = QSize(1080, 740), QSize(760, 480)
LIST_WIDTH = 400
LOOKING = "Looking at what is here…"
NOTHING = "Nothing is called that. The catalogue has the models that people run on Apple Silicon."


class ModelsWindow(QWidget):
    """pair: what the open chat uses. use_asked(Pair)."""

    use_asked = Signal(object)

    def __init__(
        self, library: Library, pulls: Pulls, pair: Callable[[], Pair] = Pair, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self.setObjectName("models")
        self.setWindowTitle("Models")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.library, self.pulls, self._pair = library, pulls, pair
        self.machine, self.memory, self.search = QLabel(), QLabel(), QLineEdit()
        self.fitting, self.line, self.nothing = Check(f"Fits {MACHINE}"), Line(), QLabel()
        self.list, self.rows, self.details = ModelList(), RowsModel(self), Details()
        self.delegate = ModelDelegate(self.list)
        self.asking: AskToDelete | None = None
        self._split, self._left, self._hairline = QSplitter(), QWidget(), Hairline()
        self._glass = QAction(self.search)
        self._look: Look = LIGHT
        self._chosen = ""
        self._set_up()
        self._lay_out()
        self._connect()
        self.refresh()

    # --- what is shown ---------------------------------------------------------------------------

    def refresh(self) -> None:
        """Show what is known now; the model that was chosen stays chosen, wherever it is listed."""
        shelf = self.library.shelf
        machine = shelf.machine
        if machine is not None:
            self.machine.setText(machine.processor)
            most = memory_words(machine.for_models_bytes)
            total = memory_words(machine.memory_bytes)
            told = f"{total} of memory, of which a model may take {most}"
            self.memory.setText(told.replace(".0 GB", " GB"))
        rows = shelf.rows(self.pulls.downloads, self.search.text(), self.fitting.isChecked())
        self.delegate.used = self._pair().target
        if self.rows.show_rows(rows) or not self.list.currentIndex().isValid():
            self._choose(self._chosen)
        self.nothing.setText(LOOKING if self.library.loading else NOTHING)
        self.nothing.setVisible(not rows)
        self.list.setVisible(bool(rows))
        self.details.setVisible(bool(rows))
        self._show_chosen()
        self._say_troubles()

    @property
    def chosen(self) -> Row | None:
        """The model at the right."""
        return self.rows.row(self.list.currentIndex())

    def choose(self, key: str) -> None:
        """Show this model, if it is listed."""
        self._chosen = key
        self._choose(key)

    def do(self, deed: str) -> None:
        """With the model that is chosen. deed: one of `acting.deeds`, or "do" for the first of them."""
        row, buttons = self.chosen, self.details.buttons
        name = next(iter(buttons), "") if deed == "do" else deed
        if row is None or name not in buttons or not buttons[name].isEnabled():
            return
        if name in ("get", "resume", "both"):
            self.pulls.get(row.key)
            if name == "both":
                self.pulls.get(row.best)
        elif name == "pause":
            self.pulls.pause(row.key)
        elif name == "cancel":
            self.pulls.cancel(row.key)
        elif name == "forget":
            self.pulls.forget(row.key)
        elif name == "use":
            self.use("auto")
        else:
            self.library.plan_removal(row, lambda removal: self._ask_to_delete(row, removal), self._fail)

    def use(self, drafter: str) -> None:
        """Answer the open chat with the model that is chosen."""
        row = self.chosen
        if row is None or row.here is None or not row.usable:
            return
        self.use_asked.emit(Pair(target=row.here.name, drafter=drafter))
        judged = self.library.shelf.judged.get(row.here.name)
        takes = f", with {judged.auto_why}" if drafter == "auto" and judged and judged.auto else ""
        other = f", with {self.library.shelf.title(drafter)}" if drafter != "auto" else ""
        self.line.say(f"The open chat uses {row.title} from now on{takes}{other}.", "info")
        self.refresh()

    def set_look(self, look: Look) -> None:
        self._look = look
        self.delegate.look = look
        for part in (self.details, self.line, self.fitting, self._hairline):
            part.set_look(look)
        self.machine.setFont(font(look, 15, QFont.Weight.DemiBold))
        wear(self.machine, f"color: {look.text};")
        for label in (self.memory, self.nothing):
            label.setFont(font(look, 12))
            wear(label, faint_style(look, 12))
        self._glass.setIcon(icon("search", look.faint))
        self.search.setFont(font(look))
        self.fitting.setFont(font(look))
        bare = "QListView { background: transparent; border: none; }"
        wear(self._left, f"#list {{ background: {look.sidebar}; }} {bare}")
        grounds = f"#models, #details {{ background: {look.background}; }} QLabel {{ background: transparent; }}"
        handle = f"QSplitter::handle {{ background: {look.hairline}; }}"
        wear(self, grounds + handle + controls_style(look) + scroll_style(look) + menu_style(look))
        self.list.doItemsLayout()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """What no control wanted. Downloads go on without the window."""
        if event.key() == Qt.Key.Key_Escape and self.search.text():
            self.search.clear()
        elif event.key() == Qt.Key.Key_Escape:
            self.close()
        elif event.key() == Qt.Key.Key_Down and self.search.hasFocus():
            self.list.setFocus(Qt.FocusReason.ShortcutFocusReason)
        else:
            super().keyPressEvent(event)

    # --- inside ----------------------------------------------------------------------------------

    def _choose(self, key: str) -> None:
        """Or what the open chat uses, or the first of all."""
        known = [row.key for row in self.rows.rows]
        first = next((name for name in (key, self._pair().target, *known) if name in known), "")
        self.list.setCurrentIndex(self.rows.place(first))
        if self.list.currentIndex().row() == 1:
            self.list.scrollToTop()  # with its heading

    def _current(self, index: QModelIndex) -> None:
        row = self.rows.row(index)
        if row is not None:
            self._chosen = row.key
            self._show_chosen()

    def _show_chosen(self) -> None:
        row = self.chosen
        if row is None:
            return
        used = self._pair().drafter if row.here and row.here.name == self._pair().target else ""
        under_way = frozenset(repo for repo, one in self.pulls.downloads.items() if one.live)
        self.details.show_model(Shown(row, self.library.shelf, used, under_way))
        self.library.look_at(row)

    def _find(self) -> None:
        self.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.search.selectAll()

    def _say_troubles(self) -> None:
        if self.library.troubles:
            why = next(iter(self.library.troubles.values()))
            self.line.say(f"Not all of it could be found out: {sentence(why)}", "warning")

    def _fail(self, why: str) -> None:
        self.line.say(sentence(why), "error")

    def _ask_to_delete(self, row: Row, removal: Removal) -> None:
        used = row.here is not None and row.here.name == self._pair().target
        self.asking = AskToDelete(row.title, removal, used, self._look, self)
        self.asking.agreed.connect(lambda: self.library.remove(row, lambda gone: self._deleted(row, gone), self._fail))
        self.asking.open()

    def _deleted(self, row: Row, removal: Removal) -> None:
        self.line.say(f"{row.title} is deleted; {size(removal.frees_bytes) or 'nothing'} is free again.", "info")

    def _set_up(self) -> None:
        self.search.setPlaceholderText("Search")
        self.search.setAccessibleName("Search models")
        self.search.setClearButtonEnabled(True)
        self.search.setFixedWidth(220)
        self.search.addAction(self._glass, QLineEdit.ActionPosition.LeadingPosition)
        self.fitting.setChecked(True)
        self.fitting.setToolTip("Leave out what this machine has not the memory for")
        self.nothing.setWordWrap(True)
        self.nothing.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignHCenter)
        self.nothing.setContentsMargins(3 * GAP, 3 * GAP, 3 * GAP, 0)
        self.list.setModel(self.rows)
        self.list.setItemDelegate(self.delegate)
        self._left.setObjectName("list")
        self._left.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.resize(FIRST_SIZE)
        self.setMinimumSize(LEAST_SIZE)

    def _lay_out(self) -> None:
        texts = QVBoxLayout()
        texts.setSpacing(1)
        texts.addWidget(self.machine)
        texts.addWidget(self.memory)
        top = QHBoxLayout()
        top.setContentsMargins(2 * GAP + 4, 12, 2 * GAP, 12)
        top.setSpacing(2 * GAP)
        top.addLayout(texts, 1)
        top.addWidget(self.fitting)
        top.addWidget(self.search)
        left = QVBoxLayout(self._left)
        left.setContentsMargins(0, 0, 0, 0)
        left.addWidget(self.list, 1)
        left.addWidget(self.nothing, 1)
        self._split.addWidget(self._left)
        self._split.addWidget(self.details)
        self._split.setHandleWidth(1)
        self._split.setChildrenCollapsible(False)
        self._split.setStretchFactor(1, 1)
        self._split.setSizes([LIST_WIDTH, FIRST_SIZE.width() - LIST_WIDTH])
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(top)
        column.addWidget(self._hairline)
        column.addWidget(self.line)
        column.addWidget(self._split, 1)

    def _connect(self) -> None:
        self.search.textChanged.connect(lambda _: self.refresh())
        self.search.returnPressed.connect(self.list.setFocus)
        self.fitting.clicked.connect(lambda _: self.refresh())
        self.list.asked.connect(self.do)
        self.list.selectionModel().currentChanged.connect(lambda index, _: self._current(index))
        self.details.asked.connect(self.do)
        self.details.drafting.got.connect(self.pulls.get)
        self.details.drafting.used.connect(self.use)
        self.details.downloading.page_asked.connect(lambda url: ask_to_open(self, QUrl(url)))
        self.library.changed.connect(self.refresh)
        self.pulls.changed.connect(self.refresh)
        for keys, do in (("Ctrl+F", self._find), ("Ctrl+W", self.close)):
            QShortcut(QKeySequence(keys), self).activated.connect(do)
