"""The target's conversations with itself: the same for the same plan, whatever went before."""

import gc
from collections import Counter
from copy import copy
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.generate import BatchGenerator

from engine.errors import FitError
from models.loader import Loaded
from models.training.corpus import (
    TEMPERATURES,
    Conversation,
    ConversationWriter,
    load_shard,
    save_shard,
    split_corpus,
)
from models.training.text_generation import TextRequest, batching_is_exact, write_texts
from models.training.training_prompts import user_turn_prefix
from tests.models.training.training_plans import as_tuples, conversation, plan_for
from tests.toys.architectures import build


def shard_of(author: ConversationWriter, number: int) -> list[Conversation]:
    return [c for c in author.write_shard(number) if isinstance(c, Conversation)]


def texts_of(network: object, requests: list[TextRequest], rows: int) -> dict[int, list[int]]:
    return {text.number: text.tokens for text in write_texts(network, requests, rows) if text.finished}


@pytest.mark.slow
def test_a_shard_is_a_function_of_its_number(target: Loaded) -> None:
    plan = plan_for(target, "eagle3")
    everything = [as_tuples(shard_of(ConversationWriter(target, plan), number)) for number in range(3)]
    assert as_tuples(shard_of(ConversationWriter(target, plan), 1)) == everything[1]
    assert len({tuple(tokens) for shard in everything for tokens, _, _ in shard}) == 24
    other = plan_for(target, "eagle3", seed=1)
    assert as_tuples(shard_of(ConversationWriter(target, other), 1)) != everything[1]


def test_a_template_that_prints_the_date_prints_the_day_on_which_the_fit_began(target: Loaded) -> None:
    template = "{{ strftime_now('%Y-%m-%d') }} {{ messages[0].content }}"
    tokenizer = copy(target.tokenizer)
    tokenizer._template = template
    plan = plan_for(target, "eagle3")
    shard = shard_of(ConversationWriter(replace(target, tokenizer=tokenizer), plan), 0)
    whole = [tokenizer.decode(c.tokens[: c.prompt]) for c in shard if c.prompt < plan.prompt_tokens]
    assert len(whole) > 2 and all(prompt.startswith("2026-01-31 ") for prompt in whole)


def test_replies_are_at_the_temperatures_in_turn_and_greedy_ones_are_what_the_target_says(target: Loaded) -> None:
    """Written side by side, with prompts of different lengths, as alone."""
    plan = plan_for(target, "eagle3")
    shard = shard_of(ConversationWriter(target, plan), 0)
    assert [c.temperature for c in shard] == list(TEMPERATURES) * 2
    for c in shard:
        assert c.prompt <= plan.prompt_tokens and 1 <= c.reply <= plan.reply_tokens
        ends = [token in target.tokenizer.eos for token in c.tokens[c.prompt :]]
        assert not any(ends[:-1]) and (ends[-1] or c.reply == plan.reply_tokens)
        if c.temperature == 0:
            logits = target.network(mx.array(c.tokens)[None])[0]
            assert mx.argmax(logits[c.prompt - 1 : -1], -1).tolist() == list(c.tokens[c.prompt :])


def test_the_target_writes_some_of_its_prompts_itself(target: Loaded) -> None:
    author = ConversationWriter(target, plan_for(target, "eagle3"))
    own = [number for number in range(100) if author._writes_its_own(number)]
    assert 30 < len(own) < 70
    request = author._question(own[0])
    assert list(request.tokens) == user_turn_prefix(target.tokenizer)


def test_given_prompts_are_asked_in_turn_at_every_temperature(target: Loaded) -> None:
    plan = plan_for(target, "eagle3", conversations=16, shard=16)
    shard = shard_of(ConversationWriter(target, plan, ["one", "two"]), 0)
    heard = {(target.tokenizer.decode(c.tokens[: c.prompt]).split("\n")[1], c.temperature) for c in shard}
    assert heard == {(text, t) for text in ("one", "two") for t in TEMPERATURES}


@pytest.mark.parametrize("count", [4, 7])
def test_a_given_prompt_is_answered_greedily_once(target: Loaded, count: int) -> None:
    author = ConversationWriter(target, plan_for(target, "eagle3"), [f"{n}" for n in range(count)] * 2)
    heard = Counter((author._given(number), author._temperature(number)) for number in range(6 * count))
    assert all(heard[f"{n}", 0.0] == 1 for n in range(count))
    assert all(heard[f"{n}", 0.7] >= 2 and heard[f"{n}", 1.0] >= 2 for n in range(count))


def test_texts_written_one_after_the_other_are_the_same(target: Loaded) -> None:
    requests = [TextRequest((1, 5, 9 + n), 12, (0.0, 1.0)[n % 2], n, frozenset({2}), 0.01 * n) for n in range(4)]
    assert texts_of(target.network, requests, 0) == texts_of(target.network, requests, 3)


@pytest.mark.parametrize(("name", "sound"), [("llama", True), ("gpt_bigcode", False), ("rwkv7", False)])
def test_models_that_cannot_be_batched_are_found(name: str, sound: bool) -> None:
    assert batching_is_exact(build(name)) == sound


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_while_a_batch_is_prepared_is_only_an_interrupt(
    target: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """mlx-lm's generator would print a traceback from `__del__`, as it does not know yet what to put back."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(BatchGenerator.__init__.__globals__, "maybe_set_recommended_wired_limit", interrupt)
    with pytest.raises(KeyboardInterrupt):
        list(write_texts(target.network, [TextRequest((1, 2), 2, 0.0, 0, frozenset())], rows=2))
    gc.collect()


def test_a_shard_comes_back_from_disk_as_it_was(tmp_path: Path) -> None:
    shard = [conversation((1, 2, 70_000), 2, 0.7), conversation((4, 5), 1)]
    save_shard(tmp_path / "00000.npz", shard)
    loaded = load_shard(tmp_path / "00000.npz")
    assert as_tuples(loaded) == as_tuples(shard)
    assert [c.tokens.dtype for c in loaded] == [np.int32, np.int32]  # Python's numbers would take nine times as much
    assert [path.name for path in tmp_path.iterdir()] == ["00000.npz"]
    (tmp_path / "00000.npz").write_bytes((tmp_path / "00000.npz").read_bytes()[:60])
    with pytest.raises(FitError, match="remove it and continue with --resume"):
        load_shard(tmp_path / "00000.npz")


# --- what is judged by, and what is learnt from ---------------------------------------------------


def answers(prompts: int, times: int) -> list[Conversation]:
    """So many prompts, each answered so many times, greedily and at temperature 1 in turn."""
    return [conversation((n % prompts, *range(1, 10), n), 8, float(n // prompts % 2)) for n in range(prompts * times)]


def test_no_prompt_is_both_trained_on_and_held_out(target: Loaded) -> None:
    talk = [*answers(7, 6), conversation((99, *range(9)), 9)]
    corpus = split_corpus(talk, plan_for(target, "eagle3"))
    sides = [{int(talk[n].tokens[0]) for n in places} for places in (corpus.held_out, corpus.training)]
    assert not sides[0] & sides[1]
    assert len(corpus.held_out) >= 6 and len(corpus.held_out) + len(corpus.training) == 42
    with pytest.raises(FitError, match="more different prompts"):
        split_corpus(talk[:1], plan_for(target, "eagle3"))


@pytest.mark.parametrize(("prompts", "judged"), [(4, 1), (20, 5), (50, 8)])
def test_held_out_conversations_have_several_prompts(target: Loaded, prompts: int, judged: int) -> None:
    """And no more than a quarter of the prompts is kept from training for that."""
    talk = answers(prompts, 40)
    corpus = split_corpus(talk, plan_for(target, "eagle3", held_out=32))
    held = Counter(int(talk[n].tokens[0]) for n in corpus.held_out)
    assert len(held) == judged and max(held.values()) <= -(-32 // judged) and 32 <= sum(held.values()) < 40
    assert len(corpus.training) == (prompts - judged) * 40


def test_more_is_held_out_until_both_temperatures_can_be_evaluated(target: Loaded) -> None:
    """As far as half of the prompts go."""
    for seed in range(20):
        talk = [conversation((40 + n, *range(20)), 6, (0.0, 0.7, 0.0, 1.0)[n % 4]) for n in range(8)]
        corpus = split_corpus(talk, plan_for(target, "eagle3", held_out=2, seed=seed))
        warm = {talk[n].temperature for n in corpus.held_out}
        assert 2 <= len(corpus.held_out) <= 4 and (warm >= {0.0, 1.0} or len(corpus.held_out) == 4)
    cold = [conversation((40 + n, *range(20)), 6) for n in range(8)]
    assert len(split_corpus(cold, plan_for(target, "eagle3", held_out=2)).held_out) == 4


def test_conversations_too_short_for_a_draft_are_left_out(target: Loaded) -> None:
    talk = [*answers(20, 1), conversation((30, 31, *range(7)), 2)]
    corpus = split_corpus(talk, plan_for(target, "eagle3"))
    assert 20 not in {*corpus.held_out, *corpus.training}
