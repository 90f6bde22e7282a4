"""What does not fit is refused before it is loaded, and a context is no longer than what fits."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from app.inference import memory_check, pair_loader
from app.inference.conversation import open_conversation
from app.inference.memory_check import check_memory, context_note
from app.inference.options import Options
from engine.errors import ModelError, UnsupportedCache, UsageError
from engine.settings import SamplingSettings
from models.drafters.pair_footprint import pair_footprint
from models.memory.memory_verdict import AvailableMemory, MemoryVerdict
from models.model_folder import ModelFolder, check_folder
from tests.app.command import Redline


@pytest.fixture(scope="module")
def folder(builtin: Path) -> ModelFolder:
    return check_folder(builtin)


@pytest.fixture(scope="module")
def builtin() -> Path:
    return pair_loader.target_folder(Options())  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def large_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_check, "this_room", lambda: AvailableMemory(64 << 30))


RoomFor = Callable[[ModelFolder, int], None]


@pytest.fixture
def room_for(monkeypatch: pytest.MonkeyPatch) -> RoomFor:
    """Makes a machine that has just enough for a target with this context."""

    def limit(folder: ModelFolder, context: int) -> None:
        needed = pair_footprint(folder, ())(context).total
        monkeypatch.setattr(memory_check, "this_room", lambda: AvailableMemory(int(needed / 0.9) + 1))

    return limit


def fitted(folder: ModelFolder, options: Options) -> tuple[MemoryVerdict, str]:
    """How a pair fits, and what the user is told of its context."""
    verdict = check_memory(folder, options)
    return verdict, context_note(folder, options, verdict)


def test_here_the_built_in_has_all_it_was_made_for(folder: ModelFolder) -> None:
    found, note = fitted(folder, Options())
    assert (found.context, note, found.level) == (folder.context_length, "", "good")


def test_a_context_that_nobody_asked_for_is_cut_to_what_fits_with_ease(folder: ModelFolder, room_for: RoomFor) -> None:
    room_for(folder, 8192)
    found, note = fitted(folder, Options(drafters=("none",)))
    assert 2048 < found.context < 8192 and found.level == "good"
    assert note.startswith(f"the context is limited to {found.context:,} of the model's 8,192 tokens")
    room_for(folder, 1024)
    found, note = fitted(folder, Options(drafters=("none",)))
    assert found.context == 1024 and found.level == "tight" and "1,024" in note


def test_a_context_that_was_asked_for_is_given_or_refused(folder: ModelFolder, room_for: RoomFor) -> None:
    room_for(folder, 4096)
    assert check_memory(folder, Options(drafters=("none",), context=4096)).context == 4096
    with pytest.raises(
        ModelError, match=r"does not fit: needs .* GB for a context of 8,192 tokens.*; a context of 4,096 tokens fits"
    ):
        check_memory(folder, Options(drafters=("none",), context=8192))
    assert check_memory(folder, Options(drafters=("none",), context=8192, kv_bits=8)).context == 8192
    with pytest.raises(UsageError, match="made for at most 8192"):
        check_memory(folder, Options(context=9000))


def test_heads_too_narrow_for_fewer_bits_are_refused_with_the_reason(toy_folder: Path) -> None:
    with pytest.raises(UnsupportedCache, match=r"8-bit keys and values .*leave out --kv-bits"):
        check_memory(check_folder(toy_folder), Options(target=str(toy_folder), drafters=("none",), kv_bits=8))


def test_what_drafts_is_counted_and_what_cannot_be_opened_is_not(
    folder: ModelFolder, builtin: Path, room_for: RoomFor
) -> None:
    room_for(folder, 4096)
    with pytest.raises(ModelError, match="it fits without its drafter, or with prompt lookup"):
        check_memory(folder, Options(drafters=("lookup", str(builtin)), context=4096))
    assert check_memory(folder, Options(drafters=("lookup", "/nowhere"), context=4096)).context == 4096


def test_nothing_is_loaded_of_what_does_not_fit(toy_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_check, "this_room", lambda: AvailableMemory(1))
    monkeypatch.setattr(pair_loader, "load", lambda *_: pytest.fail("it was loaded"))
    with pytest.raises(ModelError, match="does not fit"):
        pair_loader.open_target(Options(target=str(toy_folder)))


def test_a_conversation_says_that_its_context_was_cut(toy_folder: Path, tmp_path: Path, room_for: RoomFor) -> None:
    long = Path(shutil.copytree(toy_folder, tmp_path / "long"))
    config = (long / "config.json").read_text()
    (long / "config.json").write_text(
        config.replace('"max_position_embeddings": 512', '"max_position_embeddings": 900000')
    )
    room_for(check_folder(long), 300_000)
    conversation = open_conversation(Options(target=str(long), drafters=("none",)), "", lambda _: None)
    assert conversation.pair.session.context < 300_000
    context = conversation.pair.session.context
    assert f"the context is limited to {context:,} of the model's 900,000" in conversation.describe()


@pytest.mark.slow
def test_fewer_bits_keep_speculation_exact(builtin: Path) -> None:
    texts = []
    for drafter in ("none", "lookup"):
        sampling = SamplingSettings(max_tokens=10, draft_length=3)
        options = Options(drafters=(drafter,), sampling=sampling, kv_bits=8)
        conversation = open_conversation(options, "", lambda _: None)
        list(conversation.ask("Say one two three, one two three.", lambda: False))
        texts.append(conversation.messages[-1]["content"])
    assert texts[0] == texts[1] != ""


# --- redline models fits --------------------------------------------------------------------------


def test_the_command_says_what_is_taken_at_each_context(folder: ModelFolder, models: Redline) -> None:
    found, taken = models("fits", "--drafter", "none", "--json").json, pair_footprint(folder)
    assert (found["drafter"], found["wanted"], found["context"], found["level"]) == ("none", 8192, 8192, "good")
    assert found["contexts"] == [
        {"context": context, "needed_bytes": taken(context).total, "level": "good"} for context in (512, 2048, 8192)
    ]
    assert found["needed_bytes"] == taken(8192).total and found["weights_bytes"] == taken(1).weights


def test_the_command_counts_the_drafter_that_auto_takes(models: Redline) -> None:
    more = ([], ["--drafter", "lookup+eagle3"], ["--drafter", "none"], ["--context", "512"])
    auto, both, alone, short = (models("fits", *words, "--json").json["needed_bytes"] for words in more)
    assert auto == both > alone > short


def test_the_command_refuses_with_what_would_fit(
    folder: ModelFolder, monkeypatch: pytest.MonkeyPatch, room_for: RoomFor, models: Redline
) -> None:
    room_for(folder, 4096)
    monkeypatch.setenv("COLUMNS", "200")
    done = models("fits", "--drafter", "none", "--context", "8192")
    assert done.code == 1 and "it fits with 8-bit keys and values (--kv-bits 8)" in done.out
    assert "a context of 4,096 tokens fits" in done.out
    assert [line.split()[-1] for line in done.out.splitlines()[-3:]] == ["good", "tight", "refused"]
    done = models("fits", "--drafter", "none")
    assert done.code == 0 and "made for 8,192 tokens; chats use" in done.out
