"""The protocol's lines: every message survives encoding, and anything else is a MalformedError."""

import collections.abc
import dataclasses
import types
import typing
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app import protocol as p

_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**63), 2**63 - 1) | st.integers(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: st.text(),
    bool: st.booleans(),
    type(None): st.none(),
}


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of a type that the protocol uses."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return st.sampled_from(arguments)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([values(argument) for argument in arguments])
    if origin is tuple:
        return st.lists(values(arguments[0]), max_size=4).map(tuple)
    if origin is collections.abc.Mapping:
        return st.dictionaries(values(arguments[0]), values(arguments[1]), max_size=3)
    assert dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct), kind
    hints = typing.get_type_hints(kind)
    return st.builds(kind, **{name: values(hint) for name, hint in hints.items() if not name.startswith("_")})


REQUESTS = [values(kind) for kind in typing.get_args(p.AnyRequest)]
ANSWERS = [values(kind) for kind in typing.get_args(p.AnyAnswer)]


@pytest.mark.parametrize(("kinds", "decode"), [(REQUESTS, p.decode_request), (ANSWERS, p.decode_answer)])
@settings(max_examples=60)
@given(st.data())
def test_messages_survive_encoding_and_decoding(kinds: list[Any], decode: Callable[[bytes], Any], data: Any) -> None:
    message = data.draw(st.one_of(kinds))
    line = p.encode_line(message)
    assert line.count(b"\n") == 1
    assert decode(line) == message


def test_unknown_fields_are_ignored_wherever_they_stand() -> None:
    line = b'{"later":[1],"type":"Load","id":3,"pair":{"target":"here","mood":"good"},"why":{"not":null}}'
    assert p.decode_request(line) == p.Load(id=3, pair=p.Pair(target="here"))
    line = b'{"version":9,"redline":"x","mlx":"y","device":"z","type":"Ready","colour":"red"}'
    assert p.decode_answer(line) == p.Ready(version=9, redline="x", mlx="y", device="z")


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"Stop"}',
        b'{"type":"Sotp","id":1}',
        b'{"type":"Stop","id":"1"}',
        b'{"type":"Reply","id":1,"messages":[{"role":"robot","content":""}],"sampling":{}}',
        b'{"type":"Reply","id":1,"messages":[],"sampling":{"temperature":"warm"}}',
        b'{"type":"Reply","id":1,"messages":[],"sampling":{},"continuation_ids":[null]}',
        b'[{"type":"Stop","id":1}]',
        b'{"type":"Stop","id":1}{"type":"Stop","id":2}',
    ],
)
def test_a_missing_field_or_a_wrong_type_is_malformed(line: bytes) -> None:
    with pytest.raises(p.MalformedError):
        p.decode_request(line)


def test_a_request_is_no_answer_and_an_answer_no_request() -> None:
    with pytest.raises(p.MalformedError):
        p.decode_answer(p.encode_line(p.Stop(id=1)))
    with pytest.raises(p.MalformedError):
        p.decode_request(p.encode_line(p.Ready(version=1, redline="", mlx="", device="")))


def test_a_request_may_be_as_long_as_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    reply = p.Reply(id=1, messages=(p.Message(role="user", content="\x01" * 500),), sampling=p.SamplingSettings())
    line = p.encode_line(reply)
    for longest, expected in ((len(line), line), (len(line) - 1, None)):
        monkeypatch.setattr(p, "LONGEST_LINE", longest)
        assert p.encode_request(reply) == expected
    monkeypatch.setattr(p, "LONGEST_LINE", 1499)
    monkeypatch.setattr(p, "encode_line", None)  # a conversation that is far too long is not even encoded
    assert p.encode_request(p.Count(id=1, messages=(p.Message(role="user", content="\u4e2d" * 500),))) is None
