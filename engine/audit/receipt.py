"""The receipt of a reply: identical to plain decoding, or every difference and what it is. Plain values, no MLX.

"Exact" is with respect to the logits of the verify pass. A wider pass may round differently and flip two tokens that
all but tie; that is reported with its gap and never called identical. `engine.audit.reply_check` makes
receipts, `engine.audit.rounding` measures gap and noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

# tokens: each is plain decoding's own. distribution: each is possible, under rejection sampling, which keeps the
# distribution.
ReceiptPromise = Literal["tokens", "distribution"]
ReceiptVerdict = Literal["identical", "possible", "near-tie", "failure"]
MARGIN = 2.0  # times the noise: a gap as large as that may be a near-tie


@dataclass(frozen=True, slots=True)
class Difference:
    """A place where a reply differs from what plain decoding chooses after the same tokens.

    position: within the reply, from 0. plain_token, other_token: what plain decoding chooses there and what the reply
    has; None where it has ended, or where any possible token would have been right. plain_text,
    other_text: each token's text alone, where someone filled it in. gap_ulps: None where no rounding could close it
    (a reply ended, or the other token has probability 0). near_tie: the gap is within MARGIN times the noise, and
    the noise is no more than rounding makes.
    """

    position: int
    plain_token: int | None
    other_token: int | None
    gap_ulps: float | None
    noise_ulps: float | None
    near_tie: bool
    plain_text: str = ""
    other_text: str = ""

    @property
    def ends(self) -> bool:
        """Whether one of the two has ended there, and the other goes on."""
        return self.noise_ulps is None

    def __str__(self) -> str:
        tokens = f"plain {self.plain_token}, other {self.other_token}"
        verdict = "a near-tie" if self.near_tie else "a failure"
        if self.gap_ulps is None or self.noise_ulps is None:
            return f"differs at token {self.position} ({tokens}): {verdict}, no rounding explains it"
        sizes = f"gap {self.gap_ulps:.3g} ULPs, rounding noise {self.noise_ulps:.3g} ULPs"
        return f"differs at token {self.position} ({tokens}): {verdict}, {sizes}"


@dataclass(frozen=True, slots=True)
class Receipt:
    """tokens: of the reply, so many were compared with plain decoding. differences: by their positions, ascending.
    same_bits: whether all logits were the same to the last bit; None where that was not kept (exact-verify does).
    identical_width: the most tokens of a pass that had the bits of single steps where the reply was made; 1 where that
    is not known of more."""

    tokens: int
    differences: tuple[Difference, ...] = ()
    promise: ReceiptPromise = "tokens"
    same_bits: bool | None = None
    identical_width: int = 1

    @property
    def difference(self) -> Difference | None:
        """The first."""
        return self.differences[0] if self.differences else None

    @property
    def identical(self) -> bool:
        return self.promise == "tokens" and not self.differences

    @property
    def near_tie(self) -> bool:
        """Whether there are differences, and all only by rounding."""
        return bool(self.differences) and all(one.near_tie for one in self.differences)

    @property
    def failures(self) -> tuple[Difference, ...]:
        """The differences that no rounding explains."""
        return tuple(one for one in self.differences if not one.near_tie)

    @property
    def verdict(self) -> ReceiptVerdict:
        if self.differences:
            return "failure" if self.failures else "near-tie"
        return "identical" if self.promise == "tokens" else "possible"

    @property
    def summary(self) -> str:
        """In a few words: "identical over 212 tokens", "1 near-tie at token 57"."""
        if not self.differences:
            tokens = f"{self.tokens} token{'' if self.tokens == 1 else 's'}"
            text = f"identical over {tokens}" if self.promise == "tokens" else f"{tokens}, all possible for the target"
            return text if self.same_bits is None else f"{text}, {self._bits}"
        failed, near = len(self.failures), len(self.differences) - len(self.failures)
        if not failed:
            return _placed(near, "near-tie", self.differences[0].position)
        after = f"{',' if failed > 1 else ''} and {_counted(near, 'near-tie')}" if near else ""
        return _placed(failed, "failure", self.failures[0].position) + after

    @property
    def _bits(self) -> str:
        """Whether all bits are the same, and where that had to be so."""
        if not self.same_bits:
            return "not to the last bit"
        width = self.identical_width
        return "to the last bit" + (f": bit-identical by construction up to width {width}" if width > 1 else "")

    def __str__(self) -> str:
        return str(self.difference) if len(self.differences) == 1 else self.summary


def first_difference(plain: Sequence[int], other: Sequence[int]) -> int | None:
    """The first place where two replies differ, the end of the shorter one included; None if they don't."""
    for i, (a, b) in enumerate(zip(plain, other, strict=False)):
        if a != b:
            return i
    return None if len(plain) == len(other) else min(len(plain), len(other))


def _placed(number: int, what: str, first: int) -> str:
    return f"{_counted(number, what)}{', the first' if number > 1 else ''} at token {first}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
