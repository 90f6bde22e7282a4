"""The target's conversations with itself: the same for the same plan, whatever went before."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import pytest

from engine.errors import FitError
from models.fit.corpus import TEMPERATURES, Author, Conversation, divide, load_shard, save_shard
from models.fit.prompts import opening
from models.fit.writing import Request, batches_soundly, write
from models.load import Loaded
from tests.models.fit.plans import plan_for
from tests.toys.architectures import build


def shard_of(author: Author, number: int) -> list[Conversation]:
    return [c for c in author.write_shard(number) if c is not None]


def said(network: object, requests: list[Request], rows: int) -> dict[int, list[int]]:
    return {text.number: text.tokens for text in write(network, requests, rows) if text.finished}


def test_a_shard_is_a_function_of_its_number(target: Loaded) -> None:
    plan = plan_for(target, "eagle3")
    everything = [shard_of(Author(target, plan), number) for number in range(3)]
    assert shard_of(Author(target, plan), 1) == everything[1]
    assert len({c.tokens for shard in everything for c in shard}) == 24
    other = plan_for(target, "eagle3", seed=1)
    assert shard_of(Author(target, other), 1) != everything[1]


def test_replies_are_at_the_temperatures_in_turn_and_as_long_as_allowed(target: Loaded) -> None:
    plan = plan_for(target, "eagle3")
    shard = shard_of(Author(target, plan), 0)
    assert [c.temperature for c in shard] == list(TEMPERATURES) * 2
    for c in shard:
        assert c.prompt <= plan.prompt_tokens and 1 <= c.reply <= plan.reply_tokens
        ends = [token in target.tokenizer.eos for token in c.tokens[c.prompt :]]
        assert not any(ends[:-1]) and (ends[-1] or c.reply == plan.reply_tokens)


def test_greedy_replies_are_what_the_target_says(target: Loaded) -> None:
    """Written side by side, with prompts of different lengths, as alone."""
    shard = [c for c in shard_of(Author(target, plan_for(target, "eagle3")), 0) if c.temperature == 0]
    for c in shard:
        logits = target.network(mx.array([c.tokens]))[0]
        assert mx.argmax(logits[c.prompt - 1 : -1], -1).tolist() == list(c.tokens[c.prompt :])


def test_the_target_writes_some_of_its_prompts_itself(target: Loaded) -> None:
    author = Author(target, plan_for(target, "eagle3"))
    own = [number for number in range(100) if author._writes_its_own(number)]
    assert 30 < len(own) < 70
    request = author._question(own[0])
    assert list(request.tokens) == opening(target.tokenizer)


def test_given_prompts_are_asked_in_turn_at_every_temperature(target: Loaded) -> None:
    plan = plan_for(target, "eagle3", conversations=16, shard=16)
    shard = shard_of(Author(target, plan, ["one", "two"]), 0)
    heard = {(target.tokenizer.decode(c.tokens[: c.prompt]).split("\n")[1], c.temperature) for c in shard}
    assert heard == {(text, t) for text in ("one", "two") for t in TEMPERATURES}


def test_texts_written_one_after_the_other_are_the_same(target: Loaded) -> None:
    requests = [Request((1, 5, 9 + n), 12, (0.0, 1.0)[n % 2], n, frozenset({2}), 0.01 * n) for n in range(4)]
    assert said(target.network, requests, 0) == said(target.network, requests, 3)


@pytest.mark.parametrize(
    ("name", "sound"), [("llama", True), ("qwen3", True), ("gpt_bigcode", False), ("rwkv7", False)]
)
def test_models_that_cannot_be_batched_are_found(name: str, sound: bool) -> None:
    assert batches_soundly(build(name)) == sound


def test_a_shard_comes_back_from_disk_as_it_was(tmp_path: Path) -> None:
    shard = [Conversation((1, 2, 70_000), 2, 0.7), Conversation((4, 5), 1, 0.0)]
    save_shard(tmp_path / "00000.npz", shard)
    assert load_shard(tmp_path / "00000.npz") == shard
    assert [path.name for path in tmp_path.iterdir()] == ["00000.npz"]
    (tmp_path / "00000.npz").write_bytes((tmp_path / "00000.npz").read_bytes()[:60])
    with pytest.raises(FitError, match="remove it and go on with --resume"):
        load_shard(tmp_path / "00000.npz")


def test_no_prompt_is_both_trained_on_and_held_out(target: Loaded) -> None:
    talk = [Conversation((n % 7, 1, 2, n), 2, 0.0) for n in range(40)] + [Conversation((99, 1), 1, 0.0)]
    corpus = divide(talk, plan_for(target, "eagle3"))
    sides = [{talk[n].tokens[:2] for n in places} for places in (corpus.held_out, corpus.training)]
    assert not sides[0] & sides[1]
    assert len(corpus.held_out) >= 6 and len(corpus.held_out) + len(corpus.training) == 40
    with pytest.raises(FitError, match="more different prompts"):
        divide(talk[:1], plan_for(target, "eagle3"))
