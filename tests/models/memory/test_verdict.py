"""Good, tight or refused; the number, and what would make it fit."""

import pytest

from models.memory.memory_verdict import (
    NOTHING,
    PROCESS_BYTES,
    AvailableMemory,
    Footprint,
    FootprintAt,
    Share,
    judge_memory,
    largest_context,
)

GB = 1024**3
MB = 1024**2


def growing(weights: int = 4 * GB, a_token: int = MB, drafter: Share = NOTHING) -> FootprintAt:
    """A pair whose cache takes so much a token."""

    def at(context: int) -> Footprint:
        return Footprint(context, Share(weights, cache=context * a_token), drafter)

    return at


def test_the_worst_moment_counts() -> None:
    working = Footprint(10, Share(5, 1, 30, 7, 100), Share(2, 1, 4, 9, 11))
    assert working.total == PROCESS_BYTES + 100 + 11 + 5 + 2 + 30 + 4 + 9
    assert working.alone.total == PROCESS_BYTES + 100 + 5 + 30 + 7
    loading = Footprint(10, Share(5 * GB, 5 * GB, 3, 7, 100))
    assert loading.total == PROCESS_BYTES + 10 * GB
    drafter_loading = Footprint(10, Share(5 * GB, 0, 3, 7), Share(GB, GB))
    assert drafter_loading.total == PROCESS_BYTES + 7 * GB


@pytest.mark.parametrize(
    ("total_gb", "level"),
    [(64, "good"), (16, "good"), (15.5, "tight"), (13.5, "tight"), (13, "refused"), (4, "refused")],
)
def test_the_level_follows_from_what_there_is(total_gb: float, level: str) -> None:
    # 4 GB of weights, 8 GB of cache, 0.11 of process: 12.1 of 0.9 of memory
    assert judge_memory(growing(), 8192, AvailableMemory(int(total_gb * GB))).level == level


def test_on_a_mac_what_the_gpu_may_wire_counts_and_not_the_memory() -> None:
    assert judge_memory(growing(), 8192, AvailableMemory(18 * GB)).level == "good"
    assert judge_memory(growing(), 8192, AvailableMemory(18 * GB, wired=12 * GB)).level == "refused"


def test_memory_that_others_hold_makes_it_tight() -> None:
    found = judge_memory(growing(), 8192, AvailableMemory(64 * GB, free=6 * GB))
    assert found.level == "tight" and "6.0 GB of it free now" in found.reason
    assert found.remedies == ("close other programs",)


def test_a_refusal_says_the_number_and_what_would_fit() -> None:
    found = judge_memory(growing(), 8192, AvailableMemory(10 * GB), growing(a_token=MB // 2))
    assert found.needed == growing()(8192).total
    assert found.reason == "needs 12.1 GB for a context of 8,192 tokens; 9.0 GB can be used here"
    assert found.remedies == ("a context of 4,864 tokens fits", "it fits with 8-bit keys and values (--kv-bits 8)")
    assert growing()(4864).total <= 9 * GB < growing()(4864 + 256).total


def test_what_else_would_fit_is_named() -> None:
    drafted = judge_memory(growing(4 * GB, 1, Share(4 * GB)), 512, AvailableMemory(8 * GB))
    assert drafted.level == "refused" and drafted.remedies == ("it fits without its drafter, or with prompt lookup",)
    large = judge_memory(growing(20 * GB), 512, AvailableMemory(8 * GB))
    assert large.remedies == ("choose a smaller model or fewer bits per weight: the weights need 20.0 GB",)


@pytest.mark.parametrize(
    ("asked", "most_gb", "longest"),
    [(8192, 20, 8192), (8192, 9, 4864), (8192, 4.7, 512), (8192, 4.3, None), (100, 5, 100), (100, 4, None)],
)
def test_the_longest_context_that_fits(asked: int, most_gb: float, longest: int | None) -> None:
    assert largest_context(growing(), asked, int(most_gb * GB)) == longest
