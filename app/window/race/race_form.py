"""The form of a race: a prompt, two sides, how often, and the sampling settings that both share."""

from dataclasses import replace
from typing import cast

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QGridLayout, QLineEdit, QPushButton, QWidget

from app.protocol import AcceptanceRule, SamplingSettings
from app.protocol.race_messages import PLAIN, Server, Side
from app.remote.openai_client import check_address
from app.store.records import ChatSettings
from app.window.common.appearance import GAP
from app.window.common.form_fields import CONTROL_WIDTH, CheckBox, Lines, choice, real_number, whole_number
from app.window.common.layouts import STRETCH, Part, column, row
from app.window.common.widgets import fit_width, label, style
from app.window.settings.pair_form import DRAFTERS, FOLDER, ModelChoice
from app.window.settings.sampling_form import RULES, temperature_error
from engine.errors import UsageError
from engine.settings import LONGEST_DRAFT, LONGEST_TREE, MAX_TEMPERATURE

RUNS, MAX_RUNS = 3, 20
TOKENS, MAX_TOKENS = 128, 4096
AUTO = -1  # as a draft length in the form
SHARED_HELP = "All other sampling settings, such as top-p, are those of the open chat."
SERVER = "server"
SIDES = {"none": "Plain decoding"} | {kind: name for kind, name in DRAFTERS.items() if kind != "none"}
SIDES[SERVER] = "Other App…"
SERVER_HELP = "A program that speaks OpenAI's protocol. Only the prompt is sent, to this address alone."
MODEL_HELP = "One of the program's models. If this is empty, the first one that it lists is used."
KEY_HELP = "The environment variable that holds the program's API key, if it needs one."


class SideForm(QWidget):
    """The controls of one side. name: "A" or "B". changed(): the user changed something."""

    changed = Signal()

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        letter = label(name, "header")
        self.drafter, self.rule = ModelChoice(f"drafter {name}", SIDES), choice(RULES)
        self.length, self.tree = whole_number(AUTO, LONGEST_TREE, "Auto"), CheckBox("Trees")
        self.drafter.folder.setAccessibleName(f"Drafter folder of side {name}")
        letter.setToolTip(f"Side {name}")
        self.length.setPrefix("Length ")
        fit_width(self.drafter.box, CONTROL_WIDTH, tuple(SIDES.values()), at_least=True)
        self.url, self.model, self.key_env = QLineEdit(), QLineEdit(), QLineEdit()
        self._server = QWidget()
        self._lay_out_server(name)
        box = self.drafter.box
        controls = {"Drafter": box, "Draft length": self.length, "Trees": self.tree, "Acceptance": self.rule}
        for what, control in controls.items():
            control.setAccessibleName(f"{what} of side {name}")
        first = row(letter, *controls.values(), STRETCH, gap=GAP)
        column(first, self.drafter.folder, self._server, on=self, gap=GAP // 2)
        for signal in (self.drafter.changed, self.rule.activated, self.tree.clicked, self.length.valueChanged):
            signal.connect(lambda *_: self._change())
        for line in (self.url, self.model, self.key_env):
            line.editingFinished.connect(self._change)
        self._check()

    def side(self) -> Side:
        """Returns the side as it stands, valid or not."""
        kind, length = self.drafter.kind, self.length.value()
        if kind == SERVER:
            url, model, key_env = (line.text().strip() for line in (self.url, self.model, self.key_env))
            return Side(server=Server(url=url, model=model, key_env=key_env))
        return Side(
            drafter=self.drafter.spec(),
            tree=self.tree.isChecked() and kind != "none",
            draft_length=None if length == AUTO or kind == "none" else length,
            acceptance=cast(AcceptanceRule, self.rule.currentData()),
        )

    def show_side(self, side: Side) -> None:
        """Shows this side, without a signal."""
        self.drafter.show_spec(side.drafter if side.server is None else SERVER)
        server = side.server or Server(url="")
        for line, text in ((self.url, server.url), (self.model, server.model), (self.key_env, server.key_env)):
            line.setText(text)
        with QSignalBlocker(self.length):
            self.length.setValue(AUTO if side.draft_length is None else side.draft_length)
        self.tree.setChecked(side.tree)
        self.rule.choose(side.acceptance)
        self._check()

    def error(self) -> str:
        """Returns what is wrong with the side, or ""."""
        if why := self.drafter.error():
            return why
        if self.drafter.kind == SERVER:
            try:
                check_address(Server(url=self.url.text().strip()))
            except UsageError:
                return "Enter the address of the program, such as http://127.0.0.1:8080."
        longest = LONGEST_TREE if self.tree.isChecked() else LONGEST_DRAFT
        return f"A draft can have at most {longest} tokens." if self.length.value() > longest else ""

    def _change(self) -> None:
        self._check()
        self.changed.emit()

    def _check(self) -> None:
        """Shows what belongs to the choice."""
        kind = self.drafter.kind
        self.drafter.folder.setVisible(kind == FOLDER)
        for control in (self.length, self.tree):
            control.setVisible(kind not in ("none", SERVER))
        self._server.setVisible(kind == SERVER)

    def _lay_out_server(self, name: str) -> None:
        lines = {
            "Address": (self.url, "http://127.0.0.1:8080", SERVER_HELP),
            "Model": (self.model, "Model", MODEL_HELP),
            "Key variable": (self.key_env, "Key variable", KEY_HELP),
        }
        for what, (line, placeholder, tip) in lines.items():
            line.setAccessibleName(f"{what} of the program of side {name}")
            line.setPlaceholderText(placeholder)
            line.setToolTip(tip)
        column(row((self.url, 3), (self.model, 2), (self.key_env, 2), gap=GAP), on=self._server)


class RaceForm(QWidget):
    """What to race, and the buttons that start and stop a race. raced(): the user starts one, and the form is valid.
    stopped(): the user stops it. open_asked(): the user wants to open a saved race."""

    raced = Signal()
    stopped = Signal()
    open_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.prompt = Lines(2, "Prompt for both sides")
        self.sides = [SideForm("A"), SideForm("B")]
        self.runs, self.tokens = whole_number(1, MAX_RUNS), whole_number(1, MAX_TOKENS)
        self.temperature = real_number(0, MAX_TEMPERATURE, 0.1)
        self.start, self.stop = QPushButton("Race"), QPushButton("Stop")
        self.error = label(role="detail", tone="error")
        style(self.start, role="primary")
        self.open = QPushButton("Open…")
        self.open.setAccessibleName("Open Saved Race")
        self._busy = False
        self._sampling = SamplingSettings()
        self._lay_out()
        self.show_race("", SamplingSettings(temperature=0, max_tokens=TOKENS), (PLAIN, Side()), RUNS)
        self.start.clicked.connect(self.race)
        self.stop.clicked.connect(self.stopped)
        self.open.clicked.connect(self.open_asked)
        self.temperature.valueChanged.connect(lambda _: self._check())
        for side in self.sides:
            side.changed.connect(self._check)
        self.set_busy(False)

    def race(self) -> None:
        """Starts the race, unless something is wrong, or another race is under way."""
        if self._busy:
            return
        if not self.prompt.toPlainText().strip():
            self.error.setText("Enter a prompt.")
            self.prompt.setFocus(Qt.FocusReason.OtherFocusReason)
        elif self._check():
            self.raced.emit()

    def sampling(self) -> SamplingSettings:
        """Returns the sampling settings that both sides share: those that are shown, never the model's own."""
        temperature, tokens = self.temperature.value(), self.tokens.value()
        return replace(self._sampling, temperature=temperature, max_tokens=tokens, from_model=())

    def suggest(self, settings: ChatSettings) -> None:
        """Suggests to race plain decoding against the settings of a chat."""
        pair, sampling = settings.pair, settings.sampling
        other = Side(
            drafter="auto" if pair.drafter == "none" else pair.drafter,
            tree=pair.tree,
            draft_length=sampling.draft_length or None,
            acceptance=sampling.acceptance,
        )
        sampling = replace(sampling, max_tokens=TOKENS, draft_length=None)
        self.show_race(self.prompt.toPlainText(), sampling, (PLAIN, other), RUNS)

    def show_race(self, prompt: str, sampling: SamplingSettings, sides: tuple[Side, ...], runs: int) -> None:
        """Shows the settings of a race."""
        self.prompt.setPlainText(prompt)
        self.temperature.setValue(sampling.temperature)
        self.tokens.setValue(min(sampling.max_tokens, MAX_TOKENS))
        self.runs.setValue(min(runs, MAX_RUNS))
        self._sampling = replace(sampling, seed=sampling.seed or 0)
        for form, side in zip(self.sides, sides, strict=True):
            form.show_side(side)
        self._check()

    def set_busy(self, busy: bool) -> None:
        """Whether a race is under way, which can only be stopped."""
        self._busy = busy
        controls: list[QWidget] = [self.prompt, *self.sides, self.runs, self.tokens, self.temperature, self.open]
        for control in controls:
            control.setEnabled(not busy)
        self.start.setVisible(not busy)
        self.stop.setVisible(busy)

    def _check(self) -> bool:
        """Shows what belongs to the choice, and what is wrong with it. Returns whether nothing is."""
        for side in self.sides:
            chooses = self.temperature.value() > 0 and side.side().server is None  # at temperature 0 it has no effect
            side.rule.setVisible(chooses)
        errors = [temperature_error(self.temperature.value()), *(side.error() for side in self.sides)]
        wrong = next(filter(None, errors), "")
        self.error.setText(wrong)
        return not wrong

    def _lay_out(self) -> None:
        self.prompt.setAccessibleName("Prompt")
        self.temperature.setToolTip(SHARED_HELP)
        grid = QGridLayout(self)
        grid.setContentsMargins(2 * GAP + 4, 2 * GAP, 2 * GAP + 4, GAP)
        grid.setHorizontalSpacing(3 * GAP)
        grid.setVerticalSpacing(GAP)
        grid.addWidget(self.prompt, 0, 0, 1, 2)
        for place, side in enumerate(self.sides):
            grid.addWidget(side, 1, place, Qt.AlignmentFlag.AlignTop)
            grid.setColumnStretch(place, 1)
        numbers = {"Runs per side": self.runs, "Maximum tokens": self.tokens, "Temperature": self.temperature}
        parts: list[Part] = []
        for name, control in numbers.items():
            control.setAccessibleName(name)
            fit_width(control, 76, (f"{MAX_TOKENS:,}",))
            parts += (label(name, "detail"), control, GAP)
        buttons = (self.open, self.start, self.stop)
        grid.addLayout(row(*parts, (self.error, 1), *buttons, gap=GAP), 2, 0, 1, 2)
