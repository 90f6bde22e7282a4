"""How a reply ends: shown, saved and reported in turns of the event loop of their own."""

import shutil
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest

from app.store import Store
from app.store.records import MessageRecord
from app.window.chat import reply_controller
from tests.app.window.chat.scene import Scene
from tests.app.window.waiting import until


def as_after_a_kill(folder: Path) -> MessageRecord:
    """Returns the reply as the next start finds it, if the program is killed now."""
    copy = folder / "copy"
    copy.mkdir()
    for file in folder.glob("conversations.sqlite*"):
        shutil.copy(file, copy)
    store = Store.open(copy / "conversations.sqlite").store
    try:
        return store.path(store.conversations()[0].id)[-1]
    finally:
        store.close()


@pytest.mark.parametrize("long", [reply_controller.LONG, 1], ids=["short", "long"])
def test_a_reply_ends_in_turns_and_is_whole_if_the_program_is_killed_between_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long: int
) -> None:
    turns: list[Callable[[], object]] = []
    monkeypatch.setattr(reply_controller, "LONG", long)
    monkeypatch.setattr(reply_controller, "call_later", lambda owner, call, after_ms=0: turns.append(call))
    with Scene(tmp_path, rounds=4) as scene:
        scene.controller.send("hi")
        until(lambda: turns)
        until(lambda: scene.tokens(scene.began[0].id))
        current = scene.controller.replies.running[0]
        assert current.ending is not None and not scene.ended and scene.controller.busy
        killed = as_after_a_kill(tmp_path)
        turns.pop()()
        if not scene.ended:  # a thread saves it
            assert current.saving is not None
            until(current.saving.done)
            turns.pop()()
        (ended,) = scene.ended
        assert (killed.text, killed.state) == (ended.text, "cut") and ended.state == "complete"
        assert ended.text and not scene.controller.busy and (current.saving is not None) == (long == 1)


def test_what_ends_a_reply_at_once_waits_for_the_thread_that_saves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[Callable[[], object]] = []
    monkeypatch.setattr(reply_controller, "LONG", 1)
    monkeypatch.setattr(reply_controller, "call_later", lambda owner, call, after_ms=0: turns.append(call))
    with Scene(tmp_path, rounds=4) as scene:
        scene.controller.send("hi")
        until(lambda: turns)
        monkeypatch.setattr(Future, "done", lambda _: False)  # however quick the disk is
        turns.pop()()
        assert not scene.ended
        scene.controller.replies.finish("Redline quit while writing this reply.")
        (ended,) = scene.ended
        assert ended.state == "complete" and not ended.note
        assert scene.controller.library.store.message(ended.id) == ended
