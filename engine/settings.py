"""The settings of a reply and their bounds, in one place for the window, the terminal, the host and the engine.

Imports no MLX, so that a form or a command line is checked before a model library loads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from engine.errors import UsageError

AcceptanceRule = Literal["rejection", "coupled"]
ACCEPTANCE_RULES: tuple[AcceptanceRule, ...] = ("rejection", "coupled")

MIN_TEMPERATURE = 1e-3  # below, logits over temperature overflow float32
MAX_TEMPERATURE = MAX_PENALTY = 100.0  # even much lower values leave nothing of a model's distribution
LARGEST_SEED = 2**63 - 1
LONGEST_DRAFT, LONGEST_TREE = 32, 64  # tokens, nodes: beyond, no machine verifies as cheaply as it decodes
LONGEST_EFFORT = 20  # characters
_MAX_COUNT = 2**31 - 1
GrammarKind = Literal["json_schema", "regex", "choice", "lark"]
# The settings that a model may have a default of its own for.
MODEL_DEFAULTS = (
    *("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty"),
)


@dataclass(frozen=True)
class Grammar:
    """What an answer must look like.

    source: the JSON Schema as text, {"type": "object"} being any JSON object; the regular expression; the choices as a
    JSON list of texts; or the grammar in Lark's syntax as llguidance reads it.
    """

    kind: GrammarKind
    source: str


@dataclass(frozen=True)
class SamplingSettings:
    """How a reply is sampled, and where it ends. Neutral values leave the model's distribution alone.

    temperature 0 is greedy. top_k 0, top_p 1 and min_p 0 are off. Penalties look at the whole context, prompt included:
    repetition divides positive and multiplies negative logits (Keskar 2019), presence subtracts once per token seen,
    frequency once per occurrence. logit_bias is added to the logits of the given ids.

    seed: of the noise; the host draws one for None, and the engine takes None for 0. fresh: whether the seed was drawn
    for this reply alone. By rejection, automatic draft length then depends on the clock and on earlier replies, so
    the seed does not repeat the text.

    acceptance: the rule above temperature 0. draft_length: tokens (nodes of a tree) a round, None for automatic, 0 for
    plain decoding. exact: the same arithmetic for every token whatever is drafted, so that replies agree to the last
    bit (see `engine.audit.exact_target`); not with trees. identical_width: of a reply in that mode, as it is kept, the
    most tokens of a pass that had the bits of single steps where it was made; 1 where none of several had, and 0 in
    replies kept before that was measured. stop: strings that end the answer and are not shown.

    max_tokens: of the answer. max_thought_tokens: of the thought before it, None where the two share max_tokens.
    thinking, effort: the switches of a chat template that has them; None and "" leave it to the template.
    from_model: the names of those settings whose values are the model's own (see `models.generation_defaults`).
    grammar: that the answer follows, None for none; see `engine.grammar` for what drafting keeps then.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None
    fresh: bool = False
    acceptance: AcceptanceRule = "rejection"
    draft_length: int | None = None
    exact: bool = False
    identical_width: int = 0
    max_tokens: int = 2048
    max_thought_tokens: int | None = None
    thinking: bool | None = None
    effort: str = ""
    stop: tuple[str, ...] = ()
    from_model: tuple[str, ...] = ()
    grammar: Grammar | None = None

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    @property
    def teaches(self) -> bool:
        """Whether automatic draft length may learn from the reply for later ones: not from noise that may be drawn
        again, since draft lengths that depend on it would change the distribution of rejection sampling."""
        return self.greedy or self.fresh

    @property
    def repeats_rounds(self) -> bool:
        """Whether the same request must have the same rounds, so that its text repeats: by rejection, with a seed that
        was given. Draft lengths change no greedy or coupled text. Such a reply is not drafted from earlier ones either:
        they may have been drawn with its noise, and a draft that depends on the noise that decides whether it is kept
        would change the distribution."""
        return not self.teaches and self.acceptance == "rejection"

    @property
    def switches(self) -> dict[str, Any]:
        """The switches of the chat template that are set."""
        thinking = {} if self.thinking is None else {"thinking": self.thinking}
        return {**thinking, **({"effort": self.effort} if self.effort else {})}

    def with_defaults(self, defaults: Mapping[str, float]) -> SamplingSettings:
        """Returns the settings with the model's own values for those that are `from_model`; neutral ones where it has
        none."""
        neutral = {one.name: one.default for one in fields(self)}
        values: dict[str, Any] = {name: defaults.get(name, neutral[name]) for name in self.from_model}
        return replace(self, **values)

    @property
    def counts_context(self) -> bool:
        """Whether the distribution depends on which tokens came before, beyond what the model sees."""
        return self.repetition_penalty != 1 or self.presence_penalty != 0 or self.frequency_penalty != 0

    def problems(self, tree: bool = False) -> dict[str, str]:
        """Returns what to give instead of each invalid value, by the name of its field; empty if all are valid.

        tree: whether trees are drafted, which may be longer than chains.
        """
        longest, penalty = LONGEST_TREE if tree else LONGEST_DRAFT, self.repetition_penalty
        warm = MIN_TEMPERATURE <= self.temperature <= MAX_TEMPERATURE
        biases = all(token >= 0 and bias < math.inf for token, bias in self.logit_bias.items())
        checks = {
            "temperature": (self.greedy or warm, f"give 0 or {MIN_TEMPERATURE:g} to {MAX_TEMPERATURE:g}"),
            "top_p": (0 < self.top_p <= 1, "give more than 0 and at most 1"),
            "top_k": (0 <= self.top_k <= _MAX_COUNT, "give 0 or a larger whole number"),
            "min_p": (0 <= self.min_p < 1, "give 0 or more, and less than 1"),
            "repetition_penalty": (0 < penalty <= MAX_PENALTY, f"give more than 0 and at most {MAX_PENALTY:g}"),
            "presence_penalty": (math.isfinite(self.presence_penalty), "give a finite number"),
            "frequency_penalty": (math.isfinite(self.frequency_penalty), "give a finite number"),
            "logit_bias": (biases, "give token ids of 0 or more and numbers below infinity"),
            "seed": (self.seed is None or 0 <= self.seed <= LARGEST_SEED, "give a whole number from 0 to 2^63 - 1"),
            "acceptance": (self.acceptance in ACCEPTANCE_RULES, f"give {' or '.join(ACCEPTANCE_RULES)}"),
            "draft_length": (
                self.draft_length is None or 0 <= self.draft_length <= longest,
                f"give auto or a number from 0 to {longest}; 0 is plain decoding",
            ),
            "identical_width": (0 <= self.identical_width <= LONGEST_TREE, f"give 0 to {LONGEST_TREE}"),
            "max_tokens": (1 <= self.max_tokens <= _MAX_COUNT, "give 1 or a larger whole number"),
            "max_thought_tokens": (
                self.max_thought_tokens is None or 1 <= self.max_thought_tokens <= _MAX_COUNT,
                "give 1 or a larger whole number",
            ),
            "effort": (len(self.effort) <= LONGEST_EFFORT, "give a word such as low, medium or high"),
            "from_model": (set(self.from_model) <= set(MODEL_DEFAULTS), f"give some of {', '.join(MODEL_DEFAULTS)}"),
            "stop": (all(self.stop), "give some text: an empty stop string ends every reply at once"),
        }
        return {name: remedy for name, (valid, remedy) in checks.items() if not valid}

    def check(self, tree: bool = False) -> None:
        """Raises UsageError that names the first invalid value and what to give instead."""
        for name, remedy in self.problems(tree).items():
            value = "empty" if name == "stop" else repr(getattr(self, name))
            raise UsageError(f"{name.replace('_', '-')} is {value}: {remedy}")
