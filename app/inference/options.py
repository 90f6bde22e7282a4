"""What to load and how to decode, as one frozen value that is checked where it enters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from engine.audit.verify_blocks import WHY_NO_TREES
from engine.errors import UsageError
from engine.settings import AcceptanceRule, SamplingSettings
from models.paths import name_of

BUILTIN = "builtin"
KV_BITS = (8, 4)
AUTO = "auto"


@dataclass(frozen=True)
class Options:
    """target: "builtin" or a model folder. drafters, temperatures: one, or several for the benchmark; a drafter is
    "auto", "none", "lookup", the name of a shipped one or a folder.
    draft_lengths: tokens a round, each or None for auto; one, or several for the benchmark. tree: whether drafters that
    can branch do; the draft length then counts the nodes. exact: whether plain and speculative decoding are to agree to
    the last bit, which trees cannot. context: tokens, or None for what the model declares and this machine can hold.
    reproducible: whether draft length auto goes by the stored costs alone, so that the same request has the same
    rounds, and never by the clock; at temperature 0 it never does.
    kv_bits: of the target's keys and values, None for as the model computes them.
    cache_root: where imported models go, or None for the user's cache directory."""

    target: str = BUILTIN
    drafters: tuple[str, ...] = (AUTO,)
    temperatures: tuple[float, ...] = (0.0,)
    draft_lengths: tuple[int | None, ...] = (None,)
    tree: bool = False
    exact: bool = False
    reproducible: bool = True
    rule: AcceptanceRule = "rejection"
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    max_tokens: int = 512
    context: int | None = None
    kv_bits: int | None = None
    cache_root: Path | None = None

    def __post_init__(self) -> None:
        if self.exact and self.tree:
            raise UsageError(f"{WHY_NO_TREES}: choose one of the two")
        if self.context is not None and self.context < 2:
            raise UsageError(f"context is {self.context}: give at least 2 tokens")
        for temperature in self.temperatures:
            self.settings(temperature).check(self.tree)
        for length in self.draft_lengths:
            replace(self.settings(), draft_length=length).check(self.tree)

    @property
    def drafter(self) -> str:
        return self.drafters[0]

    @property
    def draft_length(self) -> int | None:
        return self.draft_lengths[0]

    @property
    def seed_line(self) -> str:
        """The seed, where with it the same text can be had again."""
        repeats = self.rule == "coupled" or self.drafter == "none" or not self.by_the_clock
        return f"seed {self.seed}" if self.temperatures[0] > 0 and repeats else ""

    @property
    def by_the_clock(self) -> bool:
        """Whether draft length auto corrects costs by how long rounds take. It remembers over replies how drafts came
        out, so no noise may serve two of them."""
        return self.temperatures[0] > 0 and not self.reproducible and self.draft_length is None

    def settings(self, temperature: float | None = None) -> SamplingSettings:
        """SamplingSettings for one reply, at the first temperature unless another is given."""
        return SamplingSettings(
            temperature=self.temperatures[0] if temperature is None else temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
            seed=self.seed,
            acceptance=self.rule,
            draft_length=self.draft_lengths[0],
            exact=self.exact,
            max_tokens=self.max_tokens,
            stop=self.stop,
        )


def target_name(options: Options) -> str:
    """Returns what to call the target."""
    return "SmolLM2-135M-Instruct" if options.target == BUILTIN else name_of(Path(options.target))


def read_draft_length(text: str) -> int | None:
    """Returns the draft length in tokens, or None for auto. Raises UsageError for what is neither."""
    if text == AUTO:
        return None
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"draft-length is {text!r}: give auto or a whole number; 0 is plain decoding") from None
