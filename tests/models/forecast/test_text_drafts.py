"""The forecast of each kind of drafter has the rounds of the loop that writes the same text, or there is none."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.drafters.draft_model import DraftModel
from engine.drafters.drafter_group import DrafterGroup
from engine.drafters.eagle3 import Eagle3
from engine.drafters.medusa import Medusa
from engine.drafters.prompt_lookup import PromptLookup
from engine.errors import UsageError
from engine.loop import Limits
from engine.metrics import Metrics
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from models.forecast.forecast import RoundTotals, forecast_reply
from models.forecast.target_text import RecordedView, TargetText, read_text
from tests.engine.conversations import MODELS, NEARBY
from tests.engine.drafters.eagles import eagle, network_of
from tests.engine.drafters.test_cross_tokenizer import TARGET, drafter_of
from tests.engine.replies import CONTEXT, PROMPT, draft_model, plain_reply, reply
from tests.models.training.training_plans import CHEAP
from tests.toys.block_heads import random_assistant, random_block, random_mtp
from tests.toys.heads import Remembering, random_eagle3

VOCABULARY = 64
GREEDY = SamplingSettings()
SHAPED = SamplingSettings(temperature=0.8, top_p=0.95, top_k=20, repetition_penalty=1.2, seed=3)
WARM = SamplingSettings(temperature=1, seed=3)


def nearby() -> DraftModel:
    return draft_model(NEARBY["llama"], VOCABULARY)


def medusa(trees: bool) -> Medusa:
    """Heads that remember the text, but for some places."""
    heads: Any = Remembering(MODELS["llama"], list(text_of("draft", GREEDY).tokens), wrong=frozenset(range(30, 60, 4)))
    return Medusa(heads, [(0,), (1,), (0, 0), (0, 1), (0, 0, 0)], target_of("llama"), trees=trees)


def random_eagle(network: Any, **changes: Any) -> Eagle3:
    return Eagle3(random_eagle3(seed=3, draft_vocab_size=VOCABULARY, **changes), CachedModel(network))


# By kind: the toy target, the drafter or drafters, and where its logits are made if it must be made to know the text.
KINDS: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "lookup": ("llama", lambda _: PromptLookup(shortest=1), ""),
    "draft": ("llama", lambda _: nearby(), ""),
    "eagle": ("llama", lambda _: eagle("llama"), ""),
    "eagle tree": ("llama", lambda _: eagle("llama", trees=True), ""),
    "several": ("llama", lambda _: [PromptLookup(shortest=1), nearby()], ""),
    "medusa": ("llama", lambda _: medusa(False), ""),
    "medusa tree": ("llama", lambda _: medusa(True), ""),
    "lookup tree": ("qwen3", lambda _: PromptLookup(shortest=1, trees=True), ""),
    "pard": ("qwen3", lambda _: DraftModel(CachedModel(NEARBY["qwen3"]), VOCABULARY, mask_id=63), "_target_logits"),
    "tli": ("qwen3", lambda _: drafter_of("qwen3"), "_shared_logits"),
    "slem": ("qwen3", lambda _: drafter_of("qwen3", kind="SLEM"), "_likeliest"),
    "eagle3, more layers": ("qwen3", lambda net: random_eagle(net, windows=(7, None)), "head.logits"),
    "p-eagle": ("qwen3", lambda net: random_eagle(net, mask_id=5, own_embedding=True), "head.logits"),
    "mtp": ("qwen3_5", lambda net: random_mtp(net, "qwen3_5"), "logits"),
    "dflash": ("qwen3", lambda net: random_block(net, "dflash"), "head.logits"),
    "dflash2": ("qwen3", lambda net: random_block(net, "dflash2"), "head.logits"),
    "dflash tree": ("qwen3", lambda net: random_block(net, "dflash", trees=True), "head.logits"),
    "dspark": ("qwen3", lambda net: random_block(net, "dspark"), "head.logits"),
    "gemma 4": ("gemma4_text", random_assistant, "head.logits"),
    "gemma 4, ordered": ("gemma4_text", lambda net: random_assistant(net, ordered=True), "head.logits"),
}


@cache
def target_of(name: str) -> CachedModel:
    return CachedModel(network_of(name))


def tokens_of(kind: str) -> int:
    return 60 if KINDS[kind][0] == "llama" else 24


def text_of(kind: str, sampling: SamplingSettings) -> TargetText:
    """What the target says by itself."""
    said = plain_reply(network_of(KINDS[kind][0]), sampling, tokens_of(kind))
    return TargetText((*PROMPT, *said), len(PROMPT), tokens_of(kind))


class Favouring:
    """Makes a drafter prefer the tokens that a text has next, but not so much that its own numbers never decide."""

    def __init__(self, drafter: Any, made: str, tokens: tuple[int, ...]) -> None:
        self._drafter, self._tokens, self._place = drafter, tokens, 0
        self._propose = drafter.propose
        drafter.propose = self.propose
        owner = drafter.head if made.startswith("head.") else drafter
        name = made.removeprefix("head.")
        self._made = getattr(owner, name)
        setattr(owner, name, self.own_tokens if name == "_likeliest" else self.logits)

    def propose(self, context: Any, length: int) -> Any:
        self._place = len(context.tokens)
        return self._propose(context, length)

    def logits(self, *given: Any) -> mx.array:
        out = self._made(*given)
        ids = self._drafter.needs.token_map
        columns = mx.arange(out.shape[-1]) if ids is None else ids
        places = range(self._place, self._place + out.shape[0])
        self._place += out.shape[0]
        follow = mx.array([self._tokens[place] if place < len(self._tokens) else -1 for place in places])
        return mx.where(mx.isfinite(out), out + 3.0 * (columns[None] == follow[:, None]), out)

    def own_tokens(self, count: int) -> list[int]:
        """Every third one is the model's own."""
        own = self._made(count)
        rest = b"".join(TARGET[token] for token in self._tokens[self._place :])
        said = [token for token, _ in self._drafter._encode(rest)][:count]
        return [own[i] if i % 3 == 2 or i >= len(said) else said[i] for i in range(count)]


def drafters_of(kind: str, sampling: SamplingSettings) -> list[Any]:
    name, make, made = KINDS[kind]
    found = make(network_of(name))
    if made:
        Favouring(found, made, text_of(kind, sampling).tokens)
    return found if isinstance(found, list) else [found]


FOLLOWED = ["lookup", "lookup tree", "medusa", "medusa tree", "dflash tree", "eagle tree"]  # compared with the text


def rounds_of_loop(kind: str, length: int, sampling: SamplingSettings, limits: int | Limits) -> Metrics:
    drafters, target = drafters_of(kind, sampling), target_of(KINDS[kind][0])
    together = drafters[0] if len(drafters) == 1 else DrafterGroup(drafters)
    return Metrics.of(reply(target, together, length, sampling, sampling.acceptance, limits)[1])


def forecast_of(
    kind: str, lengths: Sequence[int], sampling: SamplingSettings, text: TargetText | None = None
) -> Sequence[RoundTotals]:
    """By length."""
    drafters = drafters_of(kind, sampling)
    first = drafters[0]
    target = first.target.model if first.needs.taps else target_of(KINDS[kind][0])
    outputs = read_text(target, text or text_of(kind, sampling), DrafterGroup(drafters).needs)
    found = forecast_reply("", outputs, drafters, lengths, sampling, [CHEAP] * len(drafters))
    return [found.totals[length] for length in lengths]


def check(found: RoundTotals, true: Metrics) -> None:
    assert (found.tokens, found.rounds, found.drafted) == pytest.approx((true.tokens, true.rounds, true.drafted))
    assert [kept for kept in found.kept if kept] == pytest.approx([kept for kept in true.kept if kept])


@pytest.mark.slow_for("gemma 4*", "dspark", "dflash*", "mtp", "eagle*", "medusa*", "several", "p-eagle")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("tli", "slem")])
def test_a_forecast_has_the_rounds_of_the_loop(kind: str) -> None:
    for length, found in zip((3, 5), forecast_of(kind, [3, 5], GREEDY), strict=True):
        check(found, true := rounds_of_loop(kind, length, GREEDY, tokens_of(kind)))
        assert kind == "lookup tree" or (true.mean_acceptance_length or 0) > 1.1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tli", "slem"])
def test_a_model_with_other_tokens_is_forecast_nearly(kind: str) -> None:
    """How the text is split into its tokens depends on where earlier drafts ended."""
    (found,), true = forecast_of(kind, [4], GREEDY), rounds_of_loop(kind, 4, GREEDY, tokens_of(kind))
    assert found.rounds == pytest.approx(true.rounds, rel=0.2)


@pytest.mark.slow_for("eagle tree", "dflash tree", "medusa*")
@pytest.mark.parametrize("kind", FOLLOWED)
def test_drafts_that_are_compared_with_a_text_see_its_noise(kind: str) -> None:
    """Only the last tokens, where a tree is a chain, are expected and not seen."""
    coupled = replace(SHAPED, acceptance="coupled")
    (found,), true = forecast_of(kind, [3], coupled), rounds_of_loop(kind, 3, coupled, tokens_of(kind))
    assert (found.rounds, found.drafted) == pytest.approx((true.rounds, true.drafted), rel=0.02)


@pytest.mark.slow_for("draft")
@pytest.mark.parametrize("kind", ["draft", "eagle"])
def test_a_reply_that_ends_by_itself_ends_its_rounds(kind: str) -> None:
    """Drafts may go past the end then, and what is drafted there counts."""
    whole = text_of(kind, GREEDY)
    end = next(place for place in range(20, 60) if whole.reply.index(whole.reply[place]) == place)
    text = TargetText(whole.tokens[: whole.prompt + end + 1], whole.prompt, 60)
    limits = Limits(60, CONTEXT, frozenset({whole.reply[end]}))
    check(forecast_of(kind, [5], GREEDY, text)[0], rounds_of_loop(kind, 5, GREEDY, limits))


@pytest.mark.parametrize("kind", ["dflash tree", "eagle tree", "lookup tree"])
def test_trees_that_are_drawn_are_refused_under_rejection(kind: str) -> None:
    if kind == "lookup tree":  # it copies
        check(forecast_of(kind, [4], WARM)[0], rounds_of_loop(kind, 4, WARM, tokens_of(kind)))
        return
    with pytest.raises(UsageError, match="trees cannot be forecast with rejection sampling"):
        forecast_of(kind, [4], WARM)


def test_rounds_take_what_their_drafts_and_contexts_do() -> None:
    class Rising:
        """A plain step takes as many seconds as there are tokens, a drafted token ten more."""

        learnt = True

        def plain_s(self, context: int) -> float:
            return context

        def round_s(self, length: int, context: int) -> float:
            return context + 10 * length

    drafter, text = nearby(), text_of("draft", GREEDY)
    outputs = read_text(target_of("llama"), text, drafter.needs)
    totals = forecast_reply("", outputs, [drafter], [1, 4], GREEDY, [Rising()]).totals
    plain_s = sum(range(text.prompt, len(text.tokens)))
    assert totals[0].seconds == totals[1].plain_s == totals[4].plain_s == plain_s
    assert totals[4].seconds < plain_s * 2 / 3 + 10 * totals[4].drafted
    assert totals[None] is min((totals[0], totals[1], totals[4]), key=lambda one: one.seconds)


def test_recorded_keys_and_values_are_those_that_the_target_shows() -> None:
    """At every length from the prompt on, with a window that is narrower than the prompt, and one after a reply that is
    longer than the window."""
    text, target = text_of("gemma 4", GREEDY), CachedModel(network_of("gemma4_text"))
    outputs = read_text(target, text, random_assistant(target.model).needs)
    view = RecordedView(target, outputs)
    target.feed(text.tokens[: text.prompt - 2])
    starts = set()
    for length in range(text.prompt - 1, len(text.tokens)):
        target.feed(text.tokens[length - 1 : length])
        view.seen = length
        for layer in outputs.kv:
            found, shown = view.kv(layer), target.cache.kv(layer)
            assert found.start == shown.start
            assert np.allclose(np.array(found.keys), np.array(shown.keys), atol=1e-5)
            assert np.allclose(np.array(found.values), np.array(shown.values), atol=1e-5)
            starts.add((layer, shown.start > 0))
    assert starts == {(0, True), (1, False)}
