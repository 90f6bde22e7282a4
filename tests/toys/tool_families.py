"""Families of models that call tools, made small: their tokens, chat template and a reply that calls two tools.

Templates are written after the real ones, as short as a test of tools can be: what they tell the model of tools, and
how they write earlier calls and their results, is the families' own.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.toys.folders import make_folder
from tests.toys.reply_formats import ThinkingFamily, write_tokenizer

WEATHER: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "weather", "description": "tells", "parameters": WEATHER}},
    {"type": "function", "function": {"name": "w", "parameters": {"type": "object", "properties": {}}}},
]
CALLS = [("weather", {"city": "K\u00f6ln", "days": 3}), ("w", {})]
RESULT = "rain, 12 C"

_TOOLS_OF_QWEN = (
    "{%- if tools %}{{- '<|im_start|>system\\n# Tools\\n<tools>' }}{%- for tool in tools %}{{- '\\n' }}"
    "{{- tool | tojson }}{%- endfor %}{{- '\\n</tools>' }}HOW{{- '<|im_end|>\\n' }}{%- endif %}"
)
_TURNS_OF_QWEN = (
    "{%- for message in messages %}{%- if message.role == 'assistant' %}"
    "{{- '<|im_start|>assistant\\n' + message.content }}{%- if message.tool_calls %}"
    "{%- for tool_call in message.tool_calls %}{%- if (loop.first and message.content) or (not loop.first) %}"
    "{{- '\\n' }}{%- endif %}{%- set tool_call = tool_call.function %}CALL{%- endfor %}{%- endif %}"
    "{{- '<|im_end|>\\n' }}{%- elif message.role == 'tool' %}"
    "{{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}"
    "{%- else %}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{%- endif %}"
    "{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)


def _qwen(how: str, call: str) -> str:
    return _TOOLS_OF_QWEN.replace("HOW", how) + _TURNS_OF_QWEN.replace("CALL", call)


HERMES = _qwen(
    '{{- \'\\nreturn <tool_call>\\n{"name": <function-name>, "arguments": <args-json-object>}\\n</tool_call>\' }}',
    '{{- \'<tool_call>\\n{"name": "\' + tool_call.name + \'", "arguments": \' }}'
    "{{- tool_call.arguments | tojson }}{{- '}\\n</tool_call>' }}",
)
_CODER = _qwen(
    "{{- '\\nreply <tool_call>\\n<function=example_function_name>\\n</function>\\n</tool_call>' }}",
    "{{- '<tool_call>\\n<function=' + tool_call.name + '>\\n' }}{%- for name, value in tool_call.arguments.items() %}"
    "{{- '<parameter=' + name + '>\\n' + (value if value is string else value | tojson) + '\\n</parameter>\\n' }}"
    "{%- endfor %}{{- '</function>\\n</tool_call>' }}",
)
_MINICPM = _qwen(
    '{{- \'\\nreply <function name="fn"><param name="p">value</param></function>\' }}',
    "{{- '<function name=\"' + tool_call.name + '\">' }}{%- for name, value in tool_call.arguments.items() %}"
    "{{- '<param name=\"' + name + '\">' + (value if value is string else value | tojson) + '</param>' }}"
    "{%- endfor %}{{- '</function>' }}",
)
_KIMI = (
    "{%- if tools %}{{- '<|im_system|>tool_declare<|im_middle|>' }}{{- tools | tojson }}{{- '<|im_end|>' }}{%- endif %}"
    "{%- for message in messages %}{{- '<|im_' + message.role + '|>' + message.role + '<|im_middle|>' }}"
    "{{- message.content }}{%- if message.tool_calls %}{{- '<|tool_calls_section_begin|>' }}"
    "{%- for call in message.tool_calls %}{{- '<|tool_call_begin|>functions.' + call.function.name + ':' }}"
    "{{- loop.index0 }}{{- '<|tool_call_argument_begin|>' }}{{- call.function.arguments | tojson }}"
    "{{- '<|tool_call_end|>' }}{%- endfor %}{{- '<|tool_calls_section_end|>' }}{%- endif %}{{- '<|im_end|>' }}"
    "{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_assistant|>assistant<|im_middle|>' }}{%- endif %}"
)
_GEMMA4 = (
    "{%- macro value(one) -%}{%- if one is string %}{{- '<|\"|>' + one + '<|\"|>' }}{%- else %}{{- one | tojson }}"
    "{%- endif %}{%- endmacro -%}"
    "{{- bos_token }}{%- if tools or enable_thinking %}{{- '<|turn>system\\n' }}{%- for tool in tools %}"
    "{{- '<|tool>declaration:' + tool.function.name + '{}<tool|>' }}{%- endfor %}{{- '<turn|>\\n' }}{%- endif %}"
    "{%- for message in messages %}{%- if message.role == 'tool' %}"
    "{{- '<|tool_response>response:' + message.name + '{value:' + value(message.content) + '}<tool_response|>' }}"
    "{%- else %}{%- set role = 'model' if message.role == 'assistant' else message.role %}"
    "{{- '<|turn>' + role + '\\n' + message.content }}{%- for call in message.tool_calls or [] %}"
    "{{- '<|tool_call>call:' + call.function.name + '{' }}{%- for key, one in call.function.arguments.items() %}"
    "{{- key + ':' + value(one) }}{{- ',' if not loop.last }}{%- endfor %}{{- '}<tool_call|>' }}{%- endfor %}"
    "{{- '<turn|>\\n' if not message.tool_calls }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|turn>model\\n' }}{%- endif %}"
)
_GPT_OSS = (
    "{{- '<|start|>developer<|message|>' }}{%- for tool in tools or [] %}"
    "{{- 'type ' + tool.function.name + ' = () => any;' }}{%- endfor %}{{- '<|end|>' }}"
    "{%- for message in messages %}{%- if message.role == 'assistant' and message.tool_calls %}"
    "{%- set call = message.tool_calls[0].function %}"
    "{{- '<|start|>assistant<|channel|>commentary to=functions.' + call.name + ' <|constrain|>json<|message|>' }}"
    "{{- call.arguments | tojson }}{{- '<|call|>' }}{%- set last = call.name %}"
    "{%- elif message.role == 'tool' %}"
    "{{- '<|start|>functions.' + message.name + ' to=assistant<|channel|>commentary<|message|>' }}"
    "{{- message.content | tojson }}{{- '<|end|>' }}"
    "{%- else %}{{- '<|start|>' + message.role + '<|message|>' + message.content + '<|end|>' }}{%- endif %}"
    "{%- endfor %}{%- if add_generation_prompt %}{{- '<|start|>assistant' }}{%- endif %}"
)
_MISTRAL = (
    "{{- bos_token }}{%- if tools %}{{- '[AVAILABLE_TOOLS]' }}{{- tools | tojson }}{{- '[/AVAILABLE_TOOLS]' }}"
    "{%- endif %}{%- for message in messages %}{%- if message.role == 'assistant' %}{{- message.content }}"
    "{%- for call in message.tool_calls or [] %}{%- if call.id | length != 9 %}"
    "{{- raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}{%- endif %}"
    "{{- '[TOOL_CALLS]' + call.function.name + '[ARGS]' }}{{- call.function.arguments | tojson }}{%- endfor %}"
    "{{- '</s>' }}{%- elif message.role == 'tool' %}{{- '[TOOL_RESULTS]' + message.content + '[/TOOL_RESULTS]' }}"
    "{%- else %}{{- '[INST]' + message.content + '[/INST]' }}{%- endif %}{%- endfor %}"
)
_MISTRAL_LIST = (
    "{{- bos_token }}{%- for message in messages %}{%- if message.role == 'assistant' %}{{- message.content }}"
    "{%- if message.tool_calls %}{{- '[TOOL_CALLS][' }}{%- for call in message.tool_calls %}"
    '{{- \'{"name": "\' + call.function.name + \'", "arguments": \' }}{{- call.function.arguments | tojson }}'
    "{{- '}' }}{{- ', ' if not loop.last }}{%- endfor %}{{- ']' }}{%- endif %}{{- '</s>' }}"
    "{%- elif message.role == 'tool' %}{{- '[TOOL_RESULTS]' + message.content + '[/TOOL_RESULTS]' }}"
    "{%- else %}{%- if tools %}{{- '[AVAILABLE_TOOLS]' }}{{- tools | tojson }}"
    "{{- '[/AVAILABLE_TOOLS]' }}{%- endif %}{{- '[INST]' + message.content + '[/INST]' }}{%- endif %}{%- endfor %}"
)
_GLM = (
    "{%- if tools %}{{- '<|system|>\\n# Tools\\n' }}{%- for tool in tools %}{{- tool | tojson }}{%- endfor %}"
    "{{- '\\n<tool_call>{function-name}\\n<arg_key>{arg-key-1}</arg_key>\\n</tool_call>' }}{%- endif %}"
    "{%- for message in messages %}{%- if message.role == 'tool' %}"
    "{{- '<|observation|>\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}{%- else %}"
    "{{- '<|' + message.role + '|>' + message.content }}{%- for call in message.tool_calls or [] %}"
    "{{- '\\n<tool_call>' + call.function.name + '\\n' }}{%- for key, one in call.function.arguments.items() %}"
    "{{- '<arg_key>' + key + '</arg_key>\\n<arg_value>' + (one if one is string else one | tojson) }}"
    "{{- '</arg_value>\\n' }}{%- endfor %}{{- '</tool_call>' }}{%- endfor %}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}"
)
_CHATML = {"<|endoftext|>": True, "<|im_start|>": True, "<|im_end|>": True}
_TOOL_CALL = {"<tool_call>": False, "</tool_call>": False}
_THINK = {"<think>": False, "</think>": False}
_JSON = '{"city": "K\u00f6ln", "days": 3}'
_HERMES_CALLS = (
    f'<tool_call>\n{{"name": "weather", "arguments": {_JSON}}}\n</tool_call>\n'
    '<tool_call>\n{"name": "w", "arguments": {}}\n</tool_call>'
)


def _special(names: str) -> dict[str, bool]:
    return dict.fromkeys(names.split(), True)


@dataclass(frozen=True)
class ToolFamily:
    """model: its tokens, template and a reply; `answer` is what of the reply is neither thought nor call. written: its
    calls, which the template writes again. parser: that reads them. constrained: whether there is a grammar of its
    calls. calls: how many of CALLS are in the reply."""

    model: ThinkingFamily
    written: str
    parser: str
    constrained: bool = True
    calls: int = 2

    @property
    def name(self) -> str:
        return self.model.name


def _family(
    name: str, template: str, tokens: dict[str, bool], end: str, parser: str, reply: str, **more: Any
) -> ToolFamily:
    """reply: with THOUGHT (a whole thought) and CALLS in it, without its end."""
    thought, calls = more.pop("thought", ""), more.pop("written")
    whole = reply.replace("THOUGHT", thought).replace("CALLS", calls) + end
    answer = more.pop("answer", "I look.")
    thinks = "hm" if thought else ""
    return ToolFamily(ThinkingFamily(name, template, tokens, end, whole, thinks, answer), calls, parser, **more)


FAMILIES = (
    _family(
        "qwen3", HERMES, {**_CHATML, **_TOOL_CALL, **_THINK}, "<|im_end|>", "json_tools", "THOUGHTI look.\nCALLS",
        thought="<think>hm</think>", written=_HERMES_CALLS, answer="I look.\n\n",
    ),
    _family(
        "hermes", HERMES, _CHATML, "<|im_end|>", "json_tools", "a < b, <tool> I look.\nCALLS <tool",
        written=_HERMES_CALLS, answer="a < b, <tool> I look.\n\n <tool",
    ),
    _family(
        "qwen3-coder", _CODER, {**_CHATML, **_TOOL_CALL}, "<|im_end|>", "qwen3_coder", "I look.\nCALLS",
        written="<tool_call>\n<function=weather>\n<parameter=city>\nK\u00f6ln\n</parameter>\n<parameter=days>\n3\n"
        "</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=w>\n</function>\n</tool_call>",
        answer="I look.\n\n",
    ),
    _family(
        "minicpm5", _MINICPM, _CHATML, "<|im_end|>", "minicpm5", "I look.CALLS", answer="I look.\n",
        written='<function name="weather"><param name="city">K\u00f6ln</param><param name="days">3</param>'
        '</function>\n<function name="w"></function>',
    ),
    _family(
        "kimi-k2", _KIMI,
        _special(
            "<|im_end|> <|im_middle|> <|im_system|> <|im_user|> <|im_assistant|> <|im_tool|> "
            "<|tool_calls_section_begin|> <|tool_calls_section_end|>"
            " <|tool_call_begin|> <|tool_call_end|> <|tool_call_argument_begin|>"
        ), "<|im_end|>", "kimi_k2", "I look.CALLS",
        written="<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>"
        f"{_JSON}<|tool_call_end|><|tool_call_begin|>functions.w:1<|tool_call_argument_begin|>{{}}<|tool_call_end|>"
        "<|tool_calls_section_end|>",
    ),
    _family(
        "gemma4", _GEMMA4,
        _special(
            "<|turn> <turn|> <|channel> <channel|> <|tool> <tool|> "
            '<|tool_call> <tool_call|> <|tool_response> <tool_response|> <|"|>'
        ), "<turn|>", "gemma4", "THOUGHTI look.CALLS", thought="<|channel>thought\nhm<channel|>",
        written='<|tool_call>call:weather{city:<|"|>K\u00f6ln<|"|>,days:3}<tool_call|><|tool_call>call:w{}<tool_call|>',
    ),
    _family(
        "gpt-oss", _GPT_OSS, _special("<|start|> <|end|> <|message|> <|channel|> <|return|> <|constrain|> <|call|>"),
        "<|call|>", "harmony", "THOUGHT<|channel|>commentary<|message|>I look.<|end|>CALLS", constrained=False, calls=1,
        thought="<|channel|>analysis<|message|>hm<|end|><|start|>assistant",
        written="<|start|>assistant<|channel|>commentary to=functions.weather <|constrain|>json<|message|>" + _JSON,
    ),
    _family(
        "mistral", _MISTRAL,
        _special(
            "</s> [INST] [/INST] [THINK] [/THINK] [TOOL_CALLS] [ARGS] "
            "[AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS]"
        ), "</s>", "mistral", "THOUGHTI look.CALLS", thought="[THINK]hm[/THINK]",
        written=f"[TOOL_CALLS]weather[ARGS]{_JSON}[TOOL_CALLS]w[ARGS]{{}}",
    ),
    _family(
        "mistral-v3", _MISTRAL_LIST,
        _special(
            "</s> [INST] [/INST] [TOOL_CALLS] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS]"
        ), "</s>", "mistral", "I look.CALLS",
        written='[TOOL_CALLS][{"name": "weather", "arguments": ' + _JSON + '}, {"name": "w", "arguments": {}}]',
    ),
    _family(
        "glm", _GLM,
        {
            **_special("<|endoftext|> <|user|> <|assistant|> <|system|> <|observation|>"),
            **_TOOL_CALL,
            **_THINK,
            **dict.fromkeys(("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"), False),
        }, "<|observation|>", "arg_keys", "THOUGHTI look.\nCALLS", thought="<think>hm</think>", answer="I look.\n\n",
        written="<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>K\u00f6ln</arg_value>\n<arg_key>days</arg_key>"
        "\n<arg_value>3</arg_value>\n</tool_call>\n<tool_call>w\n</tool_call>",
    ),
)  # fmt: skip


def make_tool_folder(path: Path, family: ToolFamily) -> Path:
    """Writes a tiny random model with the tokenizer of a family, and room for tools in its context."""
    write_tokenizer(make_folder(path), family.model)
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 4096}))
    return path
