"""Where the blocks of exact-verify lie, and what a fingerprint shows."""

from itertools import pairwise

import mlx.core as mx
import numpy as np
import pytest

from engine.audit import fingerprints
from engine.audit.verify_blocks import VerifyBlocks
from engine.events import Round


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
