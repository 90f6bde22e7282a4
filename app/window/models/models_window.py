"""The Models window: the machine at the top, the list at the left, the details of one model at the right."""

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QEvent, QModelIndex, QSize, Qt, QUrl, Signal
from PySide6.QtGui import QKeyEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QMessageBox, QSplitter, QWidget

from app.model_words import removal_lines, size
from app.protocol import Pair
from app.protocol.model_documents import Removal
from app.window.common.appearance import GAP
from app.window.common.form_fields import CheckBox
from app.window.common.layouts import column, row
from app.window.common.section_list import SectionList
from app.window.common.sentence import sentence
from app.window.common.status_line import StatusLine
from app.window.common.widgets import Hairline, label, search_field, style, wrapped
from app.window.markdown import ask_to_open
from app.window.models.downloads import DownloadQueue
from app.window.models.known_models import MACHINE, ModelRow
from app.window.models.model_details import ModelDetails
from app.window.models.model_library import ModelLibrary
from app.window.models.model_list import KEYS, ModelDelegate, ModelListModel
from models.size_text import memory_words

FIRST_SIZE, MIN_SIZE = QSize(1080, 740), QSize(760, 480)
LIST_WIDTH = 400
LOADING = "Loading models…"
NO_MATCH = "No models found. Try other words."
NO_MATCH_THAT_FITS = f"No models found. Try other words or turn off “Fits {MACHINE}”."


class ModelsWindow(QWidget):
    """pair: returns what the open chat uses. use_asked(Pair): the user wants the open chat to use this pair."""

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
        self.machine, self.memory, self.nothing = label(role="header"), label(role="detail"), wrapped(role="detail")
        self.search, self.fitting, self.line = search_field("Search models"), CheckBox(f"Fits {MACHINE}"), StatusLine()
        self.list, self.rows, self.details = SectionList("Models", KEYS), ModelListModel(self), ModelDetails()
        self.delegate = ModelDelegate(self.list)
        self.asking: QMessageBox | None = None
        self._wanted = ""  # the key of the model that the user chose last, which may not be listed now
        self._lay_out()
        self._connect()
        self.refresh()

    # --- what is shown ---------------------------------------------------------------------------

    def refresh(self) -> None:
        """Shows what is known now. The chosen model stays chosen, even if it is now in another section."""
        known = self.library.known
        total, limit = memory_words(known.machine.memory_bytes), memory_words(known.machine.for_models_bytes)
        self.machine.setText(known.machine.processor)
        self.memory.setText(f"{total} of memory, {limit} for models".replace(".0 GB", " GB"))
        rows = known.rows(self.downloads.downloads, self.search.text(), self.fitting.isChecked())
        self.delegate.used = self._pair().target
        self.rows.show_rows(rows)
        if not self.list.currentIndex().isValid():
            self._choose(self._wanted)
        nothing = NO_MATCH_THAT_FITS if self.fitting.isChecked() else NO_MATCH
        self.nothing.setText(LOADING if self.library.loading else nothing)
        self.nothing.setVisible(not rows)
        self.list.setVisible(bool(rows))
        self.details.setVisible(bool(rows))
        self._show_details()
        if self.library.troubles:
            why = next(iter(self.library.troubles.values()))
            self.line.show_message(f"Some information is missing: {sentence(why)}", "warning")

    @property
    def chosen(self) -> ModelRow | None:
        """The model whose details are shown."""
        return self.rows.item(self.list.currentIndex())

    def choose(self, key: str) -> None:
        """Shows the details of this model, if it is listed."""
        self._wanted = key
        self._choose(key)

    def do(self, action: str) -> None:
        """Carries out an action for the chosen model. action: the name of a `ModelAction`; "do" is the first one."""
        model, buttons, downloads = self.chosen, self.details.buttons, self.downloads
        name = next(iter(buttons), "") if action == "do" else action
        if model is None or name not in buttons or not buttons[name].isEnabled():
            return
        if name in ("get", "resume", "both"):
            downloads.get(model.key)
            if name == "both":
                downloads.get(model.missing_drafter)
        elif name == "use":
            self.use("auto")
        elif name == "delete":
            self.library.plan_removal(model, partial(self._confirm_deletion, model), self._show_error)
        else:
            {"pause": downloads.pause, "cancel": downloads.cancel, "forget": downloads.forget}[name](model.key)

    def use(self, drafter: str) -> None:
        """Uses the chosen model in the open chat, with this drafter."""
        model, known = self.chosen, self.library.known
        if model is None or model.here is None or not model.usable:
            return
        self.use_asked.emit(Pair(target=model.here.name, drafter=drafter))
        verdicts = known.verdicts.get(model.here.name)
        automatic = verdicts.auto_why if verdicts and verdicts.auto else ""
        title = automatic if drafter == "auto" else known.title(drafter)
        self.line.show_message(f"The open chat now uses {model.title}{f', with {title}' if title else ''}.", "info")
        self.refresh()

    def keyPressEvent(self, event: QKeyEvent) -> None:
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
            self.list.doItemsLayout()

    # --- inside ----------------------------------------------------------------------------------

    def _choose(self, key: str) -> None:
        """Chooses this model; if it is not listed the one that the open chat uses, else the first."""
        listed = [model.key for model in self.rows.items]
        found = next((name for name in (key, self._pair().target, *listed) if name in listed), "")
        self.list.setCurrentIndex(self.rows.index_of(found))
        if self.list.currentIndex().row() == 1:
            self.list.scrollToTop()  # so that its heading is visible

    def _handle_choice(self, index: QModelIndex) -> None:
        model = self.rows.item(index)
        if model is not None:
            self._wanted = model.key
            self._show_details()

    def _show_details(self) -> None:
        model, pair = self.chosen, self._pair()
        if model is None:
            return
        drafter = pair.drafter if model.here and model.here.name == pair.target else ""
        running = [repository for repository, one in self.downloads.downloads.items() if one.live]
        self.details.show_model(model, self.library.known, drafter, running)
        self.library.check_memory(model)

    def _find(self) -> None:
        self.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.search.selectAll()

    def _show_error(self, why: str) -> None:
        self.line.show_message(sentence(why), "error")

    def _confirm_deletion(self, model: ModelRow, removal: Removal) -> None:
        """Asks before a model is deleted; Return and Esc keep it."""
        used = model.here is not None and model.here.name == self._pair().target
        box = self.asking = QMessageBox(QMessageBox.Icon.NoIcon, "Delete Model", f"Delete {model.title}?", parent=self)
        style(box, role="question")
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setInformativeText(deletion_text(removal, used))
        box.setDefaultButton(box.addButton(QMessageBox.StandardButton.Cancel))
        delete = box.addButton("Delete", QMessageBox.ButtonRole.DestructiveRole)
        deleted = partial(self._show_deletion, model)
        delete.clicked.connect(lambda: self.library.remove(model, deleted, self._show_error))
        box.open()

    def _show_deletion(self, model: ModelRow, removal: Removal) -> None:
        freed = size(removal.frees_bytes) or "no space"
        self.line.show_message(f"Deleted {model.title}; {freed} freed.", "info")

    def _lay_out(self) -> None:
        self.search.setFixedWidth(220)
        self.fitting.setChecked(True)
        self.fitting.setToolTip("Hide models that do not fit in memory")
        self.nothing.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignHCenter)
        self.nothing.setContentsMargins(3 * GAP, 3 * GAP, 3 * GAP, 0)
        self.list.setModel(self.rows)
        self.list.setItemDelegate(self.delegate)
        left, split = QWidget(), QSplitter()
        style(left, ground="sidebar")
        column((self.list, 1), (self.nothing, 1), on=left)
        split.addWidget(left)
        split.addWidget(self.details)
        split.setHandleWidth(1)
        split.setChildrenCollapsible(False)
        split.setStretchFactor(1, 1)
        split.setSizes([LIST_WIDTH, FIRST_SIZE.width() - LIST_WIDTH])
        texts, margins = column(self.machine, self.memory, gap=1), (2 * GAP + 4, 12, 2 * GAP, 12)
        top = row((texts, 1), self.fitting, self.search, margins=margins, gap=2 * GAP)
        column(top, Hairline(), self.line, (split, 1), on=self)
        self.resize(FIRST_SIZE)
        self.setMinimumSize(MIN_SIZE)

    def _connect(self) -> None:
        self.search.textChanged.connect(lambda _: self.refresh())
        self.search.returnPressed.connect(self.list.setFocus)
        self.fitting.clicked.connect(lambda _: self.refresh())
        self.list.requested.connect(self.do)
        self.list.doubleClicked.connect(lambda _: self.do("do"))
        self.list.selectionModel().currentChanged.connect(lambda index, _: self._handle_choice(index))
        self.details.requested.connect(self.do)
        self.details.drafters.got.connect(self.downloads.get)
        self.details.drafters.used.connect(self.use)
        self.details.download.page_asked.connect(lambda url: ask_to_open(self, QUrl(url)))
        self.library.changed.connect(self.refresh)
        self.downloads.changed.connect(self.refresh)
        for keys, do in (("Ctrl+F", self._find), ("Ctrl+W", self.close)):
            QShortcut(QKeySequence(keys), self).activated.connect(do)


def deletion_text(removal: Removal, used: bool) -> str:
    """Returns what a deletion does, a line for each thing. used: whether the open chat uses the model."""
    lines = [f"This frees {size(removal.frees_bytes) or 'no space'}."]
    lines += removal_lines(removal.losers, removal.keepers, removal.stays_bytes, removal.note)
    if used:
        lines.append("The open chat uses this model and will need another one.")
    return "\n".join(lines)
