"""Which tokens mark the thoughts of a model, and which switches its chat template has for them.

Found by the names of special tokens, as each family's tokenizer has them, and by the variables of its template.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, TemplateError, nodes
from jinja2.meta import find_undeclared_variables

from engine.reply_channels import ReplyFormat

Encode = Callable[[str], Sequence[int]]

TAGS = (  # an opening and a closing tag
    ("<think>", "</think>"),  # Qwen, DeepSeek, GLM, MiniMax and others
    ("[THINK]", "[/THINK]"),  # Mistral
    ("<longcat_think>", "</longcat_think>"),
    ("<seed:think>", "</seed:think>"),
    ("<mm:think>", "</mm:think>"),  # MiniMax M3
    ("<|think:start|>", "<|think:end|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),  # Cohere
    ("<|channel>", "<channel|>"),  # Gemma 4
)
_LABELS = {"<|channel>": ("thought\n", "thought")}  # what follows an opening tag and is not part of the thought
_HARMONY = ("<|start|>", "<|channel|>", "<|message|>", "<|end|>")  # gpt-oss
_XTML = ("<|open|>", "<|close|>", "<|sep|>")  # Kimi K3
_BLANK = " \n\t\r\u2581"  # some tokenizers never split runs of spaces and line breaks
_GENERATION = re.compile(r"{%[-+]?\s*(?:end)?generation\s*[-+]?%}")  # a tag of transformers, for training
_THINKING = ("enable_thinking", "thinking")  # variables of templates
_EFFORT = "reasoning_effort"
USUAL_EFFORTS = ("low", "medium", "high")


def reply_format(added: Mapping[str, int], encode: Encode) -> ReplyFormat | None:
    """Returns how a model marks its thoughts, None if it has no tokens for that.

    added: the tokens that the tokenizer never splits, by name. encode: returns the ids of plain text.
    """
    others = frozenset(number for name, number in added.items() if name.strip(_BLANK))  # mark turns, tools and so on
    if all(name in added for name in _HARMONY):
        start, channel, message, end = (added[name] for name in _HARMONY)
        return ReplyFormat(
            closes=frozenset({end}),
            headers=frozenset({start, channel}),
            named=frozenset({channel}),
            contents=frozenset({message}),
            thoughts=(tuple(encode("analysis")),),
            turns=frozenset({start}),
        )
    if all(name in added for name in _XTML):
        opens, closes, separator = (added[name] for name in _XTML)
        return ReplyFormat(
            headers=frozenset({opens, closes}),
            named=frozenset({opens}),
            contents=frozenset({separator}),
            thoughts=(tuple(encode("think")),),
            turns=others - {opens, closes, separator},
        )
    found = [(start, end) for start, end in TAGS if start in added and end in added]
    if not found:
        return None
    tags = frozenset(added[name] for pair in found for name in pair)
    return ReplyFormat(
        opens=frozenset(added[start] for start, _ in found),
        closes=frozenset(added[end] for _, end in found),
        labels=tuple(tuple(encode(label)) for start, _ in found for label in _LABELS.get(start, ())),
        turns=others - tags,
    )


@dataclass(frozen=True)
class Switches:
    """What a chat template lets one choose. thinking: the name of its variable for whether to think, "" without one.
    efforts: how much to think, in the order to show; empty without that choice. tools: whether it takes tools."""

    thinking: str = ""
    efforts: tuple[str, ...] = ()
    tools: bool = False

    def variables(self, thinking: bool | None = None, effort: str = "") -> dict[str, Any]:
        """Returns the variables to give to the template; what it does not know is left out."""
        known: dict[str, Any] = {}
        if self.thinking and thinking is not None:
            known[self.thinking] = thinking
        if self.efforts and effort:
            known[_EFFORT] = effort
        return known


def switches_of(template: str) -> Switches:
    """Returns the switches of a chat template."""
    try:
        tree = Environment(extensions=["jinja2.ext.loopcontrols"]).parse(_GENERATION.sub("", template))
    except (TemplateError, RecursionError):
        return Switches()
    efforts = _efforts(tree)  # first: what looks for variables folds constants in the tree
    variables = find_undeclared_variables(tree)
    thinking = next((name for name in _THINKING if name in variables), "")
    return Switches(thinking, efforts if _EFFORT in variables else (), "tools" in variables)


def _efforts(tree: nodes.Template) -> tuple[str, ...]:
    """Returns the efforts that a template compares its variable with, or the usual ones where it just prints it."""
    named: dict[str, None] = {}
    for comparison in tree.find_all(nodes.Compare):
        if any(name.name == _EFFORT for name in comparison.find_all(nodes.Name)):
            named |= {str(one.value): None for one in comparison.find_all(nodes.Const) if isinstance(one.value, str)}
    words = tuple(word for word in named if word.isalpha())
    return words if len(words) > 1 else USUAL_EFFORTS
