"""The plan of a fit: all amounts, decided once from a short measurement and never changed afterwards.

A plan is stored before the work begins. From then on nothing depends on the clock, so a fit that was killed and resumed
does what an uninterrupted one would have done, and ends with the same bytes.
"""

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from engine.errors import FitError, ModelError, UsageError
from models.durable_files import read_json_object, replace_json

TrainingKind = Literal["eagle3", "medusa", "draft", "mtp", "dflash"]
KINDS: tuple[TrainingKind, ...] = get_args(TrainingKind)
PLAN_VERSION = 7  # raise it whenever the same plan would give other files

EPOCHS = {"eagle3": 4, "medusa": 4, "draft": 3, "mtp": 4, "dflash": 4}
DEPTHS = {"eagle3": 3, "medusa": 4, "draft": 1, "mtp": 3, "dflash": 4}
RATES = {"eagle3": 1e-3, "medusa": 1e-3, "draft": 5e-4, "mtp": 1e-3, "dflash": 1e-3}
INITIALIZED = ("eagle3", "mtp")  # kinds that read text before they train
BLOCK_LAYERS = 2  # of a block drafter
DRAFT_VOCABULARY = 8192  # of a head
MIN_SHORTLIST, SHORTLIST_SHARE = 16_384, 4  # of a draft model: this many tokens, or one in this many if that is more
MAX_DEPTHS = 8
MIN_TOKENS = MAX_DEPTHS + 2  # of a conversation: what the deepest drafter reads before its first draft, and a draft
MIN_CONVERSATIONS, MIN_STEPS = 24, 20
MIN_BATCH_TOKENS, ENOUGH_STEPS = 256, 400
MAX_HELD_OUT, JUDGING_S = 96, 45.0
CHECKPOINT_S = 30.0  # between two checkpoints of the training
SHARD_S = 50.0  # of writing, which a kill may lose
LONGEST_QUESTION = 80  # that the target writes itself, in tokens
_BEGIN_TOKENS, _MAX_BEGIN_TOKENS = 64, 32_768  # for each number of a state; in all
_BEGIN_S = 20.0  # of reading them where states are not kept
_WORK_SHARE = 0.92  # of the minutes asked for; the rest is loading, judging, and what was estimated wrong


@dataclass(frozen=True)
class TrainingOptions:
    """The user's options; None if the plan decides. Raises UsageError for an invalid value.

    minutes: of all the work together. conversations, steps: instead of minutes. vocabulary: tokens that it drafts.
    layers: of a draft model or a block drafter. depths: positions trained for: unrolled steps of EAGLE-3 and MTP heads,
    Medusa's heads, or tokens of a block.
    """

    kind: TrainingKind
    minutes: float = 60.0
    conversations: int | None = None
    steps: int | None = None
    vocabulary: int | None = None
    layers: int | None = None
    depths: int | None = None
    reply_tokens: int = 384
    learning_rate: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        _need(0 < self.minutes <= 100_000, "minutes", self.minutes, "more than 0 and at most 100000")
        for name, least in (("conversations", 8), ("steps", 1), ("vocabulary", 2), ("layers", 1), ("depths", 1)):
            value = getattr(self, name)
            _need(value is None or value >= least, name, value, f"at least {least}")
        _need(self.depths is None or self.depths <= MAX_DEPTHS, "depths", self.depths, f"at most {MAX_DEPTHS}")
        _need(8 <= self.reply_tokens <= 4096, "reply-tokens", self.reply_tokens, "from 8 to 4096")
        rate = self.learning_rate
        _need(rate is None or 0 < rate < 1, "learning-rate", rate, "a number between 0 and 1")
        _need(0 <= self.seed < 2**63, "seed", self.seed, "a whole number from 0 to 2^63 - 1")
        if (self.conversations is None) != (self.steps is None):
            raise UsageError("--conversations and --steps replace --minutes: give both or neither")
        if self.layers is not None and self.kind not in ("draft", "dflash"):
            raise UsageError(f"layers is for --kind draft or dflash: a drafter of kind {self.kind} has its own number")
        if self.kind == "draft" and self.depths is not None:
            raise UsageError("a draft model drafts any length: leave out depths")


def _need(ok: bool, name: str, value: object, range_: str) -> None:
    if not ok:
        raise UsageError(f"{name} is {value}, which is out of range: it must be {range_}")


@dataclass(frozen=True)
class MachineRates:
    """The measured rates of this machine, in tokens per second: of writing replies, reading hidden states and training;
    and the mean length of a reply and of a conversation, in tokens. initialization_s: the seconds of the algebra
    before an EAGLE-3 head's first step."""

    write: float
    read: float
    train: float
    reply_tokens: float
    conversation_tokens: float
    initialization_s: float = 0.0

    @property
    def prompt_tokens(self) -> float:
        """The mean length of a prompt."""
        return self.conversation_tokens - self.reply_tokens


@dataclass(frozen=True)
class TrainingPlan:
    """Everything that decides the drafter's files, and how long each stage should take.

    target, fingerprint: its name, and what identifies it. day: that it was begun on, in ISO format, which
    a chat template may print. prompts: where they come from, in words.
    conversations: at most, of which about `held_out` are kept for judging. tokens: of replies, after which no more
    are written; 0 for no such limit. shard: conversations written at a time, `rows` of them side by side; they are kept
    when all of them are complete. steps: of training, of about `batch_tokens` tokens each. initialization_tokens: read
    before an EAGLE-3 head starts. stored: whether hidden states are stored on disk or computed for each batch.
    stages_s: seconds expected.
    """

    version: int
    kind: TrainingKind
    target: str
    fingerprint: str
    day: str
    prompts: str
    seed: int
    conversations: int
    tokens: int
    held_out: int
    shard: int
    rows: int
    prompt_tokens: int
    reply_tokens: int
    steps: int
    batch_tokens: int
    initialization_tokens: int
    depths: int
    layers: int
    vocabulary: int
    learning_rate: float
    stored: bool
    stages_s: dict[str, float]


class TrainingAmounts(NamedTuple):
    """conversations: at most. tokens: of replies, 0 for no limit. steps: of training, of `batch_tokens` tokens."""

    conversations: int
    tokens: int
    steps: int
    batch_tokens: int


def training_amounts(
    options: TrainingOptions, rates: MachineRates, most_batch_tokens: int, stored: bool
) -> TrainingAmounts:
    """Returns the amounts that fill the minutes.

    Each conversation is written once and trained on for a fixed number of epochs, because more data helps more than
    more epochs. It is read once where states are `stored`, else in every epoch. In a short fit batches are small, so
    that there are enough steps.
    """
    if options.conversations is not None and options.steps is not None:
        return TrainingAmounts(options.conversations, 0, options.steps, most_batch_tokens)
    epochs = EPOCHS[options.kind]
    readings = 1 if stored else epochs
    length = rates.conversation_tokens
    each_s = rates.reply_tokens / rates.write + readings * length / rates.read + epochs * length / rates.train
    conversations = max(MIN_CONVERSATIONS, int(options.minutes * 60 * _WORK_SHARE / each_s))
    trained = epochs * conversations * length
    batch = round(min(most_batch_tokens, max(MIN_BATCH_TOKENS, length, trained / ENOUGH_STEPS)))
    steps = max(MIN_STEPS, round(trained / batch))
    # How long replies are is a guess until they are written, so the tokens decide; of short ones there may be more.
    return TrainingAmounts(3 * conversations, round(conversations * rates.reply_tokens), steps, batch)


def expected_conversations(plan: TrainingPlan, rates: MachineRates) -> int:
    """Returns how many conversations there will be if replies are as long as `rates` says."""
    return round(plan.tokens / rates.reply_tokens) if plan.tokens else plan.conversations


def initialization_tokens(kind: TrainingKind, hidden: int, rates: MachineRates, stored: bool) -> int:
    """Returns how many tokens initialize a head: enough for least squares over `hidden` numbers, but no more than are
    read in `_BEGIN_S` where states are not `stored`."""
    if kind not in INITIALIZED:
        return 0
    enough = min(_BEGIN_TOKENS * hidden, _MAX_BEGIN_TOKENS)
    return enough if stored else min(enough, int(_BEGIN_S * rates.read))


def held_out_size(conversations: int, rates: MachineRates) -> int:
    """Returns how many conversations are held out: enough for reliable rates, few enough to take less than a minute."""
    most = max(4, int(JUDGING_S / _judging_s(1, rates)))
    return min(MAX_HELD_OUT, max(conversations // 20, min(8, conversations // 4)), most)


def _judging_s(conversations: int, rates: MachineRates) -> float:
    return conversations * rates.conversation_tokens * (1 / rates.read + 1 / rates.train)


def shard_size(plan: TrainingPlan, rates: MachineRates) -> int:
    """Returns how many conversations are written at a time: as many as go side by side, which take as long as one, or
    more where all of them are written within `SHARD_S` even if the longest comes last."""
    within = int((SHARD_S - _longest_s(plan, rates)) * rates.write / rates.reply_tokens)
    return max(plan.rows, min(within, 8 * plan.rows, expected_conversations(plan, rates) // 8))


def rows_in_a_shard(plan: TrainingPlan, rates: MachineRates) -> int:
    """Returns how many texts go side by side: at least one, and no more than are written within `SHARD_S`."""
    return max(1, min(plan.rows, int(plan.rows * SHARD_S / _longest_s(plan, rates))))


def seconds_lost_by_a_kill(plan: TrainingPlan, rates: MachineRates) -> float:
    """Returns the seconds of work that a kill may lose: of writing, of initialization, of training since the last
    checkpoint, or of the whole evaluation."""
    parts = (_lost_writing_s(plan, rates), _beginning_s(plan, rates), CHECKPOINT_S + _step_s(plan, rates))
    return max(*parts, _judging_s(plan.held_out, rates))


def _step_s(plan: TrainingPlan, rates: MachineRates) -> float:
    return plan.batch_tokens * (1 / rates.train + (0 if plan.stored else 1 / rates.read))


def _beginning_s(plan: TrainingPlan, rates: MachineRates) -> float:
    return rates.initialization_s + (0.0 if plan.stored else plan.initialization_tokens / rates.read)


def _lost_writing_s(plan: TrainingPlan, rates: MachineRates) -> float:
    """Returns the seconds of a shard, which a kill may lose."""
    others_s = plan.shard * rates.reply_tokens / rates.write if plan.shard > plan.rows else 0.0
    return others_s + _longest_s(plan, rates)


def _longest_s(plan: TrainingPlan, rates: MachineRates) -> float:
    """Returns the seconds of the longest reply to the longest question, while others are written beside it."""
    return (LONGEST_QUESTION + plan.reply_tokens) * plan.rows / rates.write


def with_stage_times(plan: TrainingPlan, rates: MachineRates) -> TrainingPlan:
    """Returns the plan with the seconds that each stage should take."""
    replies = plan.tokens or plan.conversations * rates.reply_tokens
    whole = replies * rates.conversation_tokens / rates.reply_tokens
    begun = replace(plan, initialization_tokens=min(plan.initialization_tokens, int(whole)))
    stages = {
        "writing": replies / rates.write,
        "reading": whole / rates.read if plan.stored else 0.0,
        "training": plan.steps * _step_s(plan, rates) + _beginning_s(begun, rates),
        "judging": 10 + _judging_s(plan.held_out, rates),
    }
    return replace(plan, stages_s={name: round(seconds, 1) for name, seconds in stages.items()})


def write_plan(path: Path, plan: TrainingPlan) -> None:
    """Stores a plan durably. Raises OSError."""
    replace_json(path, asdict(plan))


def read_plan(path: Path) -> TrainingPlan:
    """Returns a stored plan. Raises FitError if it is damaged or was made by another version."""
    try:
        value: dict[str, Any] = read_json_object(path)
        if value.get("version") == PLAN_VERSION and value.keys() == {field.name for field in fields(TrainingPlan)}:
            return TrainingPlan(**value)
        what = f"was made by another version of Redline (plan {value.get('version')}, here {PLAN_VERSION})"
    except ModelError as error:
        what = f"cannot be read ({error})"
    raise FitError(f"the unfinished fit in {path.parent} {what}: remove that folder and start again")
