"""The rounds of a reply as bytes, and what is checked of rounds that come from elsewhere.

A batch is a list of RoundDone as MessagePack, deflated against PRIMER. Fields go by name, so that a record may grow;
zlib's checksum detects a damaged batch.
"""

import zlib
from collections.abc import Hashable, Iterable
from functools import cache
from typing import Any

import msgspec

from app.protocol import RoundDone
from app.store.database import DamageError
from engine.events import is_tree
from engine.reply_channels import Channel

_ROUND = {
    "index": 12,
    "tokens": [284, 253, 3],
    "drafted": [284, 253, 17],
    "accepted": 2,
    "p": [0.5, 0.25, 1.0],
    "q": [1.0, 1.0, 1.0],
    "width": 4,
    "time_s": 1.0,
    "reason": "",
    "texts": [" the", " and", "."],
    "parents": None,
    "path": [],
    "draft_s": None,
    "verify_s": None,
}
# What most batches contain, so that the small ones of a slow reply compress as well. Part of the format: never edit it.
PRIMER = msgspec.msgpack.encode([{"type": "Told", "id": 1, "round": _ROUND, "drafted_texts": [" the", " and", " of"]}])

_decoder = msgspec.msgpack.Decoder(list[RoundDone])


def pack(rounds: list[RoundDone]) -> bytes:
    """Returns one batch. Raises OverflowError for an integer of more than 64 bits."""
    records = msgspec.to_builtins(rounds)
    for record in records:
        round_ = record["round"]
        for name in ("channels", "rule", "draws", "refusal"):  # what many rounds do not have
            if not round_[name]:
                del round_[name]
        if "refusal" in round_:
            round_["refusal"] = {name: value for name, value in round_["refusal"].items() if value is not None}
    deflate = zlib.compressobj(6, zdict=PRIMER)
    return deflate.compress(msgspec.msgpack.encode(records)) + deflate.flush()


def unpack(data: bytes) -> list[RoundDone]:
    """Returns the rounds of a batch. Raises DamageError."""
    try:
        return _decoder.decode(_inflated(data))
    except (zlib.error, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamageError(f"a batch of rounds cannot be read ({error})") from error


def _inflated(batch: bytes) -> bytes:
    inflate = zlib.decompressobj(zdict=PRIMER)
    data = inflate.decompress(batch)
    if not inflate.eof:
        raise DamageError("a batch of rounds is cut short")
    return data


def text_of(rounds: Iterable[RoundDone], channel: Channel = "answer") -> str:
    """Returns the text that these rounds completed of the answer or the thought."""
    return "".join(one.round.text_in(channel) for one in rounds)


# --- checks -----------------------------------------------------------------------------------

_COUNT, _SECONDS, _SHARE = 2**31 - 1, 1e9, 1.000001
# The largest value of a field; the smallest is 0.
_MOST: dict[str, float] = {
    **dict.fromkeys(("tokens", "drafted", "accepted", "rounds", "prompt_tokens", "index", "width", "position"), _COUNT),
    **dict.fromkeys(("plain_token", "other_token", "context", "thought_tokens", "plain_rounds"), _COUNT),
    **dict.fromkeys(
        ("time_s", "draft_s", "verify_s", "ttft_s", "thought_s", "plain_s", "tokens_per_s", "mean_acceptance_length"),
        _SECONDS,
    ),
    **dict.fromkeys(("p", "q", "acceptance_rate", "acceptance_by_position"), _SHARE),
    **dict.fromkeys(("draws", "drafted_p", "emitted_q", "residual"), _SHARE),
    "made_s": 100 * _SECONDS,
    "id": 2**64 - 1,
}


def in_range(record: Any) -> bool:
    """Returns whether no number of a record is impossible by the name of its field; fields without a value are fine."""
    for name, most in _bounds(record.__class__):
        value = getattr(record, name)
        for number in value if isinstance(value, tuple) else (value,):
            if number is not None and not 0 <= number <= most:
                return False
    return True


@cache
def _bounds(kind: Hashable) -> tuple[tuple[str, float], ...]:
    """Returns the bounded fields of records of a kind, and their largest values."""
    names = {*getattr(kind, "__struct_fields__", ()), *getattr(kind, "__dataclass_fields__", ())}
    return tuple((name, most) for name, most in _MOST.items() if name in names)


def fault_of_round(one: RoundDone) -> str:
    """Checks a round from elsewhere, so that whoever shows it may rely on it; returns what is wrong, or "". A round of
    another program has no probabilities, and no draft."""
    r = one.round
    if len(r.p) != len(r.tokens) and (r.p or r.drafted):
        return "whose parts do not fit together"
    if len(r.q) != len(r.drafted) or len(r.texts) not in (0, len(r.tokens)):
        return "whose parts do not fit together"
    if len(r.channels) not in (0, len(r.tokens)):
        return "whose channels are not those of its tokens"
    if len(one.drafted_texts) not in (0, len(r.drafted)):
        return "whose drafted texts are not those of its draft"
    if len(r.draws) > r.depth:
        return "that drew more often than it decided"
    if r.accepted > min(len(r.tokens), len(r.drafted)):
        return "that accepted more than was drafted"
    if not in_range(r) or not in_range(one) or (r.refusal and not in_range(r.refusal)):
        return "with an impossible number"
    fits = not r.path if r.parents is None else len(r.path) == r.accepted and is_tree(r.parents, len(r.drafted), r.path)
    return "" if fits else "whose tree is not a tree"
