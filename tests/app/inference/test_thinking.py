"""A model that thinks, in the terminal's conversation: its own settings, its thoughts, and switches that it lacks."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.cli.interactive_chat import markdown
from app.inference.conversation import Conversation, open_conversation
from app.inference.options import Options
from engine.errors import UsageError
from engine.events import Finished
from engine.settings import MODEL_DEFAULTS, SamplingSettings
from tests.app.command import Redline
from tests.app.recordings import RecordedSession, recorded_pair, round_
from tests.toys.reply_formats import FAMILIES, make_thinking_folder

QWEN35 = next(family for family in FAMILIES if family.name == "qwen3.5")
OWN = {"do_sample": True, "temperature": 0.8, "top_k": 30, "min_p": 7}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_thinking_folder(tmp_path_factory.mktemp("thinking") / "qwen", QWEN35, OWN)


def open_thinking(folder: Path, **values: Any) -> Conversation:
    sampling = SamplingSettings(from_model=MODEL_DEFAULTS, seed=1, **values)
    options = Options(target=str(folder), drafters=("none",), sampling=sampling)
    return open_conversation(options, "", lambda text: None)


def test_a_chat_takes_the_models_own_settings_and_says_so(folder: Path) -> None:
    conversation = open_thinking(folder)
    settings = conversation.options.sampling
    assert (settings.temperature, settings.top_k, settings.min_p) == (0.8, 30, 0.9999)
    assert "temperature 0.8 (model's default)" in conversation.describe()
    assert "min-p 7 was changed to 0.9999" in conversation.describe()


def test_a_thought_is_kept_beside_its_answer_and_saved_folded() -> None:
    said = replace(round_(0, ("hm", "", "blue"), 0, 0), channels=("thought", "markup", "answer"))
    session = RecordedSession((said, Finished("eos", 3, 1.0)))
    conversation = Conversation(Options(sampling=SamplingSettings(draft_length=4)), recorded_pair(session))
    list(conversation.ask("why", lambda: False))
    assert conversation.messages[-1] == {"role": "assistant", "content": "blue", "thought": "hm"}
    text = markdown(conversation)
    assert "<details><summary>Thought</summary>\n\n```\nhm\n```\n\n</details>\n\nblue" in text
    list(conversation.ask("and", lambda: False))
    assert session.asked[-1][1] == {"role": "assistant", "content": "blue", "thought": "hm"}


def test_a_switch_that_the_template_lacks_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="has no effort level 'high': leave out --effort"):
        open_thinking(folder, effort="high")
    open_thinking(folder, thinking=False)


def test_the_command_prints_the_answer_alone_and_says_where_the_thought_ended(
    folder: Path, redline: Redline, activities: list[str]
) -> None:
    options = ["--target", folder, "--drafter", "none", "--seed", "1", "--max-thought-tokens", "3"]
    shown = redline("chat", "--prompt", "why", *options)
    assert shown.code == 0 and activities == ["begins", "ends"]  # what keeps a Mac awake
    assert shown.out == "" and "cut off while thinking, at --max-thought-tokens" in shown.err
    assert "Thought for" in shown.err
