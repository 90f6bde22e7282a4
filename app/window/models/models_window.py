"""The Models window: the machine above, the list at the left, one model at the right."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QModelIndex, QSize, Qt, QUrl, Signal
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QSplitter, QVBoxLayout, QWidget

from app.protocol import Pair
from app.protocol.model_documents import Removal
from app.window.common import theme
from app.window.common.appearance import GAP
from app.window.common.form_fields import CheckBox
from app.window.common.icons import icon
from app.window.common.status_line import StatusLine
from app.window.common.widgets import Hairline, label, style, wrapped
from app.window.markdown import ask_to_open
from app.window.models.catalogue_view import MACHINE, Row
from app.window.models.delete_dialog import DeleteDialog
from app.window.models.downloads import DownloadQueue
from app.window.models.model_details import ModelDetails, Shown
from app.window.models.model_library import ModelLibrary
from app.window.models.model_list import ModelDelegate, ModelList, RowsModel
from app.window.models.model_text import sentence, size
from models.size_text import memory_words

FIRST_SIZE, MIN_SIZE = QSize(1080, 740), QSize(760, 480)
LIST_WIDTH = 400
LOADING = "Loading models…"
NO_MATCH = "No models found. The catalogue lists models that people run on Apple Silicon."


class ModelsWindow(QWidget):
    """pair: returns what the open chat uses. use_asked(Pair): the open chat is to use this."""

    use_asked = Signal(object)

    def __init__(
        self,
        library: ModelLibrary,
        downloads: DownloadQueue,
        pair: Callable[[], Pair] = Pair,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self.setWindowTitle("Models")
        style(self, ground="page")
        self.library, self.downloads, self._pair = library, downloads, pair
        self.machine, self.memory, self.search = label(role="header"), label(role="detail"), QLineEdit()
        self.fitting, self.line, self.nothing = CheckBox(f"Fits {MACHINE}"), StatusLine(), wrapped(role="detail")
        self.list, self.rows, self.details = ModelList(), RowsModel(self), ModelDetails()
        self.delegate = ModelDelegate(self.list)
        self.asking: DeleteDialog | None = None
        self._split, self._left, self._hairline = QSplitter(), QWidget(), Hairline()
        self._glass = QAction(self.search)
        self._chosen = ""
        self._set_up()
        self._lay_out()
        self._connect()
        self._colour()
        self.refresh()

    # --- what is shown ---------------------------------------------------------------------------

    def refresh(self) -> None:
        """Shows what is known now; the chosen model stays chosen, wherever it is listed."""
        shelf = self.library.shelf
        machine = shelf.machine
        if machine is not None:
            self.machine.setText(machine.processor)
            most = memory_words(machine.for_models_bytes)
            total = memory_words(machine.memory_bytes)
            summary = f"{total} of memory, {most} for models"
            self.memory.setText(summary.replace(".0 GB", " GB"))
        rows = shelf.rows(self.downloads.downloads, self.search.text(), self.fitting.isChecked())
        self.delegate.used = self._pair().target
        if self.rows.show_rows(rows) or not self.list.currentIndex().isValid():
            self._choose(self._chosen)
        self.nothing.setText(LOADING if self.library.loading else NO_MATCH)
        self.nothing.setVisible(not rows)
        self.list.setVisible(bool(rows))
        self.details.setVisible(bool(rows))
        self._show_chosen()
        self._show_troubles()

    @property
    def chosen(self) -> Row | None:
        """The model at the right."""
        return self.rows.row(self.list.currentIndex())

    def choose(self, key: str) -> None:
        """Shows this model, if it is listed."""
        self._chosen = key
        self._choose(key)

    def do(self, action: str) -> None:
        """Carries out an action for the chosen model: the name of a `ModelAction`, or "do" for the first of them."""
        row, buttons = self.chosen, self.details.buttons
        name = next(iter(buttons), "") if action == "do" else action
        if row is None or name not in buttons or not buttons[name].isEnabled():
            return
        if name in ("get", "resume", "both"):
            self.downloads.get(row.key)
            if name == "both":
                self.downloads.get(row.best)
        elif name == "pause":
            self.downloads.pause(row.key)
        elif name == "cancel":
            self.downloads.cancel(row.key)
        elif name == "forget":
            self.downloads.forget(row.key)
        elif name == "use":
            self.use("auto")
        else:
            self.library.plan_removal(row, lambda removal: self._confirm_deletion(row, removal), self._fail)

    def use(self, drafter: str) -> None:
        """Uses the chosen model in the open chat."""
        row = self.chosen
        if row is None or row.here is None or not row.usable:
            return
        self.use_asked.emit(Pair(target=row.here.name, drafter=drafter))
        judged = self.library.shelf.judged.get(row.here.name)
        takes = f", with {judged.auto_why}" if drafter == "auto" and judged and judged.auto else ""
        other = f", with {self.library.shelf.title(drafter)}" if drafter != "auto" else ""
        self.line.show_message(f"The open chat now uses {row.title}{takes}{other}.", "info")
        self.refresh()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Handles the keys that no control took. Downloads go on without the window."""
        if event.key() == Qt.Key.Key_Escape and self.search.text():
            self.search.clear()
        elif event.key() == Qt.Key.Key_Escape:
            self.close()
        elif event.key() == Qt.Key.Key_Down and self.search.hasFocus():
            self.list.setFocus(Qt.FocusReason.ShortcutFocusReason)
        else:
            super().keyPressEvent(event)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._colour()

    # --- inside ----------------------------------------------------------------------------------

    def _colour(self) -> None:
        self._glass.setIcon(icon("search", theme.current().faint))
        self.list.doItemsLayout()

    def _choose(self, key: str) -> None:
        """Chooses this model, or the one that the open chat uses, or the first."""
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
        under_way = frozenset(repo for repo, one in self.downloads.downloads.items() if one.live)
        self.details.show_model(Shown(row, self.library.shelf, used, under_way))
        self.library.check_memory(row)

    def _find(self) -> None:
        self.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.search.selectAll()

    def _show_troubles(self) -> None:
        if self.library.troubles:
            why = next(iter(self.library.troubles.values()))
            self.line.show_message(f"Some information is missing: {sentence(why)}", "warning")

    def _fail(self, why: str) -> None:
        self.line.show_message(sentence(why), "error")

    def _confirm_deletion(self, row: Row, removal: Removal) -> None:
        used = row.here is not None and row.here.name == self._pair().target
        self.asking = DeleteDialog(row.title, removal, used, self)
        self.asking.agreed.connect(lambda: self.library.remove(row, lambda gone: self._deleted(row, gone), self._fail))
        self.asking.open()

    def _deleted(self, row: Row, removal: Removal) -> None:
        self.line.show_message(f"Deleted {row.title}; {size(removal.frees_bytes) or 'no space'} freed.", "info")

    def _set_up(self) -> None:
        self.search.setPlaceholderText("Search")
        self.search.setAccessibleName("Search models")
        self.search.setClearButtonEnabled(True)
        self.search.setFixedWidth(220)
        self.search.addAction(self._glass, QLineEdit.ActionPosition.LeadingPosition)
        self.fitting.setChecked(True)
        self.fitting.setToolTip("Hide models that do not fit into memory")
        self.nothing.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignHCenter)
        self.nothing.setContentsMargins(3 * GAP, 3 * GAP, 3 * GAP, 0)
        self.list.setModel(self.rows)
        self.list.setItemDelegate(self.delegate)
        style(self._left, ground="sidebar")
        style(self.list, ground="clear")
        self.resize(FIRST_SIZE)
        self.setMinimumSize(MIN_SIZE)

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
        self.list.requested.connect(self.do)
        self.list.selectionModel().currentChanged.connect(lambda index, _: self._current(index))
        self.details.requested.connect(self.do)
        self.details.drafters.got.connect(self.downloads.get)
        self.details.drafters.used.connect(self.use)
        self.details.download.page_asked.connect(lambda url: ask_to_open(self, QUrl(url)))
        self.library.changed.connect(self.refresh)
        self.downloads.changed.connect(self.refresh)
        for keys, do in (("Ctrl+F", self._find), ("Ctrl+W", self.close)):
            QShortcut(QKeySequence(keys), self).activated.connect(do)
