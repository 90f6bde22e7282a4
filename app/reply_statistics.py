"""The numbers of a reply in one line of words, the same in the terminal and under a message of the window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from app.store.records import StoredReceipt


class Numbers(Protocol):
    """What `Metrics` and `Statistics` have in common; rates are None where they mean nothing."""

    @property
    def tokens(self) -> int: ...
    @property
    def drafted(self) -> int: ...
    @property
    def accepted(self) -> int: ...
    @property
    def ttft_s(self) -> float | None: ...
    @property
    def tokens_per_s(self) -> float | None: ...
    @property
    def acceptance_rate(self) -> float | None: ...
    @property
    def mean_acceptance_length(self) -> float | None: ...


def in_words(numbers: Numbers, endings: Sequence[str] = (), plan: str = "") -> str:
    """endings: how the reply ended, where that needs a word. plan: why nothing was drafted, where nothing was."""
    tokens = ", ".join([count(numbers.tokens, "token"), *endings])
    return " · ".join([tokens, *_times(numbers), *_acceptance(numbers, plan)])


def receipt_in_words(kept: StoredReceipt, stale: bool = False) -> str:
    """Describes a receipt in words. stale: the reply was continued after it was verified."""
    receipt = kept.receipt
    parts = [f"{receipt.summary[:1].upper()}{receipt.summary[1:]}"]
    if stale:
        parts.append(f"of the first {receipt.tokens}, before it went on")
    if kept.elsewhere:
        parts.append("by the file that it came with")
    return ", ".join(parts)


def count(number: int, what: str) -> str:
    """1 token, 2 tokens."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def _times(numbers: Numbers) -> list[str]:
    speed, ttft_s = numbers.tokens_per_s, numbers.ttft_s
    parts = [] if speed is None else [f"{speed:.1f} tok/s"]
    return parts if ttft_s is None else [*parts, f"TTFT {ttft_s:.2f} s"]


def _acceptance(numbers: Numbers, plan: str) -> list[str]:
    rate, tau = numbers.acceptance_rate, numbers.mean_acceptance_length
    if rate is None or tau is None:
        return [f"nothing drafted ({plan})"] if plan else []
    counts = f"{numbers.accepted}/{numbers.drafted}"
    return [f"acceptance rate {rate:.0%} ({counts})", f"mean acceptance length {tau:.2f}"]
