"""Exact-verify: plain and speculative decoding agree to the last bit of every logit, of every kind of memory."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.audit import fingerprints
from engine.audit.exact_target import ExactTarget
from engine.audit.fingerprints import first_other_bits
from engine.audit.identical_width import IdenticalWidth
from engine.audit.verify_blocks import BLOCK_WIDTH, VerifyBlocks
from engine.errors import RedlineError, UnsupportedCache, UsageError
from engine.events import Round
from engine.policy.fixed import FixedLength
from engine.session import Prompt, Session
from engine.target.cached_model import CachedModel
from engine.tree.draft_tree import DraftTree
from tests.engine.bits import RowLogModel, reply_bits
from tests.engine.cache.test_model_cache import wide_llama
from tests.engine.conversations import CONTEXT, LONG, MODELS, SHAPED, SHORT, TURN, answer, drafter
from tests.engine.fakes import PIECES, ByteTokenizer
from tests.engine.fewer import fewer
from tests.engine.replies import PROMPT, Scripted
from tests.engine.rounding_by_rows import round_by_rows
from tests.programs.sweep import EveryLength, mistakes, names
from tests.toys.architectures import NOT_BUILT, build

TOKENS = 48
# KV caches; sliding windows; recurrent; hybrid; soft caps; latent attention with experts; experts; attention sinks
NAMES = (*MODELS, "gemma2", "deepseek_v3", "mixtral", "gpt_oss")
EXACT_SHORT, EXACT_SHAPED = replace(SHORT, exact=True), replace(SHAPED, exact=True)


@pytest.fixture(autouse=True)
def no_wide_pass_is_identical(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fixed blocks on every machine; `test_identical_width.py` has replies without them."""
    monkeypatch.setattr("engine.audit.identical_width.identical_width", lambda target: IdenticalWidth(1))


class OneByOne(FixedLength):
    """Plain steps, none of which is launched before the one before has landed."""

    def next_is_plain(self, hints: Sequence[float | None] = ()) -> bool:
        return False


def guesses(target: RowLogModel, ids: list[int], prompt: Sequence[int] = PROMPT) -> Scripted:
    return Scripted(len(prompt), ids, mistakes(len(ids)), target.vocabulary)


@pytest.mark.parametrize("name", [*fewer(NAMES, slow=["mamba2"]), "quantized keys"])
def test_every_logit_is_the_same_to_the_last_bit(name: str) -> None:
    """And, where they are kept for each token, the keys and values in the end."""
    target, other = (
        RowLogModel(wide_llama(), 8, 32) if name == "quantized keys" else RowLogModel(MODELS.get(name) or build(name))
        for _ in range(2)
    )
    ids, bits, _ = reply_bits(target, width=BLOCK_WIDTH, tokens=TOKENS)
    others, theirs, rounds = reply_bits(other, guesses(other, ids), EveryLength(), BLOCK_WIDTH, TOKENS)
    assert others == ids
    assert np.array_equal(theirs, bits)
    assert sum(round_.accepted for round_ in rounds) > TOKENS // 3
    assert {round_.width for round_ in rounds} == {BLOCK_WIDTH}
    if name in ("qwen3", "llama"):
        assert target.length == other.length > len(PROMPT)
        for mine, his in zip(kept_bits(target), kept_bits(other), strict=True):
            assert np.array_equal(mine, his)


def kept_bits(target: RowLogModel) -> list[Any]:
    return [np.array(array.view(mx.uint8)) for leaf in target.cache.entries for array in leaf.keys_and_values()]


def agreement(width: int | None) -> float:
    """Returns the share of logits that are the same in plain and in speculative decoding."""
    target = RowLogModel(MODELS["qwen3"])
    ids, bits, _ = reply_bits(target, width=width, tokens=TOKENS)
    _, theirs, _ = reply_bits(target, guesses(target, ids), EveryLength(), width, TOKENS)
    return float((bits == theirs).all(1).mean())


def test_it_makes_products_agree_that_round_by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    round_by_rows(monkeypatch)
    assert agreement(None) < 0.5
    assert agreement(BLOCK_WIDTH) == 1


@pytest.mark.parametrize("name", fewer(MODELS, slow=["mamba2", "qwen3_next"]))
def test_steps_launched_ahead_are_the_same_to_the_last_bit(name: str) -> None:
    target = RowLogModel(MODELS[name])
    ids, bits, _ = reply_bits(target, width=BLOCK_WIDTH, tokens=TOKENS)
    others, theirs, _ = reply_bits(target, None, OneByOne(0), BLOCK_WIDTH, TOKENS)
    assert others == ids
    assert np.array_equal(theirs, bits)


@pytest.mark.slow
def test_every_architecture_of_mlx_lm_keeps_its_bits_or_is_refused() -> None:
    refused = []
    for name in sorted(set(names()) - set(NOT_BUILT)):
        try:
            target = RowLogModel(build(name))
            ids, bits, _ = reply_bits(target, width=BLOCK_WIDTH, tokens=20)
            _, theirs, _ = reply_bits(target, guesses(target, ids), EveryLength(), BLOCK_WIDTH, 20)
        except RedlineError:
            refused.append(name)
            continue
        assert np.array_equal(theirs, bits), name
    assert refused == ["llama4", "phi3small"]


@pytest.mark.parametrize("name", fewer(MODELS, slow=["mamba2", "llama"]))
def test_later_turns_and_edits_have_the_bits_of_a_fresh_conversation(name: str) -> None:
    """What is kept of earlier turns was made by passes that a fresh start would make too."""
    session = Session(CachedModel(MODELS[name]), ByteTokenizer(), CONTEXT)
    who = drafter("lookup", name)
    first = [*LONG[:70], 11]
    said = [*first, *answer(session, first, EXACT_SHORT, who).ids]
    for prompt in ([*said, *TURN], [*said[:-3], 40, 41], [*first[:66], 5], [50, *first]):
        again = answer(session, prompt, EXACT_SHORT, who)
        fresh = answer(Session(CachedModel(MODELS[name]), ByteTokenizer(), CONTEXT), prompt, EXACT_SHORT)
        assert again.ids == fresh.ids
        assert first_other_bits(fresh.rounds, again.rounds) is None


def test_the_next_turn_keeps_the_blocks_that_it_would_make_itself() -> None:
    session = Session(CachedModel(MODELS["qwen3"]), ByteTokenizer(), CONTEXT)
    first = LONG[:40]
    said = [*first, *answer(session, first, EXACT_SHORT).ids]
    assert answer(session, [*said, *TURN], EXACT_SHORT).reused == (len(said) - 1) // BLOCK_WIDTH * BLOCK_WIDTH
    assert answer(session, [*said, *LONG[:30]], EXACT_SHORT).reused == 0  # 64 of it make one wide block now


@pytest.mark.slow_for("qwen3")
@pytest.mark.parametrize("name", ["qwen3", "mamba2"])
def test_a_reply_gone_on_with_has_the_bits_of_one_that_was_never_cut(name: str) -> None:
    def session() -> Session:
        return Session(CachedModel(MODELS[name]), ByteTokenizer(), CONTEXT)

    prompt = LONG[:60]  # with what was said there would be a block of 64
    settings = replace(EXACT_SHAPED, max_tokens=30)
    whole = [
        round_ for round_ in session().continue_tokens(Prompt(prompt), settings) if hasattr(round_, "fingerprints")
    ]
    said = [token for round_ in whole[:13] for token in round_.tokens]
    rest = session().continue_tokens(Prompt(prompt), replace(settings, max_tokens=17), continuation_ids=said)
    assert first_other_bits(whole[13:], [round_ for round_ in rest if hasattr(round_, "fingerprints")]) is None


def test_leaving_it_forgets_what_its_passes_made() -> None:
    session, fresh = (Session(CachedModel(MODELS["qwen3"]), ByteTokenizer(), CONTEXT) for _ in range(2))
    answer(session, PROMPT, EXACT_SHORT)
    usual = answer(session, [*PROMPT, 7], SHORT)
    assert usual.reused == 0
    assert [r.p for r in usual.rounds] == [r.p for r in answer(fresh, [*PROMPT, 7], SHORT).rounds]
    assert not any(round_.fingerprints for round_ in usual.rounds)


def test_a_token_at_a_blocks_end_is_read_without_a_draft() -> None:
    target = RowLogModel(MODELS["qwen3"])
    ids, _, _ = reply_bits(target, width=BLOCK_WIDTH, tokens=TOKENS)
    _, _, rounds = reply_bits(target, Scripted(len(PROMPT), ids), FixedLength(8), BLOCK_WIDTH, TOKENS)
    place = len(PROMPT) - 1
    for round_ in rounds[:-1]:
        room = BLOCK_WIDTH - 1 - place % BLOCK_WIDTH
        assert len(round_.drafted) == round_.accepted == room
        assert (round_.reason == "no room for a draft here") == (room == 0)
        place += len(round_.tokens)


def test_trees_are_refused_and_say_why() -> None:
    target = ExactTarget(CachedModel(MODELS["qwen3"]), VerifyBlocks.for_prompt(len(PROMPT)))
    with pytest.raises(UsageError, match="several tokens at one position"):
        target.continue_from(PROMPT[:21], mx.array([1, 2]), DraftTree.of([-1, -1]))


def test_a_draft_past_its_block_is_an_error() -> None:
    target = ExactTarget(CachedModel(MODELS["qwen3"]), VerifyBlocks.for_prompt(len(PROMPT)))
    assert target.draft_room(21) == 3
    with pytest.raises(ValueError, match="room for 3"):
        target.continue_from(PROMPT[:21], mx.array([1, 2, 3, 4]))


def test_a_chunked_cache_is_refused_and_says_why() -> None:
    target = CachedModel(build("llama4"))
    with pytest.raises(UnsupportedCache, match="chunked cache"):
        ExactTarget(target, VerifyBlocks.for_prompt(10))


def test_a_prompt_of_one_token_and_one_at_a_blocks_edge_agree() -> None:
    target = RowLogModel(MODELS["llama"])
    for size in (1, 4, 5, 8):
        prompt = PROMPT[:size]
        ids, bits, _ = reply_bits(target, width=BLOCK_WIDTH, tokens=12, prompt=prompt)
        _, theirs, _ = reply_bits(target, guesses(target, ids, prompt), FixedLength(3), BLOCK_WIDTH, 12, prompt)
        assert np.array_equal(theirs, bits)


def test_a_reply_that_ends_inside_a_round_has_a_fingerprint_a_token() -> None:
    """By an end of sequence, and by a stop string."""
    target = RowLogModel(MODELS["qwen3"])
    ids, _, _ = reply_bits(target, width=BLOCK_WIDTH, tokens=TOKENS)
    assert ids[4] not in ids[:4]
    stop = replace(EXACT_SHORT, stop=(PIECES[ids[4]].decode(),))
    for settings, eos in ((EXACT_SHORT, frozenset({ids[4]})), (stop, frozenset[int]())):
        session = Session(CachedModel(MODELS["qwen3"]), ByteTokenizer(eos), CONTEXT)
        cut = answer(session, PROMPT, settings, Scripted(len(PROMPT), ids))
        assert cut.ids == ids[:5]
        assert [len(round_.fingerprints) for round_ in cut.rounds] == [len(round_.tokens) for round_ in cut.rounds]


# --- blocks and fingerprints ---


@pytest.mark.parametrize("prompt", [1, 4, 5, 64, 70, 513, 581, 1200])
@pytest.mark.parametrize("width", [1, 8])
def test_blocks_follow_each_other_without_gaps_whatever_the_prompt(prompt: int, width: int) -> None:
    grid = VerifyBlocks.for_prompt(prompt, width)
    blocks = list(grid.blocks(0, prompt + 30))
    assert blocks[0][0] == 0
    assert all(one[1] == other[0] for one, other in pairwise(blocks))
    for first, end in blocks:
        assert all(grid.block(place) == (first, end) for place in range(first, end))
        assert first % (end - first) == 0
        assert end - first == width or end <= prompt - 1
    assert blocks[-1][1] >= prompt + 30


def test_a_draft_ends_where_its_block_ends() -> None:
    grid = VerifyBlocks.for_prompt(10, 4)
    assert [grid.room(place) for place in range(8, 14)] == [3, 2, 1, 0, 3, 2]


def test_blocks_are_kept_as_far_as_both_grids_have_them() -> None:
    short, long = VerifyBlocks.for_prompt(100, 4), VerifyBlocks.for_prompt(700, 4)
    # 64 and 36 by fours; 512, 64, 64, 56 by fours
    assert short.shared(long, 100) == long.shared(short, 700) == 0
    assert short.shared(VerifyBlocks.for_prompt(120, 4), 118) == 116
    assert short.shared(VerifyBlocks.for_prompt(130, 4), 118) == 64
    assert VerifyBlocks.for_prompt(600, 4).shared(long, 590) == 576
    assert short.shared(short, 97) == 96


def test_ends_that_longer_prompts_may_share_are_ends_of_wide_blocks() -> None:
    grid = VerifyBlocks.for_prompt(700, 4)  # 512, 64, 64, 56 by fours
    assert grid.shared_ends([695]) == [512, 640]
    assert grid.shared_ends([600, 695]) == [512, 576, 640]
    assert grid.shared_ends([300]) == [0]  # no block of 64 lies before 512
    assert grid.shared_ends([]) == []


def test_a_width_that_divides_no_wide_block_is_refused() -> None:
    with pytest.raises(ValueError, match="blocks of 3"):
        VerifyBlocks.for_prompt(10, 3)
    with pytest.raises(ValueError, match="5 tokens"):
        VerifyBlocks(4, 5)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_one_bit_of_one_logit_changes_its_rows_fingerprint_alone(dtype: mx.Dtype) -> None:
    logits = mx.array(np.random.default_rng(0).normal(size=(3, 200)).astype(np.float32)).astype(dtype)
    kind = mx.uint32 if dtype == mx.float32 else mx.uint16
    bits = np.array(logits.view(kind))
    before = fingerprints.row_checksums(logits).tolist()
    for column in (0, 1, 199):
        for bit in (0, bits.itemsize * 8 - 1):
            other = bits.copy()
            other[1, column] ^= 1 << bit
            after = fingerprints.row_checksums(mx.array(other).view(dtype)).tolist()
            assert [a == b for a, b in zip(before, after, strict=True)] == [True, False, True]
            assert all(mine != theirs for mine, theirs in zip(before[1], after[1], strict=True))


def test_numbers_that_change_places_change_the_fingerprint() -> None:
    one, other = mx.array([[1.0, 2.0, 3.0]]), mx.array([[2.0, 1.0, 3.0]])
    assert fingerprints.row_checksums(one).tolist() != fingerprints.row_checksums(other).tolist()


def test_a_fingerprint_is_a_whole_number_to_every_reader_of_json() -> None:
    assert fingerprints.combine_checksum((2**32 - 1, 2**32 - 1)) == 2**53 - 1
    assert fingerprints.combine_checksum((7, 1)) == 7 + 2**32


def test_the_first_row_of_other_bits_is_found_across_rounds() -> None:
    def rounds(*sizes: int, values: list[int]) -> list[Round]:
        places = iter(values)
        return [
            Round(i, (0,) * n, (), 0, (1.0,) * n, (), 4, 0.0, fingerprints=tuple(next(places) for _ in range(n)))
            for i, n in enumerate(sizes)
        ]

    plain = rounds(1, 1, 1, 1, values=[5, 6, 7, 8])
    assert fingerprints.first_other_bits(plain, rounds(3, 1, values=[5, 6, 7, 8])) is None
    assert fingerprints.first_other_bits(plain, rounds(2, 2, values=[5, 6, 9, 8])) == 2
    assert fingerprints.first_other_bits(plain, rounds(3, values=[5, 6, 7])) == 3
    with pytest.raises(ValueError, match="no fingerprints"):
        fingerprints.first_other_bits(plain, [Round(0, (1,), (), 0, (1.0,), (), 1, 0.0)])
