"""A drafter with other tokens: the text is the target's, and what the drafter has read is the same bytes."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from engine.drafters.cross_tokenizer import CrossTokenizerModel, TextDrafter, TokenBytes
from engine.policy.fixed import FixedLength
from engine.session import Prompt, Session
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from tests.engine.conversations import MODELS, NEARBY, read
from tests.engine.fakes import ByteTokenizer
from tests.engine.replies import PROMPT, draft_context

# 64 tokens each, of which 40 are single bytes that both have, at other ids; é is two bytes, whole in no token.
LETTERS = [
    bytes([byte]) for byte in (*range(ord("a"), ord("z") + 1), *range(ord("0"), ord("9") + 1), 0xC3, 0xA9, 32, 10)
]
PAIRS = [left + right for left in LETTERS[:6] for right in LETTERS[:4]]
TARGET = [*LETTERS, *PAIRS[:23], b""]
DRAFTER = [b"", *reversed(LETTERS), *(pair[::-1] for pair in PAIRS[:22]), b"abc"]


def encode(text: str) -> Sequence[int]:
    """The longest tokens first."""
    data, found = text.encode(), []
    while data:
        best = max((token for token in DRAFTER if token and data.startswith(token)), key=len, default=b"")
        if not best:
            return found
        found.append(DRAFTER.index(best))
        data = data[len(best) :]
    return found


def encode_target(text: str) -> Sequence[int]:
    """The longest tokens first."""
    data, found = text.encode(), []
    while data:
        size = next((size for size in (2, 1) if data[:size] in TARGET), 0)
        found += [TARGET.index(data[:size])] if size else []
        data = data[size or 1 :]
    return found


TOKENS = TokenBytes(TARGET, DRAFTER, encode, start=(0,), ends=((63, 0),), encode_target=encode_target)
KINDS = {"TLI": CrossTokenizerModel, "SLEM": TextDrafter}


def drafter_of(name: str, tokens: TokenBytes = TOKENS, kind: str = "TLI") -> CrossTokenizerModel:
    return KINDS[kind](CachedModel(NEARBY[name]), tokens)


def read_bytes(drafter: Any) -> bytes:
    return b"".join(DRAFTER[token] for token in drafter._tokens)


@pytest.mark.parametrize(("name", "kind"), [("qwen3", "SLEM"), ("qwen3_next", "TLI")])
def test_what_is_read_is_the_committed_text_whatever_was_refused_or_edited(name: str, kind: str) -> None:
    """Turns, an edited turn and a shorter one: the own tokens stand for the committed bytes, but for an unfinished
    character, and the cache holds a prefix of them."""
    drafter, target = drafter_of(name, kind=kind), CachedModel(MODELS[name])
    session, settings = Session(target, ByteTokenizer(), 1000), SamplingSettings(max_tokens=8, temperature=0.8, seed=1)
    prompt = list(PROMPT)
    for turn in ([7, 8, 9], [40, 41], [], [5, 6]):
        events = list(session.continue_tokens(Prompt(prompt), settings, drafter, FixedLength(3)))
        committed = b"".join(TARGET[token] for token in session.tokens[:-1])
        drafter._read(session.tokens[:-1])
        assert committed.startswith(read_bytes(drafter)) and len(committed) - len(read_bytes(drafter)) <= 3
        assert drafter.model.length <= len(drafter._tokens)
        prompt = [*prompt[:-2], *read(events).ids[:5], *turn]


def test_accepted_drafts_are_not_read_again() -> None:
    """Three drafted tokens, of which two are accepted: the cache keeps what it has read of those."""
    drafter = drafter_of("qwen3")
    draft = drafter.propose(draft_context(PROMPT), 3)
    own, tokens = len(drafter._tokens), [int(token) for token in np.array(draft.tokens)]
    drafter.rewind(len(PROMPT) + 2)
    assert drafter.model.length == own + 2
    drafter._read([*PROMPT, *tokens[:2], 3])
    assert drafter._tokens[own : own + 1] == [drafter._own[tokens[0]]]
    assert read_bytes(drafter) == b"".join(TARGET[token] for token in [*PROMPT, *tokens[:2], 3])
    assert drafter.model.length >= own + 1


def greedy_of(letters: bytes) -> Any:
    """A text drafter whose model always goes on with these letters."""
    drafter: Any = drafter_of("qwen3", kind="SLEM")
    drafter._likeliest = lambda count: [DRAFTER.index(bytes([letter])) for letter in letters[:count]]
    return drafter


def test_text_is_proposed_in_the_targets_tokens_across_boundaries() -> None:
    """Four letters are two tokens of the target, one of which no token of the drafter is."""
    drafter = greedy_of(b"abea")
    draft = drafter.propose(draft_context(PROMPT, SamplingSettings(temperature=1.0)), 4)
    assert [TARGET[int(token)] for token in np.array(draft.tokens)] == [b"ab", b"ea"]
    assert draft.logq is None and b"ea" not in DRAFTER
    assert [drafter._own_count(kept) for kept in (0, 1, 2)] == [0, 2, 4]


def test_own_tokens_of_accepted_text_stay() -> None:
    """Of two drafted tokens the first is accepted: the two own tokens that it stands for are not read again."""
    drafter = drafter_of("qwen3", kind="SLEM")
    tokens = [int(token) for token in np.array(drafter.propose(draft_context(PROMPT), 3).tokens)]
    own, kept = len(drafter._tokens), drafter._own_count(1)
    drafter.rewind(len(PROMPT) + 1)
    assert drafter.model.length == own + min(kept, 2)
    drafter._read([*PROMPT, tokens[0], 3])
    assert read_bytes(drafter) == b"".join(TARGET[token] for token in [*PROMPT, tokens[0], 3])


def test_the_end_is_proposed_by_its_role() -> None:
    drafter = greedy_of(b"")
    drafter._likeliest = lambda count: [DRAFTER.index(b"a"), 0, 5][:count]
    assert np.array(drafter.propose(draft_context(PROMPT), 3).tokens).tolist() == [TARGET.index(b"a"), 63]


def test_an_unfinished_character_is_waited_for() -> None:
    drafter = drafter_of("qwen3")
    half = [1, 2, TARGET.index(b"\xc3")]

    for tokens, drafted in ((half, 0), ([*half, TARGET.index(b"\xa9")], 2)):
        assert drafter.propose(draft_context(tokens), 2).tokens.size == drafted
        drafter.rewind(len(tokens))
    assert read_bytes(drafter) == b"bc\xc3\xa9"


def test_a_tokenizer_that_changes_the_text_is_not_trusted() -> None:
    """Where encoding does not give back the bytes, the longest tokens that fit are taken."""
    lower = dataclasses.replace(TOKENS, encode=lambda text: encode(text.replace("a", "b")))
    drafter = drafter_of("qwen3", lower)
    drafter._read([0, 1, 2, 0])
    assert read_bytes(drafter) == b"abca"


def test_only_tokens_that_both_have_are_drafted_and_ends_by_their_role() -> None:
    pairs = dict(TOKENS.shared())
    assert all(TARGET[number] == DRAFTER[own] for number, own in pairs.items() if number != 63)
    assert pairs[63] == 0 and len(pairs) > 40
    drafter = drafter_of("qwen3")
    assert set(np.array(drafter.needs.token_map).tolist()) == set(pairs)
    with pytest.raises(ValueError, match="no token in common"):
        drafter_of("qwen3", TokenBytes([b"x"], [b"y"], encode))


def test_text_of_other_bytes_is_not_proposed() -> None:
    """Where encoding does not give back the bytes there is nothing to propose."""
    lower = dataclasses.replace(TOKENS, encode_target=lambda text: encode_target(text.replace("a", "b")))
    drafter = drafter_of("qwen3", lower, "SLEM")
    own = [DRAFTER.index(b"a"), DRAFTER.index(b"c")]
    drafter._likeliest = lambda count: own[:count]  # type: ignore[attr-defined]
    assert drafter.propose(draft_context(PROMPT), 2).tokens.size == 0
