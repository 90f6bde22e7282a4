"""Which models answer: target, drafter, trees, context."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget

from app.protocol import Pair
from app.window.look import Look
from app.window.shell.fields import Check, Choice, Field, choice, choose, whole
from app.window.shell.folders import FolderField, folder_error
from models.shipped import SHIPPED, is_shipped

BUILTIN, FOLDER = "builtin", "folder"
TARGETS = {BUILTIN: "Built-in", FOLDER: "A folder…"}
BUILTIN_IS = "SmolLM2-135M-Instruct, which comes with Redline."
_ALL_DRAFTERS = {
    "auto": "Automatic",
    "eagle3": "EAGLE-3",
    "medusa": "Medusa",
    "draft": "Draft model",
    "lookup": "Prompt lookup",
    "none": "None",
    FOLDER: "A folder…",
}
# The app leaves some of the shipped ones out, for its size.
DRAFTERS = {kind: name for kind, name in _ALL_DRAFTERS.items() if kind not in SHIPPED or is_shipped(kind)}
DRAFTERS_ARE = {
    "auto": "The one that is shipped for the target; where none is, prompt lookup.",
    "eagle3": "Shipped for the built-in target: a layer that reads its hidden states.",
    "medusa": "Shipped for the built-in target: heads that guess several tokens at once.",
    "draft": "Shipped for the built-in target: a small model that writes ahead.",
    "lookup": "No model: proposes what followed the last time these words stood here.",
    "none": "Plain decoding: the target alone, one token at a time.",
    FOLDER: "A draft model, an EAGLE-3 head or Medusa heads, as a model folder.",
}
MISFIT = "This one is made for the built-in target; another target will most likely refuse it."
TREES_ARE = "Proposes several ways on at once; needs EAGLE-3 or Medusa."
LONGEST_CONTEXT = 4_000_000


class PairForm(QWidget):
    """changed(): the user changed something, for better or worse. models_asked(): all models are to be seen."""

    changed = Signal()
    models_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.target, self.target_folder = choice(TARGETS), FolderField("Model folder of the target")
        self.drafter, self.drafter_folder = choice(DRAFTERS), FolderField("Model folder of the drafter")
        self.tree, self.context = Check("Draft trees"), whole(0, LONGEST_CONTEXT, "As declared")
        self.models = QPushButton("More Models…")
        self._target = Field("Target", self.target, BUILTIN_IS)
        self._target_folder = Field("Target folder", self.target_folder, wide=True)
        self._drafter = Field("Drafter", self.drafter)
        self._drafter_folder = Field("Drafter folder", self.drafter_folder, wide=True)
        self._tree = Field("Trees", self.tree, TREES_ARE)
        self._context = Field("Context, tokens", self.context, "Most tokens of prompt and reply together.")
        self.fields = (
            *(self._target, self._target_folder, self._drafter, self._drafter_folder),
            *(self._tree, self._context),
        )
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(12)
        for field in self.fields:
            column.addWidget(field)
        column.insertWidget(2, self.models, 0, Qt.AlignmentFlag.AlignRight)
        self.models.clicked.connect(self.models_asked)
        for signal in (
            *(self.target.activated, self.drafter.activated, self.tree.clicked, self.context.valueChanged),
            *(self.target_folder.changed, self.drafter_folder.changed),
        ):
            signal.connect(lambda *_: self._change())
        self.show_pair(Pair())

    def pair(self) -> Pair:
        """As it stands, right or wrong."""
        return Pair(
            target=_folder(self.target_folder) if self.target.currentData() == FOLDER else self.target.currentData(),
            drafter=_folder(self.drafter_folder) if self._own_drafter else self.drafter.currentData(),
            tree=self.tree.isChecked(),
            context=self.context.value() or None,
        )

    def show_pair(self, pair: Pair) -> None:
        """Show this instead, without telling."""
        own_target = pair.target != BUILTIN and _is_folder(pair.target)
        own_drafter = pair.drafter not in DRAFTERS and _is_folder(pair.drafter)
        self.context.blockSignals(True)
        for box, spec, own in ((self.target, pair.target, own_target), (self.drafter, pair.drafter, own_drafter)):
            if not own:
                _offer(box, spec)
        choose(self.target, FOLDER if own_target else pair.target)
        self.target_folder.set_text(pair.target if own_target else "")
        choose(self.drafter, FOLDER if own_drafter else pair.drafter)
        self.drafter_folder.set_text(pair.drafter if own_drafter else "")
        self.tree.setChecked(pair.tree)
        self.context.setValue(pair.context or 0)
        self.context.blockSignals(False)
        self._check()

    def show_present(self, targets: Sequence[str], drafters: Sequence[str]) -> None:
        """Offer these by their names: they are here."""
        for box, names in ((self.target, targets), (self.drafter, drafters)):
            for name in names:
                _offer(box, name)

    @property
    def valid(self) -> bool:
        return not any(field.error for field in self.fields)

    def set_look(self, look: Look) -> None:
        for field in self.fields:
            field.set_look(look)

    @property
    def _own_drafter(self) -> bool:
        return bool(self.drafter.currentData() == FOLDER)

    def _change(self) -> None:
        self._check()
        self.changed.emit()

    def _check(self) -> None:
        """Show what belongs to the choice, and what is wrong with it."""
        target, drafter = self.target.currentData(), self.drafter.currentData()
        own = target == FOLDER
        self._target.say(BUILTIN_IS if target == BUILTIN else "")
        misfit = target != BUILTIN and drafter in SHIPPED
        self._drafter.say(MISFIT if misfit else DRAFTERS_ARE.get(drafter, ""))
        self._target_folder.setVisible(own)
        self._target_folder.fail(folder_error(self.target_folder.text()) if own else "")
        self._drafter_folder.setVisible(self._own_drafter)
        self._drafter_folder.fail(folder_error(self.drafter_folder.text()) if self._own_drafter else "")
        self._context.fail("Give at least 2 tokens." if self.context.value() == 1 else "")


def _offer(box: Choice, name: str) -> None:
    """Before the folder, which is last, unless it is offered already."""
    if box.findData(name) < 0:
        box.insertItem(box.count() - 1, name.rpartition("/")[2], name)
        box.setItemData(box.findData(name), name, Qt.ItemDataRole.ToolTipRole)


def _is_folder(spec: str) -> bool:
    """Whether it is a place on disk rather than the name of a model, as the terminal tells them apart."""
    if spec.startswith(("/", ".", "~")):
        return True
    try:
        return Path(spec).exists()
    except (OSError, ValueError):
        return False


def _folder(field: FolderField) -> str:
    text = field.text()
    return str(Path(text).expanduser()) if text else ""
