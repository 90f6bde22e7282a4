"""A tokenizer over bytes for the 64 ids of the toy models, and a network that counts the rows it is fed."""

import codecs
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import mlx.core as mx
from mlx.utils import tree_map

from engine.reply_channels import ChannelParser, ReplyFormat
from engine.reply_text import Message

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
PIECES: tuple[bytes, ...] = (
    *(letter.encode() for letter in LETTERS),
    *(b" the", b" a", b"ing", b"\n"),
    *(b"\xc3", b"\xa9", b"\xe2\x82", b"\xac", b"\xf0\x9f", b"\x98\x80", b"", b"\xff"),
)


class ByteStream:
    """Holds the bytes of an unfinished character back, as detokenizers do; "?" ends a reply cut inside one."""

    def __init__(self, pieces: Sequence[bytes] = PIECES) -> None:
        self._pieces = pieces
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token: int) -> str:
        return self._decoder.decode(self._pieces[token])

    def finish(self) -> str:
        return "?" if self._decoder.getstate()[0] else ""


class ByteTokenizer:
    """A prompt is its letters, each message between a mark for its role and a newline."""

    def __init__(self, eos: frozenset[int] = frozenset(), format_: ReplyFormat | None = None) -> None:
        self.eos = eos
        self.format = format_

    def channels(self, prompt: Sequence[int]) -> ChannelParser | None:
        return self.format.after(prompt) if self.format is not None else None

    def chat(
        self, messages: Sequence[Message], cancelled: Callable[[], bool] = lambda: False, **switches: bool | str
    ) -> list[int]:
        ids: list[int] = []
        for m in messages:
            ids += [LETTERS.index(m["role"][0].upper()), *(LETTERS.index(c) for c in m["content"]), 55]
        return [*ids, LETTERS.index("A")] if messages else []

    def stream(self) -> ByteStream:
        return ByteStream()


class Counting:
    """A network that remembers how many rows each pass fed."""

    def __init__(self, network: Any) -> None:
        self._network = network
        self.rows: list[int] = []

    def __call__(self, inputs: mx.array, cache: Any) -> mx.array:
        self.rows.append(inputs.shape[1])
        logits: mx.array = self._network(inputs, cache=cache)
        return logits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)


def nearby(network: Any, noise: float, seed: int = 0) -> Any:
    """A copy of `network` with every matrix disturbed by `noise` of its size: a drafter that is often right."""
    mx.random.seed(seed)
    copy = deepcopy(network)

    def disturbed(a: mx.array) -> mx.array:
        return a + noise * mx.std(a) * mx.random.normal(a.shape) if a.ndim > 1 else a

    copy.update(tree_map(disturbed, copy.parameters()))
    return copy
