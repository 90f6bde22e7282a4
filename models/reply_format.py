"""Which tokens mark the thoughts of a model, and which switches its chat template has for them.

Found by the names of special tokens, as each family's tokenizer has them, and by the variables of its template.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

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
