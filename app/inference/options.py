"""What to load and how to decode, as one frozen value that is checked where it enters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from app.inference.host_file import Host
from engine.audit.verify_blocks import WHY_NO_TREES
from engine.errors import UsageError
from engine.settings import SamplingSettings
from models.grammar_matcher import check_grammar
from models.paths import BUILTIN, name_of

KV_BITS = (8, 4)
AUTO = "auto"
MAX_THOUGHT = 8192  # tokens of thought before the answer, where the user does not say


@dataclass(frozen=True)
class Options:
    """What to load and how to decode.

    target: "builtin", the name of a model or its folder. drafters, temperatures, draft_lengths: one, or several for the
    benchmark. A drafter is "auto", "none", "lookup", the name of a shipped one or a folder; a draft length is tokens a
    round, or None for auto. tree: whether drafters that can branch do so; the draft length then counts nodes.
    sampling: of every reply; the temperature and the draft length in it are ignored. context: tokens, None for what the
    model declares and this machine can hold. kv_bits: of the target's keys and values, None for as the model computes
    them. hosts: the machines that share the target, this one first; none for this one alone. cache_root: of imported
    models, None for the user's cache directory. history: the folder of earlier replies to draft from, None for none.
    """

    target: str = BUILTIN
    drafters: tuple[str, ...] = (AUTO,)
    temperatures: tuple[float, ...] = (0.0,)
    draft_lengths: tuple[int | None, ...] = (None,)
    tree: bool = False
    sampling: SamplingSettings = field(default_factory=SamplingSettings)
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

    @property
    def drafter(self) -> str:
        return self.drafters[0]

    @property
    def draft_length(self) -> int | None:
        return self.draft_lengths[0]

    @property
    def seed(self) -> int:
        return self.sampling.seed or 0

    @property
    def seed_line(self) -> str:
        """The seed as shown to the user, "" where it would not repeat the text."""
        settings = self.settings()
        coupled = settings.acceptance == "coupled"
        repeats = coupled or self.drafter == "none" or not settings.fresh or settings.draft_length is not None
        return f"seed {self.seed}" if self.temperatures[0] > 0 and repeats else ""

    def settings(self, temperature: float | None = None) -> SamplingSettings:
        """Returns the sampling settings of one reply, at the first temperature unless another is given."""
        if temperature is None:
            temperature = self.temperatures[0]
        return replace(self.sampling, temperature=temperature, seed=self.seed, draft_length=self.draft_length)

    def with_defaults(self, defaults: Mapping[str, float]) -> Options:
        """Returns the options with the model's own sampling settings for those that are `from_model`."""
        sampling = self.settings().with_defaults(defaults)
        return replace(self, sampling=sampling, temperatures=(sampling.temperature, *self.temperatures[1:]))


def check_settings(settings: SamplingSettings, trees: bool) -> None:
    """Raises UsageError if the settings of a reply are invalid. trees: whether trees are drafted."""
    if settings.exact and trees:
        raise UsageError(f"{WHY_NO_TREES}: choose one of the two")
    settings.check(trees)
    if settings.grammar is not None:
        check_grammar(settings.grammar)


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
