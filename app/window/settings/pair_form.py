"""The form for the pair that answers: target, drafter, trees, context."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget

from app.protocol import Pair
from app.window.common.form_fields import CheckBox, Choice, Field, FolderField, choice, folder_error, whole_number
from models.builtin import SHIPPED, is_shipped

BUILTIN, FOLDER = "builtin", "folder"
TARGETS = {BUILTIN: "Built-in", FOLDER: "Choose Folder…"}
BUILTIN_HELP = "SmolLM2-135M-Instruct, which comes with Redline."
_ALL_DRAFTERS = {
    "auto": "Automatic",
    "eagle3": "EAGLE-3",
    "medusa": "Medusa",
    "draft": "Draft model",
    "lookup": "Prompt lookup",
    "none": "None",
    FOLDER: "Choose Folder…",
}
# The app leaves out some of the shipped drafters, for its size.
DRAFTERS = {kind: name for kind, name in _ALL_DRAFTERS.items() if kind not in SHIPPED or is_shipped(kind)}
DRAFTER_HELP = {
    "auto": "Uses the best drafter for the target, or prompt lookup if there is none.",
    "eagle3": "For the built-in target: one layer that reads its hidden states.",
    "medusa": "For the built-in target: heads that predict several tokens at once.",
    "draft": "For the built-in target: a small model that writes ahead.",
    "lookup": "Needs no model: proposes what followed the same words earlier.",
    "none": "Plain decoding: the target alone, one token at a time.",
    FOLDER: "The folder of a draft model, an EAGLE-3 head or Medusa heads.",
}
MISMATCH = "This drafter is made for the built-in target and is unlikely to work with another."
TREE_HELP = "Proposes several continuations at once. Requires EAGLE-3 or Medusa."
LONGEST_CONTEXT = 4_000_000


class PairForm(QWidget):
    """changed(): the user changed something, which may be invalid. models_asked(): the user wants to see all models."""

    changed = Signal()
    models_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.target, self.target_folder = choice(TARGETS), FolderField("Folder of the target")
        self.drafter, self.drafter_folder = choice(DRAFTERS), FolderField("Folder of the drafter")
        self.tree, self.context = CheckBox("Draft trees"), whole_number(0, LONGEST_CONTEXT, "As declared")
        self.models = QPushButton("More Models…")
        self._target = Field("Target", self.target, BUILTIN_HELP)
        self._target_folder = Field("Target folder", self.target_folder, wide=True)
        self._drafter = Field("Drafter", self.drafter)
        self._drafter_folder = Field("Drafter folder", self.drafter_folder, wide=True)
        self._context = Field("Context size", self.context, "The most tokens of prompt and reply together.")
        self.fields = (
            *(self._target, self._target_folder, self._drafter, self._drafter_folder),
            *(Field("Trees", self.tree, TREE_HELP), self._context),
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
        """Returns the pair as it stands, valid or not."""
        return Pair(
            target=_folder(self.target_folder) if self.target.currentData() == FOLDER else self.target.currentData(),
            drafter=_folder(self.drafter_folder) if self._own_drafter else self.drafter.currentData(),
            tree=self.tree.isChecked(),
            context=self.context.value() or None,
        )

    def show_pair(self, pair: Pair) -> None:
        """Shows this pair, without a signal."""
        own_target = pair.target != BUILTIN and _is_folder(pair.target)
        own_drafter = pair.drafter not in DRAFTERS and _is_folder(pair.drafter)
        self.context.blockSignals(True)
        for box, spec, own in ((self.target, pair.target, own_target), (self.drafter, pair.drafter, own_drafter)):
            if not own:
                _offer(box, spec)
        self.target.choose(FOLDER if own_target else pair.target)
        self.target_folder.set_text(pair.target if own_target else "")
        self.drafter.choose(FOLDER if own_drafter else pair.drafter)
        self.drafter_folder.set_text(pair.drafter if own_drafter else "")
        self.tree.setChecked(pair.tree)
        self.context.setValue(pair.context or 0)
        self.context.blockSignals(False)
        self._check()

    def offer_models(self, targets: Sequence[str], drafters: Sequence[str]) -> None:
        """Offers these models by their names: they are on this computer."""
        for box, names in ((self.target, targets), (self.drafter, drafters)):
            for name in names:
                _offer(box, name)

    @property
    def valid(self) -> bool:
        """Whether every value is allowed."""
        return not any(field.error for field in self.fields)

    @property
    def _own_drafter(self) -> bool:
        return bool(self.drafter.currentData() == FOLDER)

    def _change(self) -> None:
        self._check()
        self.changed.emit()

    def _check(self) -> None:
        """Shows what belongs to the choice, and what is wrong with it."""
        target, drafter = self.target.currentData(), self.drafter.currentData()
        own = target == FOLDER
        self._target.set_help(BUILTIN_HELP if target == BUILTIN else "")
        mismatch = target != BUILTIN and drafter in SHIPPED
        self._drafter.set_help(MISMATCH if mismatch else DRAFTER_HELP.get(drafter, ""))
        self._target_folder.setVisible(own)
        self._target_folder.set_error(folder_error(self.target_folder.text()) if own else "")
        self._drafter_folder.setVisible(self._own_drafter)
        self._drafter_folder.set_error(folder_error(self.drafter_folder.text()) if self._own_drafter else "")
        self._context.set_error("Enter at least 2 tokens." if self.context.value() == 1 else "")


def _offer(box: Choice, name: str) -> None:
    """Adds a model before the folder, which is last, unless it is offered already."""
    if box.findData(name) < 0:
        box.insertItem(box.count() - 1, name.rpartition("/")[2], name)
        box.setItemData(box.findData(name), name, Qt.ItemDataRole.ToolTipRole)


def _is_folder(spec: str) -> bool:
    """Whether `spec` is a place on disk rather than the name of a model, by the same rule as in the terminal."""
    if spec.startswith(("/", ".", "~")):
        return True
    try:
        return Path(spec).exists()
    except (OSError, ValueError):
        return False


def _folder(field: FolderField) -> str:
    text = field.text()
    return str(Path(text).expanduser()) if text else ""
