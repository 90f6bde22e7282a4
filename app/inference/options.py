"""What to load and how to decode, as one frozen value that is checked where it enters."""

from dataclasses import dataclass, field
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

    target: "builtin", the name of a model or its folder. drafters: one, or several to compare; each is "auto", "none",
    "lookup", the name of a shipped one or a folder. tree: whether drafters that can branch do so; the draft length then
    counts nodes. sampling: of every reply. context: tokens, None for what the model declares and this machine can hold.
    kv_bits: of the target's keys and values, None for as the model computes them. hosts: the machines that share the
    target, this one first; none for this one alone. cache_root: of imported models, None for the user's cache
    directory. history: the folder of earlier replies to draft from, None for none.
    """

    target: str = BUILTIN
    drafters: tuple[str, ...] = (AUTO,)
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
        check_settings(self.sampling, self.tree)

    @property
    def drafter(self) -> str:
        return self.drafters[0]

    @property
    def seed_line(self) -> str:
        """The seed as shown to the user, "" where it would not repeat the text."""
        settings = self.sampling
        coupled = settings.acceptance == "coupled"
        repeats = coupled or self.drafter == "none" or not settings.fresh or settings.draft_length is not None
        return f"seed {settings.seed or 0}" if not settings.greedy and repeats else ""


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
