"""What block drafters, Gemma 4's assistants and P-EAGLE draft, against their networks called by hand."""

from functools import cache
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.backend.mlx_lm_imports import QuantizedKVCache
from engine.cache.sliding_window import SLACK, SlidingKVCache
from engine.drafters.eagle3 import Eagle3
from engine.errors import UnsupportedCache
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from tests.engine.replies import PROMPT, attach, draft_context, reply
from tests.engine.test_kept_conversations import network
from tests.toys.architecture_common import WINDOW
from tests.toys.architectures import build
from tests.toys.block_heads import BLOCKS, random_assistant, random_block
from tests.toys.heads import random_eagle3


@pytest.mark.parametrize("kind", BLOCKS)
def test_a_node_of_a_tree_is_as_likely_as_its_slot_says_after_its_parent(kind: str) -> None:
    """In trees of twelve nodes, whose siblings are different tokens; greedily they begin with the chain's tokens."""
    drafter = random_block(network("qwen3"), kind, trees=True)
    chain = random_block(network("qwen3"), kind)
    chain.head = drafter.head
    target = CachedModel(network("qwen3"))
    for one in (drafter, chain):
        attach(one, target)
        one.rewind(0)
    target.feed(PROMPT[:-1])
    for sampling in (SamplingSettings(temperature=1.2, seed=4, acceptance="rejection"), SamplingSettings()):
        context = draft_context(PROMPT, sampling)
        draft = drafter.propose(context, 12)
        assert draft.tree is not None and draft.tokens.size == 12
        tokens, parents, depths = draft.tokens.tolist(), draft.tree.parents.tolist(), draft.tree.depths.tolist()
        hidden = drafter._block(PROMPT[-1], drafter.traits.longest)
        logits = drafter.head.logits(hidden, drafter.target.unembed)
        for token, parent, depth, q in zip(tokens, parents, depths, draft.q.tolist(), strict=True):
            before = mx.array([tokens[parent] if parent >= 0 else PROMPT[-1]])
            slot = slice(depth - 1, depth)
            row = drafter.head.following(logits[slot], hidden[slot], before)
            logprobs = context.sampler.distribution.logprobs(row)
            assert q == pytest.approx(float(mx.exp(logprobs[0, token])), abs=1e-5)
        assert len(set(zip(parents, tokens, strict=True))) == 12
    node = -1
    for token in chain.propose(context, 12).tokens.tolist()[:2]:
        node = next(i for i in range(12) if parents[i] == node and tokens[i] == token)


def greedy_draft(drafter: Any, name: str, length: int) -> tuple[list[int], list[float]]:
    """The tokens of a greedy draft after the prompt, from nothing, and their probabilities."""
    target = CachedModel(network(name))
    attach(drafter, target)
    drafter.rewind(0)
    target.feed(PROMPT[:-1])
    draft = drafter.propose(draft_context(PROMPT), length)
    return np.array(draft.tokens).tolist(), np.array(draft.q).tolist()


def test_the_first_slot_follows_the_last_token() -> None:
    """Its bias is that of the last committed token, its logits those of a block over it and masks."""
    drafter = random_block(network("qwen3_5"), "dspark")
    found, q = greedy_draft(drafter, "qwen3_5", 1)
    head, target = drafter.head, drafter.target
    layers = zip(head.layers, drafter._caches, strict=True)
    attends = [layer.self_attn.after(head.rope, cache) for layer, cache in layers]
    hidden = head(target.embed(mx.array([[PROMPT[-1]]])), *attends)[0]
    logits = head.following(head.logits(hidden, target.unembed), hidden, mx.array([PROMPT[-1]]))
    assert found == [mx.argmax(logits).item()]
    assert q == [pytest.approx(mx.max(mx.softmax(logits)).item(), rel=1e-4)]


def test_an_assistant_stands_at_the_last_place_that_the_target_wrote() -> None:
    """Against the head called by hand: scaled embedding, the target's last normed state, position P - 1 for every
    step."""
    drafter = random_assistant(network("gemma4_text"))
    found, _ = greedy_draft(drafter, "gemma4_text", 3)
    head, target, seen = drafter.head, drafter.target, len(PROMPT) - 1
    shared, token, wanted = drafter._shared(seen - 1), mx.array([PROMPT[-1]]), []
    state = target.hidden(drafter.needs.taps, seen - 1, seen)
    for _ in range(3):
        hidden = head(target.embed(token)[None] * 32**0.5, state[None], shared)[0]
        state = head.post_projection(hidden)
        token = mx.argmax(head.logits(hidden), -1)
        wanted.append(token.item())
    assert found == wanted


def test_a_parallel_head_drafts_over_masks() -> None:
    """P-EAGLE: the first token is a chain's, the others come from one pass over mask state and mask token."""
    head = random_eagle3(seed=3, mask_id=5, own_embedding=True)
    drafter = Eagle3(head, CachedModel(network("qwen3")))
    assert drafter.traits.one_pass and not drafter.traits.branches
    found, _ = greedy_draft(drafter, "qwen3", 4)
    drafter.rewind(len(PROMPT) - 1)
    hidden = drafter._catch_up(PROMPT, len(PROMPT) - 1)[-1:]
    masked = mx.broadcast_to(head.fuse(head.mask_hidden[0]), (3, 32))
    rows = mx.concatenate([hidden, drafter.steps(masked, mx.array([5] * 3))])
    assert found == head.ids[mx.argmax(head.logits(rows), -1)].tolist()


# --- Gemma 4's assistants over windows that slide, and quantized keys and values ---

BITS = [None, 8]
LONG = PROMPT * (2 + (WINDOW + SLACK) // len(PROMPT))  # so that the window lets go of tokens again and again


@cache
def wide_network() -> Any:
    """A Gemma 4 whose heads are wide enough to be quantized. As in the larger ones, no layer reads another's keys."""
    return build("gemma4_text", head_dim=32, global_head_dim=32, num_kv_shared_layers=0)


def target_of(kv_bits: int | None) -> CachedModel:
    target = CachedModel(wide_network(), kv_bits, 32)
    sliding, full = target.cache.entries[-2:]
    assert isinstance(sliding, SlidingKVCache) and isinstance(full, QuantizedKVCache) is (kv_bits is not None)
    return target


@pytest.mark.parametrize("kv_bits", BITS)
def test_the_text_is_that_of_plain_decoding(kv_bits: int | None) -> None:
    """Of the same target with the same cache: drafts are exact, quantized keys are not."""
    sampling = SamplingSettings(temperature=0.9, top_p=0.95, repetition_penalty=1.2, seed=3)
    plain, _, _ = reply(target_of(kv_bits), sampling=sampling, tokens=24, prompt=LONG)
    ids, rounds, _ = reply(target_of(kv_bits), random_assistant(wide_network()), 4, sampling, tokens=24, prompt=LONG)
    assert ids == plain
    assert sum(len(round_.drafted) for round_ in rounds) > 30


def test_quantized_keys_and_values_are_read_nearly_as_they_were() -> None:
    """The assistant's probabilities over 8 bits are close to those over whole numbers, and not the same."""
    drafter, found = random_assistant(wide_network()), []
    for kv_bits in BITS:
        target = target_of(kv_bits)
        attach(drafter, target)
        target.feed(LONG[:-1])
        draft = drafter.propose(draft_context(LONG, SamplingSettings(temperature=1.0)), 1)
        found.append(np.exp(np.array(draft.logq)))
    far = np.abs(found[0] - found[1]).max()
    assert 0 < far < 0.02


def test_a_target_whose_layers_share_keys_cannot_quantize_them() -> None:
    """mlx-lm's Gemma 4 passes them on as they are stored, to layers that take whole numbers."""
    with pytest.raises(UnsupportedCache, match="cannot read a quantized cache"):
        CachedModel(build("gemma4_text", head_dim=32, global_head_dim=32), 8, 32)
