"""A real controller on a store in a folder, with conversations to show. Its host starts when something needs it."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from PySide6.QtCore import QCoreApplication, QEvent

from app.protocol import Loaded, Pair
from app.store import Store
from app.store.records import ChatSettings, ConversationRecord, MessageRecord
from app.window.chat import Controller, SpeculationStatus
from app.window.chat.host_process import HostProcess
from app.window.main_window.main_window import MainWindow
from tests.app.window.chat.fake_host import command
from tests.app.window.waiting import QUICK

TITLES = ("Why the sky is blue", "Counting to thirty", "Bread", "Letters to the landlord")
DAY_S = 86_400.0


def make_controller(folder: Path, titles: Sequence[str] = (), **behaviour: Any) -> Controller:
    """Returns a controller with empty conversations, newest first, whose ids count from 1. behaviour: of its host."""
    store = Store.open(folder / "conversations.sqlite").store
    controller = Controller(store, HostProcess(command(**behaviour), QUICK))
    for place, title in enumerate(titles):
        add_conversation(controller, title, updated_s=time.time() - place * 0.4 * DAY_S)
    return controller


def add_conversation(controller: Controller, title: str, *texts: str, updated_s: float = 0.0, **last: Any) -> int:
    """Adds a conversation of questions and replies in turn and returns its id. last: values of its last message."""
    messages: list[dict[str, Any]] = []
    for place, text in enumerate(texts):
        parent, shown = place - 1 if place else None, place + 1 if place + 1 < len(texts) else None
        role = "assistant" if place % 2 else "user"
        messages.append({"role": role, "text": text, "parent": parent, "shown": shown})
    if messages:
        messages[-1] |= last
    document = {
        "format": "redline conversation",
        "version": 1,
        "title": title,
        "updated_s": updated_s,
        "shown": 0 if messages else None,
        "messages": messages,
    }
    record = controller.library.store.import_json(json.dumps(msgspec.to_builtins(document)))
    controller.library.changed.emit()
    return record.id


def open_chat(controller: Controller, *texts: str, **last: Any) -> list[MessageRecord]:
    """Adds a conversation, opens it, and returns its messages."""
    controller.open(add_conversation(controller, texts[0] if texts else "", *texts, updated_s=time.time(), **last))
    return controller.path


def show_loaded(controller: Controller) -> None:
    """Has the window show the built-in pair as loaded, without a host."""
    note = "auto took eagle3, which is shipped for this model"
    loaded = Loaded(
        id=1,
        pair=Pair(),
        target="SmolLM2-135M-Instruct",
        drafter="eagle3",
        speculation="on",
        note=note,
        drafts_trees=False,
        context=8192,
    )
    controller.host.pair_loaded.emit(loaded)
    controller.pair.status_changed.emit(SpeculationStatus("on", loaded.target, loaded.drafter, note))


def open_window(controller: Controller) -> MainWindow:
    """Returns the main window on screen, as wide as it first opens."""
    window = MainWindow(controller)
    window.show()
    window.activateWindow()
    QCoreApplication.processEvents()
    return window


def end(window: MainWindow) -> None:
    """Closes a window and has Qt delete all of it."""
    window.close()
    window.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    QCoreApplication.processEvents()


def conversation(id: int, title: str, updated_s: float, pinned: bool = False) -> ConversationRecord:
    """Returns a record that is in no store."""
    values = {"created_s": updated_s, "updated_s": updated_s, "settings": ChatSettings()}
    return ConversationRecord(id=id, title=title, pinned=pinned, **values)  # type: ignore[arg-type]
