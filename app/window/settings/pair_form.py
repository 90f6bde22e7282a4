"""The form for the models of a chat: target, drafter, draft trees, context and the machines that share the target."""

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QObject, QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QFileDialog, QPushButton, QWidget

from app.inference.host_file import read_hosts
from app.model_words import DRAFTER_TITLES
from app.protocol import Loaded, Pair
from app.window.common.form_fields import CheckBox, Field, FolderField, choice, folder_error, is_folder, whole_number
from app.window.common.layouts import column
from app.window.common.sentence import capitalised
from engine.errors import UsageError
from models.builtin import SHIPPED, is_shipped

BUILTIN, FOLDER = "builtin", "folder"
TARGETS = {BUILTIN: "Built-in", FOLDER: "Choose Folder…"}
BUILTIN_HELP = "SmolLM2-135M-Instruct, which comes with Redline."
# Redline.app leaves out some of the shipped drafters, to be smaller.
_THERE = {name: title for name, title in DRAFTER_TITLES.items() if name not in SHIPPED or is_shipped(name)}
DRAFTERS = {
    "auto": "Automatic",
    **{name: capitalised(title) for name, title in _THERE.items()},
    "none": "None",
    FOLDER: "Choose Folder…",
}
DRAFTER_HELP = {
    "auto": "Uses the best drafter for the target, or prompt lookup if there is none.",
    "eagle3": "For the built-in target: two layers that read its hidden states.",
    "medusa": "For the built-in target: heads that predict several tokens at once.",
    "draft": "For the built-in target: a small model that writes ahead.",
    "lookup": "Needs no model: proposes what followed the same words earlier.",
    "none": "Plain decoding: the target alone, one token at a time.",
    FOLDER: "The folder of a draft model, a head or a block drafter.",
}
MISMATCH = "This drafter is made for the built-in target and is unlikely to work with another."
TREE_HELP = "Proposes several continuations at once. Works with EAGLE-3, Medusa, block drafters and prompt lookup."
LONGEST_CONTEXT = 4_000_000
NO_MACHINES = "This file does not list machines that can share a model. Create one with redline cluster."
MACHINES_HELP = "For a model that is too large for this computer: choose a file created by redline cluster."


class ModelChoice(QObject):
    """A drop-down of models by name, and the field of a folder, which counts while "Choose Folder…" is chosen. Both are
    laid out by whoever makes them. changed(): the user chose another model, which may be invalid."""

    changed = Signal()

    def __init__(self, name: str, options: dict[str, str]) -> None:
        super().__init__()
        self._options = options
        self.box, self.folder = choice(options), FolderField(f"Folder of {name}")
        self.box.activated.connect(lambda _: self.changed.emit())
        self.folder.changed.connect(self.changed)

    @property
    def kind(self) -> str:
        """The name of the model, or FOLDER."""
        return str(self.box.currentData())

    def spec(self) -> str:
        """Returns the name of the model or its folder."""
        if self.kind != FOLDER:
            return self.kind
        return str(Path(self.folder.text()).expanduser()) if self.folder.text() else ""

    def show_spec(self, spec: str) -> None:
        """Shows this model, without a signal."""
        own = spec not in self._options and is_folder(spec)
        if not own:
            self.box.offer(spec)
        self.box.choose(FOLDER if own else spec)
        self.folder.set_text(spec if own else "")

    def error(self) -> str:
        """Returns what is wrong with the folder, or ""."""
        return folder_error(self.folder.text()) if self.kind == FOLDER else ""


class PairForm(QWidget):
    """The form for the pair. changed(): the user changed something, which may be invalid. models_asked(): the user
    wants to see all models."""

    changed = Signal()
    models_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.target, self.drafter = ModelChoice("the target", TARGETS), ModelChoice("the drafter", DRAFTERS)
        self._target, self._drafter = Field("Target", self.target.box), Field("Drafter", self.drafter.box)
        self._target_folder = Field("Target folder", self.target.folder, wide=True)
        self._drafter_folder = Field("Drafter folder", self.drafter.folder, wide=True)
        self.tree, self.context = CheckBox("Draft trees"), whole_number(0, LONGEST_CONTEXT, "Automatic")
        self.machines = FolderField("This computer alone", _ask_hosts)
        self._machines = Field("Machines", self.machines, MACHINES_HELP, wide=True)
        self._loaded: Loaded | None = None
        self.models = QPushButton("More Models…")
        self._context = Field("Context size", self.context, "Maximum tokens for the prompt and reply together.")
        target, drafter = (self._target, self._target_folder), (self._drafter, self._drafter_folder)
        others = (Field("Trees", self.tree, TREE_HELP), self._context, self._machines)
        self.fields = (*target, *drafter, *others)
        column(*target, (self.models, 0, Qt.AlignmentFlag.AlignRight), *drafter, *others, on=self, gap=12)
        self.models.clicked.connect(self.models_asked)
        changed = (self.target.changed, self.drafter.changed, self.machines.changed)
        for signal in (*changed, self.tree.clicked, self.context.valueChanged):
            signal.connect(lambda *_: self._change())
        self.show_pair(Pair())

    def pair(self) -> Pair:
        """Returns the pair as it is shown, valid or not."""
        target, drafter = self.target.spec(), self.drafter.spec()
        hosts = self.machines.text() and str(Path(self.machines.text()).expanduser())
        context = self.context.value() or None
        return Pair(target=target, drafter=drafter, tree=self.tree.isChecked(), context=context, hosts=hosts)

    def show_pair(self, pair: Pair) -> None:
        """Shows this pair, without a signal."""
        self.target.show_spec(pair.target)
        self.drafter.show_spec(pair.drafter)
        self.machines.set_text(pair.hosts)
        self.tree.setChecked(pair.tree)
        with QSignalBlocker(self.context):
            self.context.setValue(pair.context or 0)
        self._check()

    def set_model(self, loaded: Loaded) -> None:
        """Shows what the loaded pair takes on each machine, where it is the pair that is shown."""
        self._loaded = loaded
        self._check()

    def offer_models(self, targets: Sequence[str], drafters: Sequence[str]) -> None:
        """Offers models that are on this computer by their names."""
        for model, names in ((self.target, targets), (self.drafter, drafters)):
            for name in names:
                model.box.offer(name)

    @property
    def valid(self) -> bool:
        """Whether every value is allowed."""
        return not any(field.error for field in self.fields)

    def _change(self) -> None:
        self._check()
        self.changed.emit()

    def _check(self) -> None:
        """Shows what belongs to the choice, and what is wrong with it."""
        target, drafter = self.target.kind, self.drafter.kind
        self._target.set_help(BUILTIN_HELP if target == BUILTIN else "")
        mismatch = target != BUILTIN and drafter in SHIPPED
        self._drafter.set_help(MISMATCH if mismatch else DRAFTER_HELP.get(drafter, ""))
        for model, folder in ((self.target, self._target_folder), (self.drafter, self._drafter_folder)):
            folder.setVisible(model.kind == FOLDER)
            folder.set_error(model.error())
        self._context.set_error("Enter at least 2 tokens." if self.context.value() == 1 else "")
        self._check_machines()

    def _check_machines(self) -> None:
        """Shows which machines a file names and, once the pair is loaded, how it fits on them."""
        pair, loaded = self.pair(), self._loaded
        try:
            hosts = read_hosts(Path(pair.hosts)) if pair.hosts else ()
        except (UsageError, ValueError):  # ValueError: a name that no file can have
            self._machines.set_error(NO_MACHINES)
            return
        text = f"{len(hosts)} machines: {', '.join(host.ssh for host in hosts)}." if hosts else MACHINES_HELP
        if hosts and loaded is not None and loaded.machines and loaded.pair == pair:
            text = f"{text} Fits: {loaded.machines.memory}."
        self._machines.set_error("")
        self._machines.set_help(text)


def _ask_hosts(parent: QWidget) -> str:
    name, _ = QFileDialog.getOpenFileName(parent, "Choose Machines File", "", "JSON (*.json)")
    return name
