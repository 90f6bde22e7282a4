"""How a model marks its thoughts: by tokens, as most families' tokenizers have them, or by ordinary text.

Found by the names of the tokens that are never split, and for text by what the chat template speaks of.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from engine.reply_channels import ReplyFormat
from engine.reply_tags import TextTags

Encode = Callable[[str], Sequence[int]]
Pair = tuple[str, str]

TAGS: tuple[Pair, ...] = (  # an opening and a closing tag, beside those that `paired` knows by their form
    ("<|think:start|>", "<|think:end|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),  # Cohere
    ("<|channel>", "<channel|>"),  # Gemma 4
    ("<|inner_prefix|>", "<|inner_suffix|>"),  # Apertus
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("\u25c1think\u25b7", "\u25c1/think\u25b7"),  # Kimi VL
)
# <think> of Qwen, DeepSeek and others, [THINK] of Mistral, <longcat_think>, <seed:think>, <think:opensource>, <thought>
_OPENING = re.compile(r"(<|\[)([A-Za-z_:]*(?:think|thought|reasoning)[A-Za-z_:]*)(>|\])", re.IGNORECASE)
_LABELS = {"<|channel>": ("thought\n", "thought")}  # what follows an opening tag and is not part of the thought
_WRAPPERS: tuple[Pair, ...] = (("<answer>", "</answer>"), ("<response>", "</response>"))  # Hunyuan, Granite 3.3
_HARMONY = ("<|start|>", "<|channel|>", "<|message|>", "<|end|>")  # gpt-oss
_XTML = ("<|open|>", "<|close|>", "<|sep|>")  # Kimi K3
_RECIPIENT = ("<|start|>", "<|message|>", "<|eom|>")  # Muse: the header of a message says to whom it is
_SOLAR = ("<|begin|>", "<|think|>", "<|content|>", "<|end|>")  # Solar Open: the header's end says what follows
_APRIEL: tuple[Pair, ...] = (
    ("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"),
    ("[BEGIN FINAL RESPONSE]", "[END FINAL RESPONSE]"),
)
_BLANK = " \n\t\r\u2581"  # some tokenizers never split runs of spaces and line breaks


def reply_format(added: Mapping[str, int], encode: Encode, template: str = "") -> ReplyFormat | None:
    """Returns how a model marks its thoughts with tokens, None if it has none for that.

    added: the tokens that the tokenizer never splits, by name. encode: returns the ids of plain text. template: of the
    model's conversations.
    """
    if _APRIEL[0][1] in template:  # a sentence opens its thoughts
        return None
    others = frozenset(number for name, number in added.items() if name.strip(_BLANK))  # mark turns, tools and so on
    headers = _with_headers(added, encode, others)
    if headers is not None:
        return headers
    found = [pair for pair in (*map(paired, added), *TAGS) if pair and all(name in added for name in pair)]
    if not found:
        return None
    closes = {end for _, end in found} | {name for pair in _WRAPPERS if set(pair) <= set(added) for name in pair}
    tags = frozenset(added[name] for name in closes | {start for start, _ in found})
    return ReplyFormat(
        opens=frozenset(added[start] for start, _ in found),
        closes=frozenset(added[name] for name in closes),
        labels=tuple(tuple(encode(label)) for start, _ in found for label in _LABELS.get(start, ())),
        turns=others - tags,
    )


def _with_headers(added: Mapping[str, int], encode: Encode, others: frozenset[int]) -> ReplyFormat | None:
    """Returns the format of a family whose messages have headers, None for others."""
    if all(name in added for name in _HARMONY):
        start, channel, message, end = (added[name] for name in _HARMONY)
        return _messages(start, channel, message, end, encode("analysis"))
    if all(name in added for name in _XTML):
        opens, closes, separator = (added[name] for name in _XTML)
        return ReplyFormat(
            headers=frozenset({opens, closes}),
            named=frozenset({opens}),
            contents=frozenset({separator}),
            thoughts=(tuple(encode("think")),),
            turns=others - {opens, closes, separator},
        )
    if all(name in added for name in _RECIPIENT):
        start, message, end = (added[name] for name in _RECIPIENT)
        return _messages(start, start, message, end, encode(" to=self"))
    if all(name in added for name in _SOLAR):
        begin, think, content, end = (added[name] for name in _SOLAR)
        return ReplyFormat(
            opens=frozenset({think}),
            closes=frozenset({content, end}),
            headers=frozenset({begin}),
            turns=frozenset({begin}),
        )
    return None


def _messages(start: int, named: int, content: int, end: int, thought: Sequence[int]) -> ReplyFormat:
    """Returns the format of a family in which each message has a header and an end. start: begins a header. named: what
    the name of a channel follows. content: ends the header. end: of a message. thought: the channel of thoughts."""
    return ReplyFormat(
        closes=frozenset({end}),
        headers=frozenset({start, named}),
        named=frozenset({named}),
        contents=frozenset({content}),
        thoughts=(tuple(thought),),
        turns=frozenset({start}),
    )


def text_tags(template: str) -> TextTags:
    """Returns the tags that a model without tokens for them writes as text: those that its chat template speaks of,
    and <think>, which fine-tunes learn whatever their template says."""
    pairs = {pair: None for match in _OPENING.finditer(template) if (pair := paired(match[0])) and pair[1] in template}
    known = {pair: None for pair in TAGS if all(tag in template for tag in pair)}
    wrappers = tuple(pair for pair in _WRAPPERS if all(tag in template for tag in pair))
    if _APRIEL[0][1] in template:
        known, wrappers = {**known, _APRIEL[0]: None}, (*wrappers, _APRIEL[1])
    return TextTags(tuple({("<think>", "</think>"): None} | pairs | known), wrappers)


def paired(name: str) -> Pair | None:
    """Returns an opening tag of the usual forms with its closing one, None for another name."""
    match = _OPENING.fullmatch(name)
    if match is None or (match[1] == "<") != (match[3] == ">"):
        return None
    return name, f"{match[1]}/{match[2]}{match[3]}"
