"""Earlier replies on disk: private, bounded, gone with their conversation, and no harm where they are damaged."""

import os
import stat
from pathlib import Path

import pytest

from app.inference.loaded_pair import DraftHistory
from app.reply_history import ReplyHistory, ReplyHistoryError
from engine.drafters.suffix_index import END, SuffixIndex
from engine.settings import SamplingSettings

VOCABULARY = "0123456789abcdef"


@pytest.fixture
def history(tmp_path: Path) -> ReplyHistory:
    return ReplyHistory(tmp_path / "draft-history")


def texts(history: ReplyHistory, vocabulary: str = VOCABULARY) -> dict[tuple[int, int], list[int]]:
    return {key: list(ids) for key, ids in history.read(vocabulary).items()}


def file_of(history: ReplyHistory, conversation: int) -> Path:
    return history.folder / VOCABULARY / f"{conversation}.tokens"


def test_a_reply_is_kept_by_conversation_and_message(history: ReplyHistory) -> None:
    history.add(VOCABULARY, 1, 10, [1, 2, 3])
    history.add(VOCABULARY, 1, 12, [4, 5])
    history.add(VOCABULARY, 2, 14, [6])
    history.add(VOCABULARY, 1, 10, [1, 2, 3, 7])  # was continued
    history.add("fedcba9876543210", 3, 16, [9])
    assert texts(history) == {(1, 10): [1, 2, 3, 7], (1, 12): [4, 5], (2, 14): [6]}
    assert texts(history, "fedcba9876543210") == {(3, 16): [9]}


def test_only_the_user_can_read_the_files(history: ReplyHistory) -> None:
    history.add(VOCABULARY, 1, 10, [1, 2, 3])
    assert stat.S_IMODE(file_of(history, 1).stat().st_mode) == 0o600
    assert stat.S_IMODE(history.folder.stat().st_mode) & 0o077 == 0


def test_what_a_conversation_taught_goes_with_it(history: ReplyHistory) -> None:
    for vocabulary in (VOCABULARY, "fedcba9876543210"):
        for conversation in (1, 2, 3):
            history.add(vocabulary, conversation, 10 + conversation, [conversation])
            Path(history.cache_file(conversation)).write_bytes(b"x")
    journal = Path(f"{history.cache_file(2)}-journal")  # SQLite's, after a kill
    journal.write_bytes(b"x")
    before = {path: path.read_bytes() for path in history.folder.rglob("2.*")}
    history.set_aside(2)
    history.set_aside(99)
    assert texts(history) == {(1, 11): [1], (3, 13): [3]} and not history.written_cache_file(2)
    history.bring_back(2)
    assert {path: path.read_bytes() for path in history.folder.rglob("2.*")} == before and len(before) == 4
    history.set_aside(2)
    history.purge()
    history.bring_back(2)
    assert not list(history.folder.rglob("2.*"))
    assert texts(history) == {(1, 11): [1], (3, 13): [3]}
    history.set_aside(1)
    history.keep({1, 3})
    assert not list(history.folder.rglob("1.*"))
    assert texts(history) == {(3, 13): [3]}
    history.clear()
    history.clear()
    assert not history.folder.exists()


def test_the_conversation_without_a_reply_for_the_longest_goes_first(tmp_path: Path) -> None:
    history = ReplyHistory(tmp_path, most_bytes=3 * (20 + 4 * 50))
    for age, conversation in enumerate((1, 2, 3)):
        history.add(VOCABULARY, conversation, conversation, [conversation] * 50)
        os.utime(file_of(history, conversation), (1000 + age, 1000 + age))
    history.add(VOCABULARY, 1, 1, [1] * 50)  # used again
    history.add(VOCABULARY, 4, 4, [4] * 50)
    assert set(texts(history)) == {(1, 1), (3, 3), (4, 4)}
    history.add(VOCABULARY, 5, 5, [5] * 500)  # larger than all that may be kept: the latest stays
    assert set(texts(history)) == {(5, 5)}


@pytest.mark.parametrize("damage", ["cut", "bit", "foreign", "empty", "negative"])
def test_a_damaged_file_is_ignored_and_written_anew(history: ReplyHistory, damage: str) -> None:
    history.add(VOCABULARY, 1, 10, [1, 2, 3])
    history.add(VOCABULARY, 1, 12, [-4, 5] if damage == "negative" else [4, 5])
    data = file_of(history, 1).read_bytes()
    damaged = {"cut": data[:-1], "bit": data[:-1] + bytes([data[-1] ^ 1]), "foreign": b"SQLite format 3\0" * 9}
    file_of(history, 1).write_bytes(damaged.get(damage, data if damage == "negative" else b""))
    assert texts(history) == ({} if damage in ("foreign", "empty") else {(1, 10): [1, 2, 3]})
    (history.folder / VOCABULARY / "notes.tokens").write_text("not ours")
    history.add(VOCABULARY, 1, 14, [6])
    assert texts(history)[1, 14] == [6]


def test_a_disk_that_refuses_costs_drafts_only_and_says_what_it_could_not_delete(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ReplyHistory(tmp_path / "file").add(VOCABULARY, 1, 10, [1])
    stuck = ReplyHistory(tmp_path / "folder")
    (stuck.folder / VOCABULARY / "1.tokens").mkdir(parents=True)  # unlink refuses a folder
    with pytest.raises(ReplyHistoryError, match=r"could not be deleted .* delete "):
        stuck.set_aside(1)
        stuck.purge()


def test_a_file_that_cannot_come_back_keeps_no_other_from_it(history: ReplyHistory) -> None:
    history.add(VOCABULARY, 1, 10, [1])
    cache = Path(history.cache_file(1))
    cache.write_text("")
    history.set_aside(1)
    (cache / "in its place").mkdir(parents=True)
    history.bring_back(1)
    assert texts(history) == {(1, 10): [1]}


# --- the index of it ---------------------------------------------------------------------------


def found(index: SuffixIndex) -> set[tuple[int, ...]]:
    texts = " ".join(map(str, index.tokens.tolist())).split(str(END))
    return {tuple(map(int, text.split())) for text in texts if text.strip()}


def test_the_index_follows_the_files(history: ReplyHistory) -> None:
    drafts = DraftHistory(VOCABULARY, 100)
    assert drafts.index(history.folder).length == 0
    history.add(VOCABULARY, 1, 10, [1, 2, 3])
    first = drafts.index(history.folder)
    assert found(first) == {(1, 2, 3)}
    history.add(VOCABULARY, 2, 12, [4, 5])
    assert drafts.index(history.folder) is first and found(first) == {(1, 2, 3), (4, 5)}
    history.set_aside(1)
    assert found(drafts.index(history.folder)) == {(4, 5)}
    history.add(VOCABULARY, 2, 12, [4, 5, 6])
    assert found(drafts.index(history.folder)) == {(4, 5, 6)}


def test_tokens_that_the_target_does_not_have_are_never_drafted(history: ReplyHistory) -> None:
    history.add(VOCABULARY, 1, 10, [1, 2, 100])
    history.add(VOCABULARY, 1, 12, [1, 2, 99])
    assert found(DraftHistory(VOCABULARY, 100).index(history.folder)) == {(1, 2, 99)}


def test_a_reply_is_drafted_from_earlier_ones_only_where_its_noise_is_its_own() -> None:
    hot = SamplingSettings(temperature=1.0, seed=3)
    assert hot.repeats_rounds
    assert not SamplingSettings(temperature=1.0, seed=3, fresh=True).repeats_rounds
    assert not SamplingSettings(temperature=1.0, seed=3, acceptance="coupled").repeats_rounds
    assert not SamplingSettings().repeats_rounds
