"""The window in which the user serves the loaded models to other programs: a switch, address, key, and what runs."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication, QKeyEvent
from PySide6.QtWidgets import QLabel, QLineEdit, QWidget

from app.api.agents import AGENTS, agent_lines, agent_warning
from app.protocol import Loaded
from app.reply_statistics import count
from app.window.api.api_server import ApiState
from app.window.common.appearance import GAP
from app.window.common.form_fields import CheckBox, Field, choice, whole_number
from app.window.common.layouts import STRETCH, column, row
from app.window.common.preferences import HIGHEST_PORT, LOWEST_PORT
from app.window.common.sentence import sentence
from app.window.common.widgets import Hairline, IconButton, keep_width, label, scroll_area, style, wrapped

TITLE = "Serve Models to Other Apps"
ABOUT = (
    "Editors, agents and scripts on this computer can use the models of this window through the protocols of OpenAI "
    "and Anthropic. Other computers cannot."
)
PORT_HELP = "Change it if another app already uses this port."
KEY_HELP = "Apps must send this key. Anyone who has it can use your models while the server is on."
AGENT_HELP = "Copies the commands that start this agent with your model. Paste them into a terminal."
NO_MODEL = "Loads with the next request"
MARGINS = (28, 22, 28, 24)  # px
NAME_WIDTH = 84  # px


class CopyField(QWidget):
    """A value to copy. secret: whether it is shown as dots."""

    def __init__(self, name: str, secret: bool = False) -> None:
        super().__init__()
        self.text, self.copy = QLineEdit(), IconButton("copy", f"Copy {name}")
        self.text.setReadOnly(True)
        self.text.setAccessibleName(name)
        if secret:
            self.text.setEchoMode(QLineEdit.EchoMode.Password)
        self.copy.clicked.connect(self._copy)
        title = label(name)
        keep_width(title, NAME_WIDTH)
        title.setBuddy(self.text)
        row(title, (self.text, 1), self.copy, on=self, gap=GAP)
        self.show_value("")

    def show_value(self, value: str) -> None:
        """Shows the value, "" for none."""
        if value != self.text.text():
            self.text.setText(value)
            self.text.setCursorPosition(0)
        self.text.setEnabled(bool(value))
        self.copy.setEnabled(bool(value))

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.text.text())
        self.copy.show_done()


class AgentCommands(QWidget):
    """Offers the commands that start an agent of another maker with the loaded model, to be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.agent, self.copy = choice({key: agent.name for key, agent in AGENTS.items()}), IconButton("copy", "")
        self.note = wrapped(role="caption", tone="faint")
        self.agent.setAccessibleName("Agent")
        self.agent.currentIndexChanged.connect(lambda: self._refresh())
        self.copy.clicked.connect(self._copy)
        column(row(_name("Agent"), self.agent, STRETCH, self.copy, gap=GAP), self.note, on=self, gap=6)
        self._loaded: Loaded | None = None
        self._address = self._key = ""
        self._refresh()

    def show_model(self, loaded: Loaded | None, address: str, key: str) -> None:
        """Enables copying while there is a model and the server is on. address: of the server, "" while it is off."""
        self._loaded, self._address, self._key = loaded, address, key
        self._refresh()

    def _refresh(self) -> None:
        agent = self.agent.currentData()
        self.copy.setEnabled(self._loaded is not None and bool(self._address and self._key))
        self.copy.setToolTip(f"Copy Commands for {AGENTS[agent].name}")
        self.copy.setAccessibleName(self.copy.toolTip())
        warning = agent_warning(agent, self._loaded) if self._loaded is not None else ""
        self.note.setText(sentence(warning) if warning else AGENT_HELP)

    def _copy(self) -> None:
        assert self._loaded is not None
        url = self._address.removesuffix("/v1")
        lines = agent_lines(self.agent.currentData(), self._loaded, url, self._key)
        QGuiApplication.clipboard().setText(lines)
        self.copy.show_done()


class ApiWindow(QWidget):
    """switched(bool), port_chosen(int): by the user."""

    switched = Signal(bool)
    port_chosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent, Qt.WindowType.Dialog)
        self.setWindowTitle(TITLE)
        self.switch, self.port = CheckBox("On"), whole_number(LOWEST_PORT, HIGHEST_PORT)
        self.port.setGroupSeparatorShown(False)
        self.address, self.key = CopyField("Address"), CopyField("Key", secret=True)
        self.agents = AgentCommands()
        self.model, self.activity = wrapped(), wrapped()
        self._switch_field = Field(TITLE, self.switch, ABOUT)
        self._lay_out()
        self.switch.clicked.connect(self.switched)
        self.port.valueChanged.connect(self.port_chosen)
        self.resize(540, 460)

    def show_state(self, on: bool, port: int, state: ApiState) -> None:
        """Shows what the user chose, and what came of it. on: whether programs should be served."""
        self.switch.setChecked(on)
        if self.port.value() != port:
            self.port.blockSignals(True)
            self.port.setValue(port)
            self.port.blockSignals(False)
        self._switch_field.set_error(state.error if on else "")
        self.address.show_value(state.address)
        self.key.show_value(state.key)
        self.agents.show_model(state.loaded, state.address, state.key)
        _tell(self.model, "Model", state.loaded.target if state.loaded is not None else NO_MODEL)
        _tell(self.activity, "Now", activity_of(state))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.close()
        else:
            super().keyPressEvent(event)

    def _lay_out(self) -> None:
        style(self, ground="page")
        inside = QWidget()
        lines = [
            row(_name("Model"), (self.model, 1), gap=GAP),
            row(_name("Now"), (self.activity, 1), gap=GAP),
        ]
        column(
            self._switch_field,
            Field("Port", self.port, PORT_HELP),
            Hairline(),
            self.address,
            column(self.key, wrapped(KEY_HELP, role="caption", tone="faint"), gap=6),
            self.agents,
            Hairline(),
            *lines,
            STRETCH,
            on=inside,
            margins=MARGINS,
            gap=12,
        )
        column((scroll_area(inside), 1), on=self)


def activity_of(state: ApiState) -> str:
    """Returns what is going on, as a sentence."""
    if state.phase == "off":
        return "Off. Requests are not accepted."
    if state.phase == "failed":
        return "Requests are not accepted."
    if state.phase == "starting":
        return "Starting. Requests are accepted once a model is loaded."
    serving = state.serving
    waiting = f"{count(serving.waiting, 'request')} {'is' if serving.waiting == 1 else 'are'} waiting."
    if serving.tokens is None:
        return waiting if serving.waiting else "No requests in progress."
    replies = "a reply" if serving.replies <= 1 else f"{serving.replies} replies"
    written = f"Writing {replies}, {count(serving.tokens, 'token')} so far."
    return f"{written} {waiting}" if serving.waiting else written


def _name(text: str) -> QLabel:
    made = label(text)
    keep_width(made, NAME_WIDTH)
    return made


def _tell(where: QLabel, name: str, text: str) -> None:
    """Shows a text, which assistive technology reads with its name."""
    where.setText(text)
    where.setAccessibleName(f"{name}: {text}")
