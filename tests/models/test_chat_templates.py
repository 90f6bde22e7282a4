"""Conversations of models without a template, or with a program of mlx-lm's in its place."""

import json
from pathlib import Path

import pytest

from engine.errors import ModelError
from engine.kept_conversations import common_prefix
from models.model_folder import check_folder
from models.tokenizer import NO_TEMPLATE, FolderTokenizer
from tests.models.test_loader import change
from tests.toys.reply_formats import FAMILIES, write_tokenizer
from tests.toys.tool_families import FAMILIES as TOOL_FAMILIES

USER, SYSTEM = {"role": "user", "content": "why"}, {"role": "system", "content": "be brief"}
TOOLS = [{"type": "function", "function": {"name": "look", "description": "", "parameters": {"type": "object"}}}]


def text(tokenizer: FolderTokenizer, *messages: dict[str, object], **more: object) -> str:
    return tokenizer._fast.decode(tokenizer.chat(messages, **more), skip_special_tokens=False)  # type: ignore[arg-type]


def test_a_program_of_mlx_lm_writes_the_conversation_where_the_folder_names_it(folder: Path) -> None:
    change(folder, "tokenizer_config.json", "chat_template_type", "deepseek_v32")
    tokenizer = FolderTokenizer(folder)
    call = {"id": "a", "name": "look", "arguments": '{"at": "x"}'}
    asked = {"role": "assistant", "content": "I look", "thought": "hm", "calls": [call]}
    told = text(tokenizer, USER, asked, {"role": "tool", "content": "res", "call_id": "a"}, tools=TOOLS)
    for part in ('"name": "look"', "<think>hm</think>I look", 'name="at" string="true">x<', "<result>res</result>"):
        assert part in told
    assert tokenizer.switches.thinking == "enable_thinking" and tokenizer.note == ""
    assert text(tokenizer, USER, thinking=False).endswith("</think>")


def test_a_model_without_a_template_says_so(folder: Path) -> None:
    about = json.loads((folder / "tokenizer_config.json").read_text())
    about.pop("chat_template", None)
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    tokenizer = FolderTokenizer(folder)
    assert tokenizer.note == NO_TEMPLATE and text(tokenizer, SYSTEM, USER).endswith("be brief\n\nwhy")


def test_an_error_of_a_template_says_what_to_do_and_blames_no_download(folder: Path) -> None:
    refusal = "{{ raise_exception('no such word') if 'word' in messages[-1].content }}{{ messages[-1].content }}"
    change(folder, "tokenizer_config.json", "chat_template", refusal)
    with pytest.raises(ModelError, match=r"no such word.*change or delete the message") as error:
        FolderTokenizer(folder).chat([{"role": "user", "content": "a word"}])
    assert "download" not in str(error.value)
    change(folder, "tokenizer_config.json", "chat_template", "{{ raise_exception('never') }}")
    with pytest.raises(ModelError, match=r"never.*fails for every conversation"):
        FolderTokenizer(folder).chat([USER])


def test_an_answer_that_tells_of_control_text_does_not_end_the_conversation(tmp_path: Path) -> None:
    family = next(one for one in FAMILIES if one.name == "gpt-oss")
    tokenizer = FolderTokenizer(write_tokenizer(tmp_path / "model", family))
    answer = {"role": "assistant", "content": "it writes <|channel|>analysis<|message|> then"}
    assert "it writes < |channel|>analysis< |message|> then" in text(tokenizer, USER, answer, USER)


def test_ends_are_those_of_mlx_lm_where_no_file_names_any(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text()) | {"model_type": "muse_spark", "eos_token_id": None}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").unlink(missing_ok=True)
    assert check_folder(folder).eos_token_ids == (200001, 200008)


@pytest.mark.parametrize("family", [*FAMILIES, *(one.model for one in TOOL_FAMILIES)], ids=lambda family: family.name)
def test_the_next_prompt_begins_with_what_is_said_to_stay(tmp_path: Path, family: object) -> None:
    tokenizer = FolderTokenizer(write_tokenizer(tmp_path / "model", family, 600))  # type: ignore[arg-type]
    before = [USER, {"role": "assistant", "content": "because"}, {"role": "user", "content": "and then " * 20}]
    for thinking in (True, False):
        now = tokenizer.chat(before, thinking=thinking)
        stable = min(tokenizer.stable_prompt_lengths(before, thinking=thinking))
        for reply in ({"content": "A"}, {"content": "two", "thought": "hm"}, {"content": "<|x|>"}):
            later = tokenizer.chat([*before, {"role": "assistant", **reply}, USER], thinking=thinking)
            shared = common_prefix(now, later)
            assert 0.9 * shared <= stable <= shared
            assert 0.9 * shared <= len(now) - tokenizer.withdrawn_tokens(thinking=thinking) <= shared
