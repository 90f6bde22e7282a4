"""`redline verify` where nothing can be said: a model or a prompt that is another by now, and files that are none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.app.exports import change, verify
from tests.toys.folders import make_folder


def test_a_model_that_is_not_here_is_said_and_can_be_named(
    chat: Path, toy_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(chat.read_text())
    for message in document["messages"]:
        if message["pair"]:
            message["pair"]["target"] = "/elsewhere/toy"
    chat.write_text(json.dumps(document))
    code, out, _ = verify(capsys, chat)
    assert code == 1 and out.count("the model of this reply, /elsewhere/toy, cannot be loaded here") == 3
    assert "name its folder with --target" in out and "identical over" not in out
    assert verify(capsys, chat, "--message", 4, "--target", toy_folder)[0] == 0


def test_weights_that_have_changed_are_not_called_a_failure_of_the_reply(
    chat: Path, toy_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the same shape under the same name, as a model that was trained on, or quantized anew."""
    changed = make_folder(tmp_path / toy_folder.name, seed=2)
    code, out, _ = verify(capsys, chat, "--target", changed)
    assert code == 1 and out.count(f"the weights in {changed.name} are not those that wrote this reply") == 3
    assert "0 failures, 4 not checked" in out and "identical over" not in out
    copy = shutil.copytree(toy_folder, tmp_path / "elsewhere")
    assert verify(capsys, chat, "--target", copy, "--message", 2)[0] == 0


def test_a_prompt_that_reads_otherwise_is_not_called_a_failure(chat: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The conversation's system prompt has changed; a reply from before it was kept does not know its own."""
    change(chat, system=None)
    code, out, _ = verify(capsys, chat, "--message", 2)
    assert code == 1 and "reads otherwise now" in out and "0 failures, 1 not checked" in out


def test_a_reply_without_sampling_settings_cannot_be_verified(chat: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(chat, law=None)
    code, out, _ = verify(capsys, chat, "--message", 2)
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
        (["CHAT", "CHAT", "--message", "2"], "--message needs a single file, and 2 are given", 2),
        ([], "EXPORT.json", 2),
    ],
)
def test_nonsense_is_refused_in_a_line(
    chat: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str, code: int
) -> None:
    (tmp_path / "text").write_text("Dear diary")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    places = {"CHAT": chat, "FOLDER": tmp_path, "BYTES": tmp_path / "bytes", "TEXT": tmp_path / "text"}
    found, out, err = verify(capsys, *(places.get(word, word) for word in words))
    assert found == code and said in err and err.count("\n") == 1 and out == ""


def test_a_document_that_no_import_takes_is_not_verified(chat: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(chat, parent=7)
    code, _, said = verify(capsys, chat)
    assert code == 1 and "chat.json: this conversation cannot be imported: message 0 shows" in said
