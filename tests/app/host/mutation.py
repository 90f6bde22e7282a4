"""Lines of the protocol, damaged: bytes flipped, cut, doubled and joined, values of every wrong kind, nesting."""

import json
import random
from collections.abc import Sequence
from typing import Any

_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**64), 10**400, 0.5, -0.0, 1e308, "", "x", "\x1b[2J", "\u202e"),
    *(
        "\ud800",
        "x" * 10_000,
        [],
        {},
        [[]],
        [None],
        {"type": "Load"},
        "none",
        "lookup",
        "auto",
        "/nowhere",
        [-1],
        [10**9],
    ),
)
_NUMBERS = (b"1e999", b"NaN", b"-Infinity", b"0x10", b"01", b"1_000", b"9" * 5000)


def mutated(line: bytes, others: Sequence[bytes], dice: random.Random) -> bytes:
    """Returns the line (without its end) with one to three kinds of damage."""
    for _ in range(dice.randrange(1, 4)):
        line = dice.choice(_DAMAGES)(line, others, dice)
    return line.replace(b"\n", b"")


def _flip(line: bytes, _: Sequence[bytes], dice: random.Random) -> bytes:
    spoiled = bytearray(line or b"{")
    for _ in range(dice.randrange(1, 5)):
        spoiled[dice.randrange(len(spoiled))] ^= 1 << dice.randrange(8)
    return bytes(spoiled)


def _cut(line: bytes, _: Sequence[bytes], dice: random.Random) -> bytes:
    return line[: dice.randrange(len(line) + 1)]


def _splice(line: bytes, others: Sequence[bytes], dice: random.Random) -> bytes:
    other = dice.choice(others)
    return line[: dice.randrange(len(line) + 1)] + other[dice.randrange(len(other)) :]


def _insert(line: bytes, _: Sequence[bytes], dice: random.Random) -> bytes:
    at = dice.randrange(len(line) + 1)
    depth = dice.choice((1, 50, 5000))
    noise = (
        dice.randbytes(dice.randrange(1, 40)),
        dice.choice(_NUMBERS),
        b"[" * depth,
        b'{"a":' * depth,
        b"\xff\xfe\x00",
    )
    return line[:at] + dice.choice(noise) + line[at:]


def _replace(line: bytes, _: Sequence[bytes], dice: random.Random) -> bytes:
    """Another value at any place of the object."""
    try:
        return json.dumps(with_another_value(json.loads(line), dice)).encode()
    except (ValueError, RecursionError):
        return line


def with_another_value(value: Any, dice: random.Random) -> Any:
    """Returns a JSON value with another one at some place, or without some field."""
    if isinstance(value, dict) and value and dice.random() < 0.9:
        key = dice.choice(list(value))
        if dice.random() < 0.1:
            return {name: item for name, item in value.items() if name != key}
        return {**value, key: with_another_value(value[key], dice)}
    if isinstance(value, list) and value and dice.random() < 0.8:
        at = dice.randrange(len(value))
        return [*value[:at], with_another_value(value[at], dice), *value[at + 1 :]]
    return dice.choice(_VALUES)


_DAMAGES = (_flip, _cut, _splice, _insert, _replace, _replace, _replace)
