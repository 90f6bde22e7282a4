"""A controller that remembers what it was asked, with conversations in memory, and a plain transcript."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from msgspec.structs import replace
from PySide6.QtCore import QUrl, Signal
from PySide6.QtWidgets import QTextBrowser, QVBoxLayout, QWidget

from app.protocol import Loaded, Pair, Told
from app.records import Attachment, ChatSettings, ConversationRecord, Hit, MessageRecord
from app.window.controller import Speculating
from app.window.controller.signals import Signals
from app.window.look import Look
from engine.events import PromptProgress

DAY = 86_400.0


class FakeController(Signals):
    """asked: what was asked for, with its arguments, in order. taken: what send and edit answer."""

    def __init__(self, titles: Sequence[str] = ()) -> None:
        super().__init__()
        self.asked: list[tuple[object, ...]] = []
        self.values: dict[str, str] = {}
        self.kept: dict[str, ChatSettings] = {}
        self.taken, self.busy = True, False
        self.checked_now: int | None = None
        self.path: list[MessageRecord] = []
        self.rounds: dict[int, list[Told]] = {}
        self.loaded_pair: Loaded | None = None
        self.speculating = Speculating("loading", said="Starting the engine")
        self.hits: list[Hit] = []
        now = time.time()
        self.records = [conversation(n + 1, title, now - n * 0.4 * DAY) for n, title in enumerate(titles)]
        self._deleted: list[ConversationRecord] = []
        self.conversation = conversation(0, "", 0.0)

    # --- asked -----------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Callable[..., object]:
        """Whatever else it is asked for is only noted."""
        noted = (
            "stop",
            "regenerate",
            "resume",
            "verify",
            "select",
            "copy_report",
            "import_file",
            "draft_changed",
            "unload",
        )
        if name not in noted:
            raise AttributeError(name)
        return lambda *given: self.asked.append((name, *given))

    def send(self, text: str, attachments: Sequence[Attachment] = ()) -> bool:
        self.asked.append(("send", text, tuple(attachments)))
        return self.taken

    def edit(self, message: int, text: str) -> bool:
        self.asked.append(("edit", message, text))
        return self.taken

    def set_timed(self, timed: bool) -> None:
        self.timed = timed

    def set_unload_minutes(self, minutes: int) -> None:
        self.unload_minutes = minutes

    @property
    def in_use(self) -> bool:
        return self.busy

    def new(self) -> None:
        self._show(conversation(0, "", 0.0))

    def open(self, which: int) -> None:
        self._show(next(record for record in self.records if record.id == which))

    def rename(self, which: int, title: str) -> None:
        self._change(which, title=title)

    def pin(self, which: int, pinned: bool) -> None:
        self._change(which, pinned=pinned)

    def delete(self, which: int) -> None:
        self._deleted += [record for record in self.records if record.id == which]
        self.records = [record for record in self.records if record.id != which]
        if which == self.conversation.id:
            self.new()
        self.conversations_changed.emit()

    def undo_delete(self) -> None:
        self.asked.append(("undo_delete",))
        if self._deleted:
            self.records.append(self._deleted.pop())
            self.conversations_changed.emit()

    def conversations(self) -> list[ConversationRecord]:
        return list(self.records)

    def search(self, text: str) -> list[Hit]:
        self.asked.append(("search", text))
        return self.hits

    def told_of(self, message: int) -> list[Told]:
        return list(self.rounds.get(message, []))

    def change_settings(self, settings: ChatSettings) -> None:
        self.asked.append(("change_settings", settings))
        self.conversation = replace(self.conversation, settings=settings)
        self.settings_changed.emit(self.conversation)

    def presets(self) -> dict[str, ChatSettings]:
        return dict(self.kept)

    def save_preset(self, name: str) -> None:
        self.kept[name] = self.conversation.settings

    def delete_preset(self, name: str) -> None:
        del self.kept[name]

    def use_preset(self, name: str) -> None:
        self.change_settings(self.kept[name])

    def export_markdown(self, which: int) -> str:
        return f"# {which}\n"

    def export_json(self, which: int) -> str:
        return f'{{"id": {which}}}'

    def value(self, key: str) -> str | None:
        return self.values.get(key)

    def set_value(self, key: str, value: str) -> None:
        self.values[key] = value

    # --- happening -------------------------------------------------------------------------

    def load(self) -> None:
        """The built-in pair is there."""
        self.loaded_pair = Loaded(
            id=1,
            pair=Pair(),
            target="SmolLM2-135M-Instruct",
            drafter="eagle3",
            speculation="on",
            said="auto took eagle3, which is shipped for this model",
            branches=False,
            context=8192,
        )
        self.loaded.emit(self.loaded_pair)
        self.say(Speculating("on", "SmolLM2-135M-Instruct", "eagle3", self.loaded_pair.said))

    def say(self, state: Speculating) -> None:
        """The state of speculation."""
        self.speculating = state
        self.speculation_changed.emit(state)

    def show(self, path: list[MessageRecord]) -> None:
        """Another way."""
        self.path = path
        self.path_changed.emit(list(path))

    def be_busy(self, busy: bool) -> None:
        """A reply is being written."""
        self.busy = busy
        self.busy_changed.emit(busy)

    def asked_for(self, name: str) -> list[tuple[object, ...]]:
        """The arguments of everything of this name."""
        return [given[1:] for given in self.asked if given[0] == name]

    def _show(self, record: ConversationRecord) -> None:
        self.conversation = record
        self.opened.emit(record)
        self.show([])

    def _change(self, which: int, **values: object) -> None:
        self.records = [replace(r, **values) if r.id == which else r for r in self.records]
        if self.conversation.id == which:
            self.conversation = replace(self.conversation, **values)
        self.conversations_changed.emit()


class PlainTranscript(QWidget):
    """Shows texts one below the other. heard: what it was told."""

    regenerate, resume, select, race, verify = Signal(int), Signal(int), Signal(int), Signal(int), Signal(int)
    edit = Signal(int, str)
    token_hovered = Signal(object)
    link_asked = Signal(QUrl)

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[tuple[object, ...]] = []
        self.page = QTextBrowser(accessibleName="Conversation")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.page)

    def show_path(self, path: list[MessageRecord], told: Callable[[int], list[Told]]) -> None:
        self.heard.append(("show_path", path))
        self.page.setPlainText("\n\n".join(record.text for record in path))

    def progress(self, message: int, progress: PromptProgress) -> None:
        self.heard.append(("progress", message, progress))

    def tell(self, message: int, told: list[Told]) -> None:
        self.heard.append(("tell", message, told))

    def __getattr__(self, name: str) -> Callable[..., None]:
        noted = ("begin", "end", "reveal", "set_tints", "set_raw", "set_ghosts", "set_reduced_motion", "set_announced")
        if name not in (*noted, "set_checking", "set_checked", "set_uncheckable"):
            raise AttributeError(name)
        return lambda *given: self.heard.append((name, *given))

    def set_look(self, look: Look) -> None:
        self.page.setStyleSheet(
            f"QTextBrowser {{ background: {look.background}; color: {look.text}; border: none; padding: 16px;"
            f" font-size: {look.px(15)}px; }}"
        )


def conversation(id: int, title: str, updated_s: float, pinned: bool = False) -> ConversationRecord:
    return ConversationRecord(
        id=id, title=title, pinned=pinned, created_s=updated_s, updated_s=updated_s, settings=ChatSettings()
    )


def message(id: int, role: str, text: str, **values: object) -> MessageRecord:
    return MessageRecord(id=id, conversation=1, parent=id - 1 or None, role=role, text=text, **values)  # type: ignore[arg-type]
