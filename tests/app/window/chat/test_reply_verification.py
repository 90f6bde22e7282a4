"""Verifying a reply through the controller: requests to the host, what is emitted, and what stays on disk."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from app.protocol import Load, Pair, Verify
from app.store.records import ChatSettings
from engine.audit.receipt import Receipt
from tests.app.window.chat.scene import Scene, whole_path
from tests.app.window.waiting import until

TOKENS = 6  # of a reply of two rounds
ANOTHER = Pair(target="models/another", drafter="lookup")


def test_a_receipt_is_emitted_saved_and_there_at_the_next_start(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=2) as scene:
        record = scene.ask("Why?")
        scene.requests.clear()
        assert scene.controller.verify(record.id) and scene.controller.verification.message == record.id
        until(scene.verification_over)
        assert [text for _, text in scene.verifying] == [
            *("Verifying", "Reading the prompt"),
            *(f"Verifying, {done} of {TOKENS} tokens" for done in (0, 3, 6)),
            "",
        ]
        (verified,) = scene.verified
        assert verified.receipt is not None and verified.receipt.made_s > 1e9
        assert verified.receipt.receipt == Receipt(TOKENS)
        assert verified.receipt.reference == "llama: logits within 3e-06 of something"
        assert scene.controller.path[1] == verified and scene.controller.verification.message is None
        (request,) = scene.requested(Verify)
        assert [message.content for message in request.messages] == ["Why?"]
        assert request.sampling == record.sampling and request.complete
        assert [token for one in request.rounds for token in one.tokens] == list(range(TOKENS))
        assert scene.requested(Load) == []  # the pair that was there is good for it
    assert whole_path(tmp_path)[1] == verified


def test_a_verification_can_be_stopped_and_repeated(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=30, hold_at=("verify",)) as scene:
        record = scene.ask()
        scene.controller.verify(record.id)
        scene.go_on(2)
        until(lambda: len(scene.verifying) > 3)
        assert not scene.controller.verify(record.id)  # the same again lets it be
        until(scene.verification_over)
        assert scene.verified == [] == scene.not_verified and scene.controller.path[1].receipt is None
        assert scene.controller.verify(record.id)
        scene.go_on()
        until(lambda: scene.verified)
    assert whole_path(tmp_path)[1].receipt is not None


@pytest.mark.slow
def test_a_new_reply_ends_the_verification(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=30, hold_at=("verify",)) as scene:
        record = scene.ask()
        scene.controller.verify(record.id)
        scene.go_on(2)
        until(lambda: len(scene.verifying) > 3)
        assert scene.ask("And?").state == "complete"
        assert scene.verification_over() and scene.verified == [] and scene.controller.path[1].receipt is None
        assert not any(notice.level == "error" for notice in scene.notices)


def test_one_reply_is_verified_at_a_time_and_none_during_a_reply(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=30, hold_at=("verify",)) as scene:
        first, second = scene.ask(), scene.ask("And?")
        scene.controller.verify(first.id)
        assert not scene.controller.verify(second.id)
        scene.press("Another reply is being verified", "Stop Verifying")
        until(scene.verification_over)
        assert scene.controller.verification.message is None and scene.verified == []
        scene.controller.send("And now?")
        assert not scene.controller.verify(first.id) and scene.notice("A reply is being written") is not None


LARGE = Pair(target="models/large", drafter="lookup", hosts="hosts.json")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrote", "chosen_since", "loads"),
    [
        pytest.param(Pair(), ANOTHER, [Pair(drafter="none"), ANOTHER], id="another model"),
        pytest.param(LARGE, Pair(), [replace(LARGE, drafter="none"), Pair()], id="other machines"),
        pytest.param(
            Pair(),
            Pair(drafter="lookup", context=512),
            [Pair(drafter="lookup"), Pair(drafter="lookup", context=512)],
            id="another context, same target",
        ),
    ],
)
def test_the_model_of_the_reply_is_loaded_and_then_that_of_the_chat(
    tmp_path: Path, wrote: Pair, chosen_since: Pair, loads: list[Pair]
) -> None:
    """Verifying needs no drafter."""
    with Scene(tmp_path, rounds=2) as scene:
        scene.controller.change_settings(ChatSettings(pair=wrote))
        record = scene.ask()
        scene.controller.change_settings(ChatSettings(pair=chosen_since))
        until(lambda: scene.loaded_pair() == chosen_since)
        scene.requests.clear()
        scene.controller.verify(record.id)
        until(lambda: scene.verified)
        until(lambda: scene.loaded_pair() == chosen_since)
        assert [load.pair for load in scene.requested(Load)] == loads
        assert any("which wrote this reply" in text for _, text in scene.verifying)


@pytest.mark.slow
def test_a_model_that_cannot_be_loaded_is_reported_and_the_chat_continues(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=2, fail_load="none") as scene:
        record = scene.ask()
        scene.controller.change_settings(ChatSettings(pair=ANOTHER))
        until(lambda: scene.loaded_pair() == ANOTHER)
        scene.requests.clear()
        scene.controller.verify(record.id)
        until(lambda: scene.not_verified)
        assert "the model that wrote it could not be loaded (none does not fit)" in scene.not_verified[0][1]
        notice = scene.notice("The reply could not be verified")
        assert notice is not None and dict(notice.actions).keys() == {"Try Again"}
        assert [n.text for n in scene.notices if n.level == "error"] == []
        until(lambda: scene.loaded_pair() == ANOTHER)
        until(lambda: scene.controller.pair.status.state == "on")
        assert scene.ask("And?").state == "complete" and scene.verified == []


@pytest.mark.slow
def test_a_prompt_that_has_changed_is_reported_without_a_receipt(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=2, refuse_verify="the prompt of this reply has changed") as scene:
        record = scene.ask()
        scene.controller.verify(record.id)
        until(scene.verification_over)
        assert scene.not_verified == [(record.id, "the prompt of this reply has changed")] and scene.verified == []
        assert scene.notice("could not be verified: the prompt of this reply has changed.") is not None
    assert whole_path(tmp_path)[1].receipt is None


@pytest.mark.slow
def test_a_death_of_the_engine_ends_the_verification_only(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=2, kill_after=2) as scene:
        record = scene.ask()
        scene.controller.verify(record.id)
        until(scene.verification_over)
        assert scene.controller.verification.message is None and scene.notice("is restarting") is not None
    assert whole_path(tmp_path)[1].state == "complete"


@pytest.mark.slow
def test_a_reply_without_rounds_cannot_be_verified(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=2) as scene:
        record = scene.ask()
        document = scene.controller.library.store.export_json(record.conversation)
        start = document.index('"rounds":[{')
        taken = scene.controller.library.store.import_json(document[:start] + '"rounds":[]}]}')
        scene.controller.open(taken.id)
        reply = scene.controller.path[1]
        assert not scene.controller.verify(reply.id)
        assert (
            scene.not_verified[0][0] == reply.id
            and "there is no record of how it was generated" in scene.not_verified[0][1]
        )
        assert scene.requested(Verify) == []


@pytest.mark.slow
def test_the_system_prompt_of_the_reply_is_verified(tmp_path: Path) -> None:
    """Not the one that the conversation has now."""
    with Scene(tmp_path, rounds=2) as scene:
        scene.controller.change_settings(ChatSettings(system="Be brief."))
        record = scene.ask("Why?")
        scene.controller.change_settings(ChatSettings(system="Be long."))
        scene.controller.verify(record.id)
        until(lambda: scene.verified)
        (request,) = scene.requested(Verify)
        assert [message.content for message in request.messages] == ["Be brief.", "Why?"]


@pytest.mark.slow
def test_nothing_is_verified_loaded_or_unloaded_during_a_race(tmp_path: Path) -> None:
    """It would slow the race down. What the chat needs is loaded after the race."""
    with Scene(tmp_path, rounds=2) as scene:
        record, controller = scene.ask(), scene.controller
        controller.host.racing = True
        assert not controller.verify(record.id) and scene.notice("A race is running") is not None
        controller.pair.unload()
        controller.change_settings(ChatSettings(pair=ANOTHER))
        assert controller.host.loaded is not None
        controller.host.racing = False
        controller.host.race_ended.emit()
        until(lambda: scene.loaded_pair() == ANOTHER)
