"""What the models remember of a conversation, over a restart of the host: exact, and ignored where it is damaged."""

import json
import random
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest

from app import protocol as p
from app.host import model_worker
from app.host.model_worker import ModelWorker
from app.inference import kept_conversation_files, loaded_pair
from app.reply_history import ReplyHistory
from engine.cache.snapshot import arrays_in
from tests.app.host.process import asked, of_kind
from tests.app.host.replies import worker_with
from tests.toys.folders import as_architecture

QUESTION = asked("why is the sky blue? " * 8)
SAMPLING = p.SamplingSettings(max_tokens=6, draft_length=2)


@pytest.fixture(autouse=True)
def short_ones_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_worker, "WORTH_A_FILE", 64)


def reply(worker: ModelWorker, messages: tuple[p.Message, ...], cache: str = "") -> tuple[str, int]:
    """Returns the text, and how many tokens of the prompt were not read again."""
    answers = list(worker.reply(p.Reply(id=1, messages=messages, sampling=SAMPLING, cache=cache), Event()))
    text = "".join(text for one in of_kind(answers, p.RoundDone) for text in one.round.texts)
    return text, of_kind(answers, p.PrefillProgress)[0].progress.reused


def turns(text: str) -> tuple[p.Message, ...]:
    return (*QUESTION, *asked("", text, "and why is it so?")[1:])


def write_file(target: Path, drafter: Path | str, cache: str, wait: Callable[[float], bool] = lambda _: False) -> str:
    """Has a host write the file of a conversation; returns its reply."""
    worker = worker_with(target, drafter)
    text, _ = reply(worker, QUESTION, cache)
    worker.prepare(wait)
    return text


@pytest.mark.slow_for("False")
@pytest.mark.parametrize("with_drafter", [True, False])
def test_a_conversation_is_warm_after_a_restart_and_says_the_same(
    toy_folder: Path, toy_drafter_folder: Path, tmp_path: Path, with_drafter: bool
) -> None:
    cache = ReplyHistory(tmp_path).cache_file(7)
    drafter = toy_drafter_folder if with_drafter else "lookup"
    text = write_file(toy_folder, drafter, cache)
    assert Path(cache).stat().st_size > 1000 and Path(cache).stat().st_mode & 0o77 == 0
    again, reused = reply(worker_with(toy_folder, drafter), turns(text), cache)
    assert reused > 64
    cold = reply(worker_with(toy_folder, drafter), turns(text))
    assert (again, 0) == cold


def open_conversation(worker: ModelWorker, messages: tuple[p.Message, ...], cache: str) -> None:
    (answer,) = worker.count(p.Count(id=1, messages=messages, cache=cache), Event())
    assert isinstance(answer, p.Counted)


def test_a_conversation_that_was_opened_is_read_ahead(
    toy_folder: Path, toy_drafter_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = ReplyHistory(tmp_path).cache_file(7)
    text = write_file(toy_folder, toy_drafter_folder, cache)
    worker = worker_with(toy_folder, toy_drafter_folder)
    open_conversation(worker, turns(text), cache)
    worker.prepare(lambda _: False)
    monkeypatch.setattr(kept_conversation_files, "_read", None)  # the reply reads no file any more
    again, reused = reply(worker, turns(text), cache)
    assert reused > 64 and Path(cache).stat().st_size > 0
    assert (again, 0) == reply(worker_with(toy_folder, toy_drafter_folder), turns(text))


def test_a_request_ends_the_reading_ahead_and_leaves_the_file(toy_folder: Path, tmp_path: Path) -> None:
    cache = ReplyHistory(tmp_path).cache_file(7)
    text = write_file(toy_folder, "none", cache)
    whole, worker = Path(cache).read_bytes(), worker_with(toy_folder)
    open_conversation(worker, turns(text), cache)
    worker.prepare(lambda _: True)
    assert len(worker._pair.session.kept) == 0 and Path(cache).read_bytes() == whole
    again, reused = reply(worker, turns(text), cache)
    assert reused > 64 and again == reply(worker_with(toy_folder), turns(text))[0]


@pytest.mark.parametrize("damaged", [True, False])
def test_a_damaged_file_and_one_without_room_are_not_read_ahead(
    toy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: bool
) -> None:
    cache = ReplyHistory(tmp_path).cache_file(7)
    text, worker = write_file(toy_folder, "none", cache), worker_with(toy_folder)
    size = Path(cache).stat().st_size
    if damaged:
        Path(cache).write_bytes(Path(cache).read_bytes()[:-9])
    else:
        monkeypatch.setattr(loaded_pair, "kept_conversations_bytes", lambda *_: size - 1)
    open_conversation(worker, turns(text), cache)
    worker.prepare(lambda _: False)
    assert len(worker._pair.session.kept) == 0
    assert Path(cache).stat().st_size == (0 if damaged else size)


@pytest.mark.slow
def test_another_drafter_goes_on_from_the_file(toy_folder: Path, toy_drafter_folder: Path, tmp_path: Path) -> None:
    cache = ReplyHistory(tmp_path).cache_file(7)
    text = write_file(toy_folder, toy_drafter_folder, cache)
    again, reused = reply(worker_with(toy_folder, "lookup"), turns(text), cache)
    assert reused > 64 and again == reply(worker_with(toy_folder), turns(text))[0]


def test_a_file_of_other_weights_is_emptied_and_ignored(
    toy_folder: Path, toy_drafter_folder: Path, tmp_path: Path
) -> None:
    cache = ReplyHistory(tmp_path).cache_file(7)
    text = write_file(toy_folder, "none", cache)
    again, reused = reply(worker_with(toy_drafter_folder), turns(text), cache)
    assert reused == 0 and Path(cache).stat().st_size == 0
    assert again == reply(worker_with(toy_drafter_folder), turns(text))[0]


def test_damage_is_noticed_or_changes_nothing(toy_folder: Path, tmp_path: Path) -> None:
    """A digit that was flipped leaves JSON that can be read, and caches that would be of another length; other bits may
    be of nothing that is read."""
    cache = Path(ReplyHistory(tmp_path).cache_file(7))
    write_file(toy_folder, "none", str(cache))
    whole, pair, dice = cache.read_bytes(), worker_with(toy_folder)._pair, random.Random(3)
    pair.keep_conversations()
    kept = kept_conversation_files.load(cache, pair)
    assert kept is not None
    arrays = [bytes(memoryview(array)) for array in arrays_in(kept.target)]
    digit = re.compile(rb"(?<=[:\[ ])\d(?=[\d,}\]])")
    digits = [one.start() for one in digit.finditer(whole, whole.index(b'{"of"'))]
    with closing(sqlite3.connect(cache)) as file:
        (block,) = file.execute("SELECT data FROM block").fetchone()
    anywhere = [whole.index(block[:64]) + 9, *(dice.randrange(len(whole)) for _ in range(40))]
    for place in [*digits[::20], *anywhere]:
        data = bytearray(whole)
        data[place] ^= 1
        cache.write_bytes(data)
        found = kept_conversation_files.load(cache, pair)
        if found is None:
            assert cache.read_bytes() == b""
        else:
            assert place in anywhere[1:] and found.tokens == kept.tokens
            assert [bytes(memoryview(array)) for array in arrays_in(found.target)] == arrays


@pytest.mark.parametrize("kind", ["plain", "hybrid"])
def test_a_second_turn_writes_only_what_is_new(
    kind: str, toy_folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Rows of new tokens and at most a block before them; of a hybrid its states too, but for those of marked places.
    The log says how much."""
    target = toy_folder
    if kind == "hybrid":
        as_architecture(toy_folder, target := tmp_path / "hybrid", "qwen3_next", max_position_embeddings=2048)
    cache, worker = ReplyHistory(tmp_path).cache_file(7), worker_with(target)
    text, _ = reply(worker, QUESTION, cache)
    worker.prepare(lambda _: False)
    before = blocks_in(cache)
    reply(worker, turns(text), cache)
    worker.prepare(lambda _: False)
    after = blocks_in(cache)
    new = {digest for digest in after if digest not in before}
    text = content_of(cache)
    written = sum(after[digest] for digest in new) + len(text)
    assert capfd.readouterr().err.splitlines()[-1].startswith(f"{written:,} bytes written")
    arrays = json.loads(text)["arrays"]
    assert all(0 < len(new & {*one["blocks"]}) < len(one["blocks"]) for one in arrays if one["by_token"])
    wholes = [one["blocks"][0] in new for one in arrays if not one["by_token"]]
    assert set(wholes) == (set() if kind == "plain" else {True, False})


def content_of(cache: str) -> str:
    with closing(sqlite3.connect(cache)) as file:
        return str(file.execute("SELECT json FROM content").fetchone()[0])


def blocks_in(cache: str) -> dict[str, int]:
    with closing(sqlite3.connect(cache)) as file:
        return dict(file.execute("SELECT digest, length(data) FROM block"))


def test_a_request_ends_the_writing_and_leaves_the_file_as_it_was(toy_folder: Path, tmp_path: Path) -> None:
    cache, worker, text = Path(ReplyHistory(tmp_path).cache_file(7)), worker_with(toy_folder), ""
    for _ in range(2):
        before, waits = cache.read_bytes(), iter([False] * 4)
        text, _ = reply(worker, turns(text) if text else QUESTION, str(cache))
        worker.prepare(lambda _, waits=waits: next(waits, True))
        assert cache.read_bytes() == before and [path.name for path in cache.parent.iterdir()] == ["7.cache"]
        worker.prepare(lambda _: False)
        assert len(cache.read_bytes()) > max(1000, len(before))


def test_what_is_out_of_date_in_a_file_is_written_over(toy_folder: Path, tmp_path: Path) -> None:
    cache = Path(ReplyHistory(tmp_path).cache_file(7))
    worker, sizes = worker_with(toy_folder), []
    for number in range(6):
        reply(worker, asked(f"question {number}: " + f"why {number}? " * 60), str(cache))
        worker.prepare(lambda _: False)
        sizes.append(cache.stat().st_size)
    assert max(sizes) < 3 * sizes[0]


def test_a_conversation_that_memory_had_no_room_for_comes_from_its_file(
    toy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With too little memory the file stays as it is; it is read again once there is enough."""
    cache, other = (ReplyHistory(tmp_path).cache_file(number) for number in (7, 8))
    worker = worker_with(toy_folder)
    text, _ = reply(worker, QUESTION, cache)
    worker.prepare(lambda _: False)
    with monkeypatch.context() as patched:
        patched.setattr(loaded_pair, "kept_conversations_bytes", lambda *_: 0)
        reply(worker, asked("something else, which is not alike " * 4), other)
        assert len(worker._pair.session.kept) == 0
        assert reply(worker, QUESTION, cache)[1] < 64 and Path(cache).stat().st_size > 1000
        reply(worker, asked("something else, which is not alike " * 4), other)
    again, reused = reply(worker, turns(text), cache)
    assert reused > 64 and again == reply(worker_with(toy_folder), turns(text))[0]


def test_nothing_is_written_for_a_conversation_that_was_deleted(toy_folder: Path, tmp_path: Path) -> None:
    history = ReplyHistory(tmp_path)
    cache = history.cache_file(7)
    worker = worker_with(toy_folder)
    reply(worker, QUESTION, cache)
    history.set_aside(7)
    worker.prepare(lambda _: False)
    assert not list(tmp_path.rglob("*.cache"))


def test_of_long_use_no_more_than_so_many_conversations_are_noted(
    toy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_worker, "MOST_NOTED", 2)
    worker, files = worker_with(toy_folder), [ReplyHistory(tmp_path).cache_file(number) for number in range(4)]
    for number, file in enumerate((*files, files[2])):
        reply(worker, asked(f"question {number}"), file)
    assert [str(path) for path in worker._last_tokens] == [files[3], files[2]]


def test_all_files_together_are_bounded(toy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history, worker = ReplyHistory(tmp_path), worker_with(toy_folder)
    for number in range(4):
        reply(worker, asked(f"question {number}: " + "why? " * 60), history.cache_file(number))
        if number == 1:
            size = Path(history.cache_file(0)).stat().st_size
            monkeypatch.setattr(kept_conversation_files, "MOST_BYTES", int(2.5 * size))
        worker.prepare(lambda _: False)
    sizes = {path.stem: path.stat().st_size for path in Path(tmp_path).rglob("*.cache")}
    assert set(sizes) == {"2", "3"} and sum(sizes.values()) <= 2.5 * size


def test_files_of_deleted_conversations_count_and_journals_stay(
    toy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history, worker = ReplyHistory(tmp_path), worker_with(toy_folder)
    for number in (0, 1):
        reply(worker, asked(f"question {number}: " + "why? " * 60), history.cache_file(number))
        worker.prepare(lambda _: False)
        if number == 0:
            cache = Path(history.cache_file(0))
            monkeypatch.setattr(kept_conversation_files, "MOST_BYTES", int(1.5 * cache.stat().st_size))
            history.set_aside(0)
            journal = cache.with_name("9.cache-journal")
            journal.write_text("of a file that is being written")
    assert {path.name for path in cache.parent.iterdir()} == {"1.cache", "9.cache-journal"}
