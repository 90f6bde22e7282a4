"""What to load and how to decode, as one frozen value that is checked where it enters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app.inference.host_file import Host
from engine.audit.verify_blocks import WHY_NO_TREES
from engine.errors import UsageError
from engine.settings import AcceptanceRule, Grammar, SamplingSettings
from models.grammar_matcher import check_grammar
from models.paths import name_of

BUILTIN = "builtin"
KV_BITS = (8, 4)
AUTO = "auto"
MAX_THOUGHT = 8192  # tokens of thought before the answer, where the user does not say
_SAME_NAMES = (  # in SamplingSettings
    *("top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "exact", "max_tokens"),
    *("stop", "thinking", "effort", "from_model", "grammar"),
)


@dataclass(frozen=True)
class Options:
    """What to load and how to decode.

    target: "builtin", the name of a model or its folder. drafters, temperatures, draft_lengths: one, or several for the
    benchmark. A drafter is "auto", "none", "lookup", the name of a shipped one or a folder; a draft length is tokens a
    round, or None for auto. tree: whether drafters that can branch do so; the draft length then counts nodes. exact:
    whether plain and speculative decoding must agree to the last bit, which trees cannot. reproducible: whether the
    same request must draft the same tokens, so that automatic draft length does not go by the clock. context: tokens,
    None for what the model declares and this machine can hold. kv_bits: of the target's keys and values, None for as
    the model computes them. hosts: the machines that share the target, this one first; none for this one alone.
    cache_root: of imported models, None for the user's cache directory. history: the
    folder of earlier replies to draft from, None for none. The rest is as in
    `SamplingSettings`.
    """

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
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    max_tokens: int = 512
    max_thought_tokens: int | None = None
    thinking: bool | None = None
    effort: str = ""
    from_model: tuple[str, ...] = ()
    grammar: Grammar | None = None
    context: int | None = None
    kv_bits: int | None = None
    hosts: tuple[Host, ...] = ()
    cache_root: Path | None = None
    history: Path | None = None

    def __post_init__(self) -> None:
        if self.context is not None and self.context < 2:
            raise UsageError(f"context is {self.context}: give at least 2 tokens")
        for temperature in self.temperatures:
            check_settings(self.settings(temperature), self.tree)
        for length in self.draft_lengths:
            check_settings(replace(self.settings(), draft_length=length), self.tree)

    @classmethod
    def of(cls, settings: SamplingSettings) -> Options:
        """Returns options with these sampling settings. Raises UsageError if they are invalid."""
        return cls(
            temperatures=(settings.temperature,),
            draft_lengths=(settings.draft_length,),
            rule=settings.acceptance,
            seed=settings.seed or 0,
            **{name: getattr(settings, name) for name in _SAME_NAMES},
        )

    @property
    def drafter(self) -> str:
        return self.drafters[0]

    @property
    def draft_length(self) -> int | None:
        return self.draft_lengths[0]

    @property
    def seed_line(self) -> str:
        """The seed as shown to the user, "" where it would not repeat the text."""
        repeats = self.rule == "coupled" or self.drafter == "none" or not goes_by_the_clock(self.settings())
        return f"seed {self.seed}" if self.temperatures[0] > 0 and repeats else ""

    def settings(self, temperature: float | None = None) -> SamplingSettings:
        """Returns the sampling settings of one reply, at the first temperature unless another is given."""
        return SamplingSettings(
            temperature=self.temperatures[0] if temperature is None else temperature,
            seed=self.seed,
            fresh=not self.reproducible,
            acceptance=self.rule,
            draft_length=self.draft_length,
            max_thought_tokens=self.max_thought_tokens,
            **{name: getattr(self, name) for name in _SAME_NAMES},
        )

    def with_defaults(self, defaults: Mapping[str, float]) -> Options:
        """Returns the options with the model's own sampling settings for those that are `from_model`."""
        taken = self.settings().with_defaults(defaults)
        values: dict[str, Any] = {name: getattr(taken, name) for name in self.from_model}
        temperatures = (values.pop("temperature", None),) if "temperature" in values else self.temperatures
        return replace(self, temperatures=temperatures, **values)


def check_settings(settings: SamplingSettings, trees: bool) -> None:
    """Raises UsageError if the settings of a reply are invalid. trees: whether trees are drafted."""
    if settings.exact and trees:
        raise UsageError(f"{WHY_NO_TREES}: choose one of the two")
    settings.check(trees)
    if settings.grammar is not None:
        check_grammar(settings.grammar)


def goes_by_the_clock(settings: SamplingSettings) -> bool:
    """Returns whether automatic draft length corrects step times by how long rounds take. It then remembers over
    replies how drafts came out, so no two replies may have the same noise."""
    return settings.fresh and not settings.greedy and settings.draft_length is None


def target_name(options: Options) -> str:
    """Returns the name of the target to show."""
    return "SmolLM2-135M-Instruct" if options.target == BUILTIN else name_of(Path(options.target))


def read_draft_length(text: str) -> int | None:
    """Returns the draft length in tokens, or None for auto. Raises UsageError for what is neither."""
    if text == AUTO:
        return None
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"draft-length is {text!r}: give auto or a whole number; 0 is plain decoding") from None
