"""Families of models that think, made small: the special tokens, the chat template and a reply of each.

Templates are written after the real ones, without tools and pictures: what matters here is how they open the reply,
what they do with earlier thoughts, and which switches they have.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

from tokenizers import AddedToken

from tests.toys.folders import VOCABULARY, make_folder, make_tokenizer

_QWEN3 = (
    "{%- set ns = namespace(last_query_index=messages|length - 1) %}"
    "{%- for message in messages %}{%- if message.role == 'user' %}{%- set ns.last_query_index = loop.index0 %}"
    "{%- endif %}{%- endfor %}"
    "{%- for message in messages %}{%- set content = message.content %}{%- set reasoning_content = '' %}"
    "{%- if message.reasoning_content is string %}{%- set reasoning_content = message.reasoning_content %}{%- endif %}"
    "{%- if message.role == 'assistant' and loop.index0 > ns.last_query_index %}"
    "{{- '<|im_start|>assistant\\n<think>\\n' + reasoning_content + '\\n</think>\\n\\n' + content.lstrip('\\n') }}"
    "{%- else %}{{- '<|im_start|>' + message.role + '\\n' + content }}{%- endif %}{{- '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}"
    "{%- endif %}"
)
# Keeps earlier thoughts, and opens the thought itself.
_QWEN35 = (
    "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' }}"
    "{%- if message.role == 'assistant' %}"
    "{{- '<think>\\n' + (message.reasoning_content or '') + '\\n</think>\\n\\n' + message.content.lstrip('\\n') }}"
    "{%- else %}{{- message.content }}{%- endif %}{{- '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}"
    "{%- else %}{{- '<think>\\n' }}{%- endif %}{%- endif %}"
)
_R1 = (
    "{{- bos_token }}{%- for message in messages %}"
    "{%- if message['role'] == 'assistant' %}{%- set content = message['content'].split('</think>')[-1] %}"
    "{{- '<\uff5cAssistant\uff5c>' + content + '<\uff5cend\u2581of\u2581sentence\uff5c>' }}"
    "{%- else %}{{- '<\uff5cUser\uff5c>' + message['content'] }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<\uff5cAssistant\uff5c><think>\\n' }}{%- endif %}"
)
_GPT_OSS = (
    "{%- macro system_message() -%}{%- if reasoning_effort is not defined %}{%- set reasoning_effort = 'medium' %}"
    "{%- endif %}{{- 'Reasoning: ' + reasoning_effort + '\\n' }}{%- endmacro -%}"
    "{{- '<|start|>system<|message|>' }}{{- system_message() }}{{- '<|end|>' }}"
    "{%- for message in messages %}{%- if message.role == 'assistant' %}"
    "{%- if '<|channel|>analysis<|message|>' in message.content %}{{- raise_exception('tags in content') }}{%- endif %}"
    "{%- if loop.last and not add_generation_prompt and 'thinking' in message %}"
    "{{- '<|start|>assistant<|channel|>analysis<|message|>' + message.thinking + '<|end|>' }}{%- endif %}"
    "{{- '<|start|>assistant<|channel|>final<|message|>' + message.content + '<|end|>' }}"
    "{%- else %}{{- '<|start|>' + message.role + '<|message|>' + message.content + '<|end|>' }}{%- endif %}"
    "{%- endfor %}{%- if add_generation_prompt %}{{- '<|start|>assistant' }}{%- endif %}"
)
_GEMMA4 = (
    "{{- bos_token }}{%- if enable_thinking is defined and enable_thinking %}"
    "{{- '<|turn>system\\n<|think|>\\n<turn|>\\n' }}{%- endif %}"
    "{%- for message in messages %}{%- set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
    "{{- '<|turn>' + role + '\\n' + message['content'] | trim + '<turn|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|turn>model\\n' }}"
    "{%- if not enable_thinking | default(false) %}{{- '<|channel>thought\\n<channel|>' }}{%- endif %}{%- endif %}"
)
_MISTRAL = (
    "{{- bos_token }}{%- if reasoning_effort is not defined or reasoning_effort is none %}"
    "{%- set reasoning_effort = 'none' %}{%- endif %}"
    "{%- if reasoning_effort not in ['none', 'high'] %}{{- raise_exception('reasoning_effort') }}{%- endif %}"
    "{{- '[MODEL_SETTINGS]' + reasoning_effort + '[/MODEL_SETTINGS]' }}"
    "{%- for message in messages %}{%- if message['role'] == 'assistant' %}"
    "{%- if message['content'] is string %}{{- message['content'] }}{%- endif %}{{- '</s>' }}"
    "{%- else %}{{- '[INST]' + message['content'] + '[/INST]' }}{%- endif %}{%- endfor %}"
)
_LONGCAT = (
    "{%- for message in messages %}{%- if message['role'] == 'assistant' %}"
    "{{- '<longcat_assistant>' + message['content'] + '</longcat_s>' }}"
    "{%- else %}{{- '<longcat_user>' + message['content'] }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}"
    "{%- if enable_thinking is not defined or enable_thinking %}{{- '<longcat_assistant><longcat_think>\\n' }}"
    "{%- else %}{{- '<longcat_assistant><longcat_think>\\n\\n</longcat_think>\\n' }}{%- endif %}{%- endif %}"
)
_R1_END = "<\uff5cend\u2581of\u2581sentence\uff5c>"
_R1_TOKENS = ("<\uff5cUser\uff5c>", "<\uff5cAssistant\uff5c>", "<think>", "</think>")
_CHATML = {"<|endoftext|>": True, "<|im_start|>": True, "<|im_end|>": True}


@dataclass(frozen=True)
class ThinkingFamily:
    """tokens: the added ones, and whether each is special. eos: what ends a reply. reply: as the model writes it behind
    the opened turn. thought, answer: what of it is which. switches: what the template is told so that the model thinks.
    keeps: whether the template gives earlier thoughts back."""

    name: str
    template: str
    tokens: dict[str, bool]
    eos: str
    reply: str
    thought: str
    answer: str
    switches: dict[str, bool | str] = field(default_factory=dict)
    keeps: bool = False


FAMILIES = (
    ThinkingFamily(
        "qwen3", _QWEN3, {**_CHATML, "<think>": False, "</think>": False}, "<|im_end|>",
        "<think>\nthe sky is é\n</think>\n\nblue<|im_end|>", "\nthe sky is é\n", "\n\nblue",
    ),
    ThinkingFamily(
        "qwen3.5", _QWEN35, {**_CHATML, "<think>": False, "</think>": False}, "<|im_end|>",
        "the sky is\n</think>\n\nblue é<|im_end|>", "the sky is\n", "\n\nblue é", {"thinking": True}, True,
    ),
    ThinkingFamily(
        "r1", _R1,
        {_R1_END: True, **dict.fromkeys(_R1_TOKENS, False)},
        _R1_END, f"the sun\n</think>\n\nblue{_R1_END}", "the sun\n", "\n\nblue",
    ),
    ThinkingFamily(
        "gpt-oss", _GPT_OSS,
        {"<|start|>": True, "<|end|>": True, "<|message|>": True, "<|channel|>": True, "<|return|>": True},
        "<|return|>",
        "<|channel|>analysis<|message|>the sun<|end|><|start|>assistant<|channel|>final<|message|>blue<|return|>",
        "the sun", "blue", {"effort": "high"},
    ),
    ThinkingFamily(
        "gemma4", _GEMMA4,
        {"<|turn>": True, "<turn|>": True, "<|channel>": True, "<channel|>": True, "<|think|>": True}, "<turn|>",
        "<|channel>thought\nthe sun\n<channel|>blue<turn|>", "the sun\n", "blue", {"thinking": True},
    ),
    ThinkingFamily(
        "mistral", _MISTRAL,
        {"</s>": True, "[INST]": True, "[/INST]": True, "[THINK]": True, "[/THINK]": True, "[MODEL_SETTINGS]": True,
         "[/MODEL_SETTINGS]": True},
        "</s>", "[THINK]the sun[/THINK]blue</s>", "the sun", "blue", {"effort": "high"},
    ),
    ThinkingFamily(
        "longcat", _LONGCAT,
        {"</longcat_s>": True, "<longcat_user>": True, "<longcat_assistant>": True, "<longcat_think>": False,
         "</longcat_think>": False},
        "</longcat_s>", "the sun\n</longcat_think>\nblue</longcat_s>", "the sun\n", "\nblue",
    ),
)  # fmt: skip


def _turns(answer: str, opening: str) -> str:
    """A template whose turns begin with their role. answer: of the assistant. opening: of its next turn."""
    return (
        "{%- for message in messages %}{%- if message.role == 'assistant' %}" + answer + "{%- else %}"
        "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{%- endif %}{%- endfor %}"
        "{%- if add_generation_prompt %}" + opening + "{%- endif %}"
    )


_PLAIN = "{{- '<|im_start|>assistant\\n' + message.content + '<|im_end|>\\n' }}"
_CUT = "{{- '<|im_start|>assistant\\n' + message.content.split('CLOSE')[-1] + '<|im_end|>\\n' }}"
_OPEN = "{{- '<|im_start|>assistant\\n' }}"
_SOLAR = (
    "{%- for message in messages %}{{- '<|begin|>' + message.role + '<|content|>' + message.content + '<|end|>' }}"
    "{%- endfor %}{%- if add_generation_prompt %}{{- '<|begin|>assistant' }}{%- endif %}"
)
_MUSE = (
    "{%- for message in messages %}{{- '<|start|>' + message.role }}{{- ' to=user' if message.role == 'assistant' }}"
    "{{- '<|message|>' + message.content + '<|eot|>' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|start|>assistant' }}{%- endif %}"
)
_GRANITE = (
    "{%- if thinking %}{{- 'Write <think> thoughts </think> and <response> the answer </response>.' }}{%- endif %}"
)
# Families whose thoughts are marked by headers or by ordinary text, which tests of whole replies need not repeat.
MORE_FAMILIES = (
    ThinkingFamily(
        "apertus", _turns(_PLAIN, _OPEN), {**_CHATML, "<|inner_prefix|>": True, "<|inner_suffix|>": True}, "<|im_end|>",
        "<|inner_prefix|>the sun<|inner_suffix|>blue<|im_end|>", "the sun", "blue",
    ),
    ThinkingFamily(
        "solar", _SOLAR,
        dict.fromkeys(("<|begin|>", "<|content|>", "<|think|>", "<|end|>", "<|flush|>"), True), "<|flush|>",
        "<|think|>the sun<|end|><|begin|>assistant<|content|>blue<|flush|>", "the sun", "blue",
    ),
    ThinkingFamily(
        "muse", _MUSE, dict.fromkeys(("<|start|>", "<|message|>", "<|eom|>", "<|eot|>"), True), "<|eot|>",
        " to=self<|message|>the sun<|eom|><|start|>assistant to=user<|message|>blue<|eot|>", "the sun", "blue",
    ),
    ThinkingFamily(
        "think:open", _turns(_PLAIN, _OPEN), {**_CHATML, "<think:open>": False, "</think:open>": False}, "<|im_end|>",
        "<think:open>the sun</think:open>blue<|im_end|>", "the sun", "blue",
    ),
    ThinkingFamily(
        "granite text", _GRANITE + _turns(_PLAIN, _OPEN), _CHATML, "<|im_end|>",
        "<think>the < sun</think>\n<response>blue </response>\n<|im_end|>", "the < sun", "\nblue \n",
        {"thinking": True},
    ),
    ThinkingFamily(
        "exaone text", _turns(_CUT.replace("CLOSE", "</thought>"), _OPEN + "{{- '<thought>\\n' }}"), _CHATML,
        "<|im_end|>", "the sun\n</thought>\n\nblue <thought> <|im_end|>", "the sun\n",
        "\n\nblue <thought> ",
    ),
    ThinkingFamily(
        "opened twice", _turns(_PLAIN, _OPEN + "{{- '<think>' }}"), _CHATML, "<|im_end|>",
        "<think>the sun</think>blue<|im_end|>", "the sun", "blue",
    ),
    ThinkingFamily(
        "untold text", _turns(_PLAIN, _OPEN), _CHATML, "<|im_end|>",
        "<think>\nthe sun</thin\n</think>blue<|im_end|>", "\nthe sun</thin\n", "blue",
    ),
    ThinkingFamily(
        "hunyuan text", _turns(_CUT.replace("CLOSE", "<answer>") + "{#- <think></think></answer> #}", _OPEN), _CHATML,
        "<|im_end|>", "<think>the sun</think>\n<answer>\nblue\n</answer><|im_end|>", "the sun", "\n\nblue\n",
    ),
    ThinkingFamily(
        "apriel", _turns(
            _CUT.replace("CLOSE", "[BEGIN FINAL RESPONSE]"), _OPEN + "{{- 'Here are my reasoning steps:\\n' }}"
        ),
        {**_CHATML, "[BEGIN FINAL RESPONSE]": True}, "<|im_end|>",
        "the sun\n[BEGIN FINAL RESPONSE]blue\n[END FINAL RESPONSE]<|im_end|>", "the sun\n", "blue\n",
    ),
)  # fmt: skip


def write_tokenizer(path: Path, family: ThinkingFamily, words: int = VOCABULARY) -> Path:
    """Writes the files of a tokenizer of this family into a folder."""
    path.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer(words - len(family.tokens))
    tokenizer.add_tokens(
        [AddedToken(name, special=special, normalized=False) for name, special in family.tokens.items()]
    )
    tokenizer.save(str(path / "tokenizer.json"))
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": family.eos, "bos_token": family.eos}
    (path / "tokenizer_config.json").write_text(json.dumps({**about, "chat_template": family.template}))
    return path


def make_thinking_folder(path: Path, family: ThinkingFamily, settings: dict[str, object] | None = None) -> Path:
    """Writes a tiny random model with the tokenizer of a family. settings: its generation_config.json."""
    write_tokenizer(make_folder(path), family)
    if settings is not None:
        (path / "generation_config.json").write_text(json.dumps(settings))
    return path
