"""Several replies at once: each is the one that it would be alone, whoever comes, goes or fails beside it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import mlx.core as mx
import pytest

from engine import together
from engine.drafters import Draft, Drafter
from engine.drafters.eagle3 import Eagle3, Eagle3Head
from engine.drafters.prompt_lookup import PromptLookup
from engine.events import Event, Finished, Round
from engine.policy import Plan
from engine.policy.adaptive import Adaptive, Candidate
from engine.policy.expected_length import ChainExpectedLength
from engine.policy.fixed import FixedLength
from engine.policy.step_times import PriorPrices, StepTimes
from engine.rotary_embedding import correct_frequencies
from engine.session import Prompt, Session
from engine.settings import Grammar, SamplingSettings
from engine.target.cached_model import CachedModel
from engine.target.joint_pass import JointPass
from engine.together import Together
from engine.verify_pass import RoundQueue
from tests.engine.conversations import CONTEXT, LONG, NEARBY
from tests.engine.drafters.toy_drafters import LONGROPE, made, target_of
from tests.engine.fakes import ByteTokenizer, Counting
from tests.engine.grammars import CountingMatcher
from tests.engine.replies import PROMPT, draft_model
from tests.engine.test_kept_conversations import network, text
from tests.toys.architectures import build
from tests.toys.heads import random_eagle3

GREEDY = SamplingSettings(max_tokens=24)
COUPLED = replace(GREEDY, temperature=1, seed=5, acceptance="coupled")
REJECTION = replace(COUPLED, acceptance="rejection", top_p=0.9)
PENALIZED = replace(COUPLED, temperature=0.8, repetition_penalty=1.2)
GRAMMAR = replace(GREEDY, grammar=Grammar("regex", "what CountingMatcher allows"))
SIZE, EOS = 64, 63


@dataclass
class Wanted:
    """A reply: its prompt, how it is drafted, how many turns after the first it begins, and after how many rounds it is
    cancelled."""

    prompt: list[int]
    settings: SamplingSettings = GREEDY
    drafter: Callable[[CachedModel], Drafter | None] = lambda target: None
    length: int = 0
    delay: int = 0
    most_rounds: int = 1000
    events: list[Event] = field(default_factory=list)

    def work(self, session: Session) -> None:
        drafter, policy = self.drafter(session.target), FixedLength(self.length)
        given = (Prompt(self.prompt), self.settings, drafter, policy, lambda: self.rounds >= self.most_rounds)
        for event in session.continue_tokens(*given):
            self.events.append(event)

    @property
    def rounds(self) -> int:
        return sum(isinstance(event, Round) for event in self.events)

    @property
    def ended(self) -> bool:
        return any(isinstance(event, Finished) for event in self.events)

    @property
    def told(self) -> list[Any]:
        """What is the same whenever and beside whomever it was written."""
        rounds = [event for event in self.events if isinstance(event, Round)]
        end = [event.reason for event in self.events if isinstance(event, Finished)]
        return [[(one.tokens, one.drafted, one.accepted, one.texts) for one in rounds], end]


def session_of(target: CachedModel) -> Session:
    return Session(target, ByteTokenizer(frozenset({EOS})), CONTEXT, lambda _: CountingMatcher(SIZE, EOS))


def write(target: CachedModel, replies: Sequence[Wanted]) -> None:
    """Has the replies written at once, each with a cache of its own."""
    driver, turn, waiting = Together(), 0, list(replies)
    while waiting or driver.running:
        for one in [one for one in waiting if one.delay <= turn]:
            driver.start(partial(one.work, session_of(target.for_another_reply())))
            waiting.remove(one)
        driver.turn()
        turn += 1


def alone(model: Any, one: Wanted, kv_bits: int | None = None) -> Wanted:
    """The same reply with nobody beside it."""
    other = replace(one, events=[])
    other.work(session_of(CachedModel(model, kv_bits, 32)))
    return other


def many(name: str) -> list[Wanted]:
    """Replies of every kind, which come and go."""

    def eagle(target: CachedModel) -> Drafter:
        return Eagle3(random_eagle3(), target, trees=True)

    drafts = draft_model(NEARBY[name], SIZE) if name in NEARBY else None
    return [
        Wanted(PROMPT),
        Wanted(text(1), COUPLED, lambda _: PromptLookup(1), 3),
        Wanted(text(2, 40), PENALIZED, lambda target: drafts and drafts.for_another_reply(target), 4, delay=3),
        Wanted(text(3, 8), GRAMMAR, lambda target: drafts and drafts.for_another_reply(target), 5),
        Wanted(text(4, 30), REJECTION, lambda _: PromptLookup(1), 2, delay=1),
        Wanted(text(5, 70), COUPLED, delay=5, most_rounds=7),
        Wanted(text(6, 12), GREEDY, eagle if name == "qwen3" else (lambda _: PromptLookup(1)), 6),
        Wanted(text(7, 90), COUPLED, lambda _: PromptLookup(1, trees=name != "mamba2"), 4, delay=2),
    ]


@pytest.mark.parametrize("name", ["qwen3", "llama", "mamba2", "gemma4_text"])
def test_each_reply_is_the_one_that_it_would_be_alone(name: str) -> None:
    model, replies = network(name), many(name)
    target = CachedModel(model)
    write(target, replies)
    assert (target.why_alone is None) == (name != "mamba2")
    for one in replies:
        assert one.told == alone(model, one).told
    assert any(one.drafted for one in replies[1].events if isinstance(one, Round))


def test_what_all_want_of_a_model_is_one_pass() -> None:
    """Four plain replies: each pass reads the weights once, for a row of each."""
    model: Any = Counting(network("qwen3"))
    replies = [Wanted(text(seed, 20), replace(COUPLED, max_tokens=6)) for seed in range(4)]
    target = CachedModel(model)
    target.for_another_reply()
    model.rows.clear()
    write(target, replies)
    assert model.rows == [4 * 19] + [4] * 6


def test_short_prompts_are_read_in_one_pass_and_no_round_waits_for_them() -> None:
    """Long prompts fill a pass by themselves."""
    model: Any = Counting(network("qwen3"))
    first = Wanted(text(0, 20), replace(COUPLED, max_tokens=6))
    others = [Wanted(text(seed, length), COUPLED, delay=4) for seed, length in ((1, 30), (2, 65), (3, 66))]
    target = CachedModel(model)
    target.for_another_reply()
    model.rows.clear()
    write(target, [first, *others])
    assert [rows for rows in model.rows if rows > 4] == [19, 65, 29 + 64]
    assert model.rows.count(1) >= 5
    for one in (first, *others):
        assert one.told == alone(network("qwen3"), one).told


def test_a_draft_model_that_catches_up_in_a_round_is_not_taken_to_read_a_prompt() -> None:
    """After plain rounds it has missed more tokens than ride in a pass; the others go on counting its reply."""

    class Late(FixedLength):
        def __init__(self) -> None:
            super().__init__(4)
            self.round = 0

        def plan(self, hints: Sequence[float | None] = ()) -> Plan:
            self.round += 1
            counts.append(driver.at_once())
            return super().plan(hints) if self.round > 12 else Plan(0, "waits")

    def work(prompt: list[int]) -> None:
        session = session_of(target.for_another_reply())
        drafter = drafts.for_another_reply(session.target)
        for _ in session.continue_tokens(Prompt(prompt), replace(COUPLED, max_tokens=40), drafter, Late()):
            pass

    counts, driver, drafts = list[int](), Together(), draft_model(NEARBY["qwen3"], SIZE)
    target = CachedModel(network("qwen3"))
    for seed in range(3):
        driver.start(partial(work, text(seed, 20)))
    while driver.running == 3:
        driver.turn()
    driver.close()
    assert len(counts) > 3 * 15 and set(counts[3:]) == {3}


def test_all_end_their_rounds_before_any_plans_another() -> None:
    """So a turn is the same for all, whoever comes and goes, and each knows what came of the others' drafts."""

    class Noting(FixedLength):
        def plan(self, hints: Sequence[float | None] = ()) -> Plan:
            noted.append("plan")
            return super().plan(hints)

        def observe(self, round_: Round) -> None:
            noted.append("end")

    def work(tokens: int) -> None:
        given = (Prompt(text(tokens, 9)), replace(COUPLED, max_tokens=tokens), PromptLookup(1), Noting(2))
        for _ in session_of(target.for_another_reply()).continue_tokens(*given):
            pass

    noted, turns, target, driver = list[str](), list[list[str]](), CachedModel(network("qwen3")), Together()
    for tokens in (6, 9, 12):
        driver.start(partial(work, tokens))
    while driver.running:
        noted.clear()
        driver.turn()
        turns.append(noted[:])
    assert all(turn == sorted(turn, reverse=True) for turn in turns)
    assert ["plan"] * 3 + ["end"] * 3 in turns and ["plan", "end"] in turns


def test_where_nobody_drafts_all_submit_rounds_ahead_in_the_same_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the device has something to do while the host works, and still no pass is for fewer rows than there are."""

    def work(prompt: list[int]) -> None:
        policy = Adaptive([Candidate("lookup", ChainExpectedLength(3))], shared.for_reply(), 20, driver.at_once)
        given = (Prompt(prompt), replace(COUPLED, max_tokens=61), PromptLookup(9), policy)
        for _ in session_of(target.for_another_reply()).continue_tokens(*given):
            pass

    model: Any = Counting(network("qwen3"))
    target, driver, ahead = CachedModel(model), Together(), list[int]()
    shared, submit = StepTimes([PriorPrices("lookup", {1: 1.1, 2: 1.2, 3: 1.3})]), RoundQueue.submit_ahead
    target.for_another_reply()
    model.rows.clear()
    monkeypatch.setattr(RoundQueue, "submit_ahead", lambda self: (ahead.append(1), submit(self))[1])
    for seed in range(4):
        driver.start(partial(work, text(seed, 20)))
    while driver.running:
        driver.turn()
    assert model.rows == [4 * 19] + [4] * 61
    assert len(ahead) > 4 * 30 and len(ahead) % 4 == 0


def test_heads_draft_for_all_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees and chains mixed: what they want of the head at the same time is one pass of it."""
    rows, logits = list[int](), Eagle3Head.logits

    def counted(self: Eagle3Head, hidden: mx.array, *given: Any) -> mx.array:
        rows.append(hidden.shape[-2])
        return logits(self, hidden, *given)

    monkeypatch.setattr(Eagle3Head, "logits", counted)
    model, head = network("qwen3"), random_eagle3()
    replies = [
        Wanted(text(seed, 20), replace(COUPLED, max_tokens=8), partial(Eagle3, head, trees=seed == 3), 3)
        for seed in range(4)
    ]
    write(CachedModel(model), replies)
    assert rows[:2] == [4, 3 + 4]  # after the first tokens: one row of each chain, and four children in the tree
    assert all(one.told == alone(model, one).told for one in replies)


def test_texts_that_are_rotated_otherwise_share_no_pass() -> None:
    """LongRoPE of one that is short, one that is long and two that grow long."""
    scaling = {"short_factor": [1.0] * 4, "long_factor": [1.0, 1.5, 2.0, 4.0]}
    model = build("phi3", original_max_position_embeddings=40)
    for module in model.modules():
        correct_frequencies(module, 10_000, scaling)
    replies = [Wanted(text(length, length), COUPLED, lambda _: PromptLookup(1), 3) for length in (8, 90, 25, 34)]
    target = CachedModel(model)
    assert target.rotation.threshold == 40
    write(target, replies)
    assert target.shares_passes
    assert all(one.told == alone(model, one).told for one in replies)


def test_an_error_of_a_pass_reaches_the_replies_that_took_part_and_nobody_else() -> None:
    """Of their caches nothing is left; those that come later are right."""

    class Failing(Counting):
        breaks = False

        def __call__(self, inputs: mx.array, cache: Any) -> mx.array:
            if self.breaks and inputs.shape[1] == 3:
                self.breaks = False
                raise RuntimeError("broken")
            return super().__call__(inputs, cache)

    def work(one: Wanted, session: Session) -> None:
        try:
            one.work(session)
        except RuntimeError:
            broken.append(session)

    model: Any = Failing(network("qwen3"))
    target, driver, broken = CachedModel(model), Together(), list[Session]()
    replies, sessions = [Wanted(text(seed, 30), COUPLED) for seed in range(5)], list[Session]()
    for one in replies[:4]:
        sessions.append(session_of(target.for_another_reply()))
        driver.start(partial(work, one, sessions[-1]))
        model.breaks = len(sessions) == 3
        for _ in range(len(sessions)):
            driver.turn()
    while driver.running:
        driver.turn()
    assert broken == sessions[:3]
    assert all(session.target.length == 0 for session in broken)
    replies[4].work(sessions[0])
    assert all(one.told == alone(network("qwen3"), one).told for one in replies[3:])


def test_a_long_prompt_is_read_while_others_write() -> None:
    replies = [Wanted(text(1, 20), replace(COUPLED, max_tokens=40)), Wanted(LONG * 2, delay=2)]
    driver, target = Together(), CachedModel(network("qwen3"))
    for one in replies:
        driver.start(partial(one.work, session_of(target.for_another_reply())))
    pieces = 0
    while driver.running:
        before = replies[0].rounds
        driver.turn()
        if before and not replies[1].rounds:
            pieces += 1
            assert replies[0].rounds == before + 1
    assert pieces > 2
    for one in replies:
        assert one.told == alone(network("qwen3"), one).told


def test_a_reply_that_raises_ends_alone_and_one_that_is_closed_leaves_its_tokens_in_its_cache() -> None:
    def breaks() -> None:
        """Between the draft, which both have in one pass, and the verify pass."""
        broken = session_of(target.for_another_reply())
        for _ in broken.continue_tokens(Prompt(text(2, 20)), COUPLED, Breaking(head, broken.target), FixedLength(2)):
            pass

    class Breaking(Eagle3):
        def draft(self, *given: Any) -> Draft:
            super().draft(*given)
            raise ValueError("mine")

    model, head, driver = network("qwen3"), random_eagle3(), Together()
    target = CachedModel(model)
    one, session = Wanted(text(1, 20), COUPLED, partial(Eagle3, head), 2), session_of(target.for_another_reply())
    driver.start(breaks)
    driver.start(partial(one.work, session))
    with pytest.raises(ValueError, match="mine"):
        while driver.running:
            driver.turn()
    assert driver.running == 1
    while one.rounds < 4:
        driver.turn()
    driver.close()
    assert one.told[0] == alone(model, one).told[0][: one.rounds]
    assert driver.running == 0
    follow = replace(one, prompt=session.tokens[:], events=[])
    follow.work(session)
    assert follow.told == alone(network("qwen3"), follow).told


def test_who_writes_is_counted() -> None:
    counts = list[int]()

    def work(one: Wanted) -> None:
        session = session_of(target.for_another_reply())
        for event in session.continue_tokens(Prompt(one.prompt), one.settings):
            if isinstance(event, Round):
                counts.append(driver.at_once())

    target, driver = CachedModel(network("qwen3")), Together()
    assert driver.at_once() == 1
    for tokens in (3, 6, 6):
        driver.start(partial(work, Wanted(text(tokens, 9), replace(COUPLED, max_tokens=tokens))))
    while driver.running:
        driver.turn()
    assert counts == [3] * 7 + [2] * 7 + [1]
    assert not together.takes_part()


def test_a_model_that_computes_positions_by_itself_is_refused_and_not_silently_wrong() -> None:
    model = build("gpt2")
    target = CachedModel(model)
    replies = [Wanted(text(seed, 20), COUPLED, lambda _: PromptLookup(1), 3) for seed in range(3)]
    write(target, replies)
    assert "one text per pass" in str(target.why_alone)
    assert all(one.told == alone(model, one).told for one in replies)


@pytest.mark.parametrize(
    "kind", ["MTP, some tokens", "nextn for glm4_moe", "DFlash", "Medusa", "MLP speculator", "Gemma 4", "P-EAGLE"]
)
def test_every_kind_of_head_drafts_for_all_in_one_pass(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its passes, and of its output matrix, is one for all three, until the first of them ends."""
    target = target_of(kind)
    target.for_another_reply()  # which tries whether passes can be joined
    source, settings = made(kind, target), replace(COUPLED, max_tokens=24)
    replies = [Wanted(text(seed, 20), settings, source.for_another_reply, 3) for seed in range(3)]
    joined, run, run_alone = list[int](), together._run_together, JointPass.run

    def note(first: Any, count: int) -> None:
        if not first.size_bytes and all(reply.rounds < 5 and not reply.ended for reply in replies):
            joined.append(count)

    def counted(passes: Sequence[Any]) -> list[mx.array]:
        note(passes[0], len(passes))
        return run(passes)

    def counted_alone(wanted: JointPass) -> mx.array:
        note(wanted, 1)
        return run_alone(wanted)

    monkeypatch.setattr(together, "_run_together", counted)
    monkeypatch.setattr(JointPass, "run", counted_alone)
    write(target, replies)
    assert joined and set(joined) == {3}
    for reply in replies:
        own = alone(target.model, replace(reply, drafter=lambda target: source.for_another_reply(target)))
        assert drafts_of(reply) == drafts_of(own)
        assert reply.told == own.told


def test_latent_attention_of_a_head_goes_reply_by_reply_and_nothing_else_of_it() -> None:
    target = target_of("MTP, some tokens")
    source: Any = made("MTP, some tokens", target.for_another_reply())
    for _ in range(3):
        source.for_another_reply(target)
    apart = [type(module).__name__ for module in source.head.modules() if hasattr(module, "runs_by_reply")]
    assert apart == ["DeepseekV3Attention"]


def test_a_reply_in_exact_verify_has_its_passes_to_itself() -> None:
    """Heads included: whoever else is there would change how they are rounded."""
    target = target_of("EAGLE-3")
    source, settings = made("EAGLE-3", target), replace(REJECTION, exact=True, max_tokens=8)
    replies = [Wanted(text(seed, 20), settings, source.for_another_reply, 3) for seed in range(2)]
    write(target, replies)
    for reply in replies:
        own = alone(target.model, replace(reply, drafter=lambda target: source.for_another_reply(target)))
        rounds = [[event for event in one.events if isinstance(event, Round)] for one in (reply, own)]
        assert [one.q for one in rounds[0]] == [one.q for one in rounds[1]]


def test_heads_that_rotate_by_the_length_of_a_text_draft_what_they_would_alone() -> None:
    model = network("qwen3")
    scaling = {**LONGROPE, "long_factor": [1.0, 20.0, 300.0]}
    source = CachedModel(model)
    head = Eagle3(random_eagle3(rope_scaling=scaling), source)
    settings = replace(GREEDY, max_tokens=8)
    replies = [Wanted(prompt, settings, head.for_another_reply, 4) for prompt in (text(1, 60), PROMPT[:6])]
    write(source, replies)
    for reply in replies:
        own = alone(model, replace(reply, drafter=lambda target: Eagle3(random_eagle3(rope_scaling=scaling), target)))
        assert drafts_of(reply) == drafts_of(own)


def drafts_of(reply: Wanted) -> list[tuple[int, ...]]:
    return [event.drafted for event in reply.events if isinstance(event, Round)]
