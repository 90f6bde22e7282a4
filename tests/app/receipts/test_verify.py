"""`redline verify`: exports of toy models, sound, forged and unreadable; what is told and saved, and how it stops."""

import json
import shutil
import stat
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.protocol import Pair
from app.receipts import checker
from app.store import Store
from tests.app.command import Redline
from tests.app.receipts.exports import LENGTH, change, forge
from tests.toys.folders import make_folder


@pytest.fixture
def verify(redline: Redline) -> Redline:
    """Runs `redline verify` with these words."""
    return partial(redline, "verify")


def test_every_reply_is_checked_from_the_file(chat: Path, verify: Redline) -> None:
    code, out, _ = verify(chat)
    assert code == 1  # the one that failed cannot be checked
    rows = [line.split() for line in out.splitlines()[1:5]]
    assert [row[0] for row in rows] == ["2", "4", "6", "7"]
    assert out.count(f"identical over {LENGTH} tokens") == 2
    assert f"{LENGTH} tokens, all possible for the target" in " ".join(out.split())
    assert "message 7 is not checked: its tokens are not in the file" in out
    assert "architecture llama: logits within " in out and "of transformers 5.24.0" in out
    assert "4 replies, 36 tokens: 2 identical, 1 possible for the target, 0 near-ties, 0 failures, 1 not checked" in out


def test_one_message_alone_is_checked_and_the_file_stays(chat: Path, export: Path, verify: Redline) -> None:
    code, out, _ = verify(chat, "--message", 4)
    assert code == 0 and out.splitlines()[1].split()[0] == "4"
    assert chat.read_bytes() == export.read_bytes()
    assert "1 reply, 12 tokens" in out


def test_a_forged_token_is_a_failure_and_the_exit_code_says_so(chat: Path, verify: Redline) -> None:
    forge(chat)
    code, out, _ = verify(chat, "--message", 2)
    assert code == 1 and "failure" in out and "token 5" in " ".join(out.split())
    code, out, _ = verify(chat, "--message", 2, "--json")
    told = json.loads(out)
    (reply,) = told["replies"]
    assert code == 1 and reply["verdict"] == "failure"
    first = reply["differences"][0]
    assert first["position"] == 5 and not first["near_tie"] and first["plain_text"] and first["gap_ulps"] > 0
    assert told["totals"]["failures"] == 1 and told["totals"]["differences"] == len(reply["differences"])


@pytest.mark.usefixtures("not_installed")
def test_redline_that_is_not_installed_verifies_and_saves(chat: Path, verify: Redline) -> None:
    code, out, _ = verify(chat, "--message", 2, "--json", "--write")
    assert code == 0 and json.loads(out)["redline"] == "unknown"
    assert json.loads(chat.read_text())["messages"][1]["receipt"]["redline"] == "unknown"


def test_several_files_are_one_document(chat: Path, tmp_path: Path, verify: Redline) -> None:
    other = tmp_path / "other.json"
    other.write_bytes(chat.read_bytes())
    forge(other)
    code, out, _ = verify(chat, other, "--json")
    told = json.loads(out)
    assert code == 1 and [(r["file"], r["message"]) for r in told["replies"]] == [
        (name, number) for name in ("chat.json", "other.json") for number in (2, 4, 6, 7)
    ]
    assert [r["verdict"] for r in told["replies"]] == [
        *("identical", "identical", "possible", None),
        *("failure", "identical", "possible", None),
    ]
    assert told["totals"]["unchecked"] == 2 and not told["interrupted"] and told["environment"]["mlx"]


def test_receipts_are_kept_in_the_file_and_nothing_else_changes(chat: Path, tmp_path: Path, verify: Redline) -> None:
    change(chat, colour="red")
    chat.chmod(0o640)
    link = tmp_path / "link.json"
    link.symlink_to(chat)
    before = json.loads(chat.read_text())
    assert verify(link, "--write", "--message", 2)[0] == 0
    after = json.loads(chat.read_text())
    kept = after["messages"][1].pop("receipt")
    bits = {"same_bits": None, "identical_width": 1}
    assert kept["receipt"] == {"tokens": LENGTH, "differences": [], "promise": "tokens", **bits}
    assert kept["redline"] and kept["reference"].startswith("llama: logits within ")
    before["messages"][1].pop("receipt")
    assert after == before
    assert link.is_symlink() and stat.S_IMODE(chat.stat().st_mode) == 0o640
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []
    store = Store.open(tmp_path / "new" / "conversations.sqlite").store
    record = store.path(store.import_json(chat.read_text()).id)[1]
    assert record.receipt is not None and record.receipt.elsewhere and record.receipt.receipt.identical
    store.close()


def test_a_disk_that_fails_leaves_the_file_whole(
    chat: Path, tmp_path: Path, verify: Redline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes) -> None:
        path.write_bytes(content[:100])
        raise OSError(28, "No space left on device")

    before = chat.read_bytes()
    monkeypatch.setattr("models.durable_files.write_file", full)
    code, _, said = verify(chat, "--message", 2, "--write")
    assert code == 1 and "No space left on device" in said
    assert chat.read_bytes() == before and list(tmp_path.iterdir()) == [chat]


def test_a_target_is_loaded_once_for_replies_that_stand_together(
    chat: Path, verify: Redline, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Pair] = []
    open_target = checker.open_target  # type: ignore[attr-defined]
    monkeypatch.setattr(checker, "open_target", lambda pair: opened.append(pair) or open_target(pair))
    verify(chat)
    assert len(opened) == 1 and opened[0].drafter == "none"


@pytest.mark.parametrize("after", [0, 1, 4])
def test_a_stop_keeps_what_is_known(chat: Path, verify: Redline, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Ctrl-C after so many steps."""
    steps = 0

    def asked() -> bool:
        return steps > after

    class Pressed:
        def __enter__(self) -> Any:
            return asked

        def __exit__(self, *_: object) -> None:
            return None

    def results_of(cases: Any, target: Any, step: Any, stopped: Any) -> Any:
        def counted(done: int, name: str) -> None:
            nonlocal steps
            steps += 1
            step(done, name)

        return checking_results(cases, target, counted, stopped)

    checking_results = checker.results_of
    monkeypatch.setattr("app.cli.verify.ctrl_c", Pressed)
    monkeypatch.setattr(checker, "results_of", results_of)
    code, out, _ = verify(chat, "--json")
    told = json.loads(out)
    assert code == 130 and told["interrupted"]
    assert len(told["replies"]) == (1 if after == 4 else 0)
    assert all(reply["verdict"] == "identical" for reply in told["replies"])


@pytest.mark.parametrize(("note", "said"), [("", "1 failure"), ("The context is full.", "0 failures")])
def test_a_reply_that_the_context_ended_need_not_end_here(chat: Path, verify: Redline, note: str, said: str) -> None:
    """The last of its rounds is not there; the sampling settings would have allowed more."""
    document = json.loads(chat.read_text())
    document["messages"][1]["rounds"].pop()
    chat.write_text(json.dumps(document))
    change(chat, note=note)
    assert said in verify(chat, "--message", 2)[1]


def test_progress_counts_the_tokens_of_all(chat: Path, verify: Redline, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that stands still."""
    monkeypatch.setattr("app.cli.terminal.progress.LINE_EVERY_S", 0.0)
    monkeypatch.setattr("app.cli.terminal.progress.time", SimpleNamespace(monotonic=lambda: 100.0))
    _, _, said = verify(chat)
    assert "redline: 0/36 tokens · message 2\n" in said
    assert "redline: 12/36 tokens, 0 min left · message 4\n" in said


def test_a_file_that_changed_meanwhile_is_left_as_it_is_and_others_take_their_receipts(
    chat: Path, tmp_path: Path, verify: Redline, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.json"
    other.write_bytes(chat.read_bytes())
    results_of = checker.results_of

    def edited(*given: Any) -> Any:
        yield from results_of(*given)
        change(chat, note="edited")

    monkeypatch.setattr(checker, "results_of", edited)
    code, out, said = verify(chat, other, "--write")
    assert code == 1 and "chat" in said and "has changed while it was verified" in said
    assert "identical over" in out
    assert json.loads(chat.read_text())["messages"][1]["note"] == "edited"
    assert json.loads(other.read_text())["messages"][1]["receipt"]["receipt"]["tokens"] == LENGTH


# --- `redline verify` where nothing can be said: a model or a prompt that is another by now, and files that are none


def test_a_model_that_is_not_here_is_said_and_can_be_named(chat: Path, toy_folder: Path, verify: Redline) -> None:
    document = json.loads(chat.read_text())
    for message in document["messages"]:
        if message["pair"]:
            message["pair"]["target"] = "/elsewhere/toy"
    chat.write_text(json.dumps(document))
    code, out, _ = verify(chat)
    assert code == 1 and out.count("the model of this reply, /elsewhere/toy, cannot be loaded here") == 3
    assert "name its folder with --target" in out and "identical over" not in out
    assert verify(chat, "--message", 4, "--target", toy_folder)[0] == 0


def test_weights_that_have_changed_are_not_called_a_failure_of_the_reply(
    chat: Path, toy_folder: Path, tmp_path: Path, verify: Redline
) -> None:
    """Of the same shape under the same name, as a model that was trained on, or quantized anew."""
    changed = make_folder(tmp_path / toy_folder.name, seed=2)
    code, out, _ = verify(chat, "--target", changed)
    assert code == 1 and out.count(f"the weights in {changed.name} are not the ones that wrote this reply") == 3
    assert "0 failures, 4 not checked" in out and "identical over" not in out
    copy = shutil.copytree(toy_folder, tmp_path / "elsewhere")
    assert verify(chat, "--target", copy, "--message", 2)[0] == 0


def test_a_prompt_that_reads_otherwise_is_not_called_a_failure(chat: Path, verify: Redline) -> None:
    """The conversation's system prompt has changed; a reply from before it was kept does not know its own."""
    change(chat, system=None)
    code, out, _ = verify(chat, "--message", 2)
    assert code == 1 and "the prompt of this reply has changed" in out and "0 failures, 1 not checked" in out


def test_a_reply_without_sampling_settings_cannot_be_verified(chat: Path, verify: Redline) -> None:
    change(chat, sampling=None)
    code, out, _ = verify(chat, "--message", 2)
    assert code == 1 and "its sampling settings are not in the file" in out


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["nowhere.json"], "nowhere.json cannot be read (No such file or directory)", 2),
        (["FOLDER"], "cannot be read (Is a directory)", 2),
        (["BYTES"], "is not text", 2),
        (["TEXT"], "this is not a conversation exported by Redline", 1),
        (["CHAT", "--message", "1"], "its message 1 is not a reply", 2),
        (["CHAT", "--message", "99"], "its message 99 is not a reply", 2),
        (["CHAT", "CHAT", "--message", "2"], "--message needs a single file, but 2 were given", 2),
        ([], "EXPORT.json", 2),
    ],
)
def test_nonsense_is_refused_in_a_line(
    chat: Path, tmp_path: Path, verify: Redline, words: list[str], said: str, code: int
) -> None:
    (tmp_path / "text").write_text("Dear diary")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    places = {"CHAT": chat, "FOLDER": tmp_path, "BYTES": tmp_path / "bytes", "TEXT": tmp_path / "text"}
    found, out, err = verify(*(places.get(word, word) for word in words))
    assert found == code and said in err and err.count("\n") == 1 and out == ""


def test_a_document_that_no_import_takes_is_not_verified(chat: Path, verify: Redline) -> None:
    change(chat, parent=7)
    code, _, said = verify(chat)
    assert code == 1 and "chat.json: this conversation cannot be imported: message 0 shows" in said
