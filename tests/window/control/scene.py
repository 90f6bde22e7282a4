"""A controller with a store on disk and a fake host, and everything that it has told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from app.protocol import Told
from app.records import MessageRecord
from app.store import Store
from app.window.client import HostClient
from app.window.controller import Controller, Notice
from app.window.patience import Patience
from tests.window.control.fake_host import command
from tests.window.control.waiting import QUICK, until


class Scene:
    """`with Scene(folder, rounds=8) as scene`: other keywords are the fake host's manner; words: another host."""

    def __init__(
        self, folder: Path, patience: Patience = QUICK, store: Any = None, words: Sequence[str] = (), **manner: Any
    ) -> None:
        self.notices: list[Notice] = []
        self.ended: list[MessageRecord] = []
        self.began: list[MessageRecord] = []
        self.told: dict[int, list[Told]] = {}
        self.states: list[str] = []
        self.counts: list[tuple[int, int]] = []
        self.client = HostClient(words or command(**manner), patience)
        self.controller = Controller(store or Store.open(folder / "conversations.sqlite").store, self.client)
        self.controller.notice.connect(self.notices.append)
        self.controller.reply_ended.connect(self.ended.append)
        self.controller.reply_began.connect(self.began.append)
        self.controller.told.connect(lambda message, told: self.told.setdefault(message, []).extend(told))
        self.controller.speculation_changed.connect(lambda state: self.states.append(state.state))
        self.controller.counted.connect(lambda *count: self.counts.append(count))

    def __enter__(self) -> Scene:
        self.controller.open_last()
        self.controller.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.controller.close()

    def ready(self) -> None:
        """The pair is loaded."""
        until(lambda: self.controller.speculating.state not in ("loading", "host down"))

    def ask(self, text: str = "Hello?") -> MessageRecord:
        """Send, and wait for the end of the reply."""
        before = len(self.ended)
        assert self.controller.send(text)
        until(lambda: len(self.ended) > before)
        return self.ended[-1]

    def streaming(self, tokens: int = 6) -> int:
        """Wait until a reply has come so far; its id."""
        until(lambda: self.began and len(self.shown(self.began[-1].id)) >= tokens)
        return self.began[-1].id

    def shown(self, message: int) -> list[int]:
        """Tokens of a reply as they were told."""
        return [token for told in self.told.get(message, []) for token in told.round.tokens]

    def text(self, message: int) -> str:
        """The same as text."""
        return "".join(text for told in self.told.get(message, []) for text in told.round.texts)

    def said(self, part: str) -> Notice | None:
        """The notice that says so, if there was one."""
        return next((notice for notice in self.notices if part in notice.text), None)

    def act(self, part: str, label: str) -> None:
        """Press a button of that notice."""
        notice = self.said(part)
        assert notice is not None
        dict(notice.actions)[label]()


def reopened(folder: Path) -> Store:
    """The store as the next start finds it."""
    return Store.open(folder / "conversations.sqlite").store


def whole_path(folder: Path) -> list[MessageRecord]:
    """What the next start shows of the conversation used last."""
    store = reopened(folder)
    try:
        return store.path(store.conversations()[0].id)
    finally:
        store.close()
