"""What a drafter may read of the target, and a new kind of drafter that needs nothing but that."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models import qwen3

from engine.drafters import Draft, DraftContext, Drafter, Needs, empty_draft
from engine.drafters.drafter_group import DrafterGroup
from engine.drafters.prompt_lookup import PromptLookup
from engine.errors import UnsupportedCache
from engine.policy.fixed import FixedLength
from engine.session import Prompt, Session
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from engine.target.layer_taps import NORMED
from engine.target.target_view import TargetView
from tests.engine.conversations import MODELS, TURN, answer, read
from tests.engine.fakes import ByteTokenizer
from tests.engine.replies import PROMPT, plain_reply, reply
from tests.toys.architectures import _config

LAYER = 1
REPEATED = [*PROMPT, *PROMPT, *PROMPT]
WINDOW = 8


class NearestKey(Drafter):
    """A toy kind, as one file of `engine/drafters` would have it: copies what followed the earlier token whose key in
    one layer is most like the last one's, after the token that the target's own state names."""

    name = "nearest key"
    needs = Needs((NORMED,), kv_layers=(LAYER,))

    def __init__(self, target: CachedModel) -> None:
        self.target = TargetView(target, self.needs.taps, kv_layers=self.needs.kv_layers)
        self.named: list[bool] = []

    def for_another_reply(self, target: CachedModel) -> NearestKey:
        return NearestKey(target)

    def propose(self, context: DraftContext, length: int) -> Draft:
        seen = len(context.tokens) - 1
        if self.target.length != seen or seen < 2:
            return empty_draft()
        last = self.target.unembed(self.target.hidden(self.needs.taps, seen - 1, seen))
        self.named.append(mx.argmax(last).item() == context.tokens[-1])
        keys, _, start = self.target.kv(LAYER)
        alike = mx.sum((keys[0, :-1] - keys[0, -1]) ** 2, -1)
        place = int(mx.argmin(alike).item()) + start  # type: ignore[arg-type]
        return Draft(mx.array(list(context.tokens[place + 2 :][:length]), mx.int32))

    def reusable(self, length: int) -> int:
        return min(length, max(self.target.recorded[1] - 1, 0))

    def snapshot(self) -> None:
        """It remembers nothing that the target does not."""

    def restore(self, snapshot: None) -> None:
        pass


def test_a_new_kind_of_drafter_needs_one_file() -> None:
    """Alone and in a group, over two turns: the text is plain decoding's, and drafts are accepted."""
    name = "llama"
    target = CachedModel(MODELS[name])
    drafter = NearestKey(target)
    plain = plain_reply(MODELS[name], tokens=30, prompt=REPEATED)
    ids, rounds, _ = reply(target, drafter, 3, tokens=30, prompt=REPEATED)
    assert ids == plain
    assert any(round_.drafted for round_ in rounds) and len(drafter.named) > 5
    assert all(drafter.named[1:])  # the first follows the prompt, which the target did not choose
    session, settings = Session(target, ByteTokenizer(), 1000), SamplingSettings(max_tokens=12)
    fresh = Session(CachedModel(MODELS[name]), ByteTokenizer(), 1000)
    for kind in (drafter, DrafterGroup([PromptLookup(), drafter])):
        prompt = list(REPEATED)
        for _ in range(2):
            told = read(list(session.continue_tokens(Prompt(prompt), settings, kind, FixedLength(3))))
            assert told.ids == answer(fresh, prompt, settings).ids
            prompt = [*prompt, *told.ids, *TURN]


def view_after(name: str, tokens: int, **how: Any) -> TargetView:
    target = CachedModel(MODELS[name], **how)
    target.feed([(7 * i) % 50 for i in range(tokens)])
    return TargetView(target)


def test_keys_and_values_are_in_temporal_order_also_past_a_windows_edge() -> None:
    """Row i belongs to token start + i: what single steps put there, whatever the window has dropped since."""
    view = view_after("llama", 5)
    kinds = view.model.cache.layer_types
    assert set(kinds) == {"full_attention", "sliding_attention"}
    steps: dict[int, dict[int, np.ndarray]] = {layer: {} for layer in range(len(kinds))}
    for place in range(5, 40):
        view.model.feed([(7 * place) % 50])
        for layer in steps:
            steps[layer][place] = np.array(view.kv(layer).keys[:, -1])
    for layer, kind in enumerate(kinds):
        keys, values, start = view.kv(layer)
        assert keys.shape[:2] == values.shape[:2] and keys.shape[1] == 40 - start
        assert (start == 0) == (kind == "full_attention")
        for row in range(max(5 - start, 0), keys.shape[1]):
            assert np.array_equal(np.array(keys[:, row]), steps[layer][start + row])
    view.model.rewind(37)
    assert view.length == 37 and view.kv(0).keys.shape[1] + view.kv(0).start == 37


def test_quantized_keys_and_values_are_dequantized(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = qwen3.ModelArgs.from_dict({**_config("qwen3"), "head_dim": 32})
    monkeypatch.setitem(MODELS, "wide heads", qwen3.Model(arguments))
    plain, quantized = view_after("wide heads", 20), view_after("wide heads", 20, kv_bits=8, kv_group_size=32)
    assert quantized.model.cache.layer_types == plain.model.cache.layer_types
    for layer in range(len(plain.model.cache.layer_types)):
        for mine, theirs in zip(quantized.kv(layer)[:2], plain.kv(layer)[:2], strict=True):
            assert mine.shape == theirs.shape
            assert np.allclose(np.array(mine), np.array(theirs), atol=0.1)


def test_layers_without_keys_and_values_are_refused() -> None:
    target = CachedModel(MODELS["mamba2"])
    assert set(target.cache.layer_types) == {"linear_attention"}
    with pytest.raises(UnsupportedCache, match="no keys and values for each token"):
        TargetView(target, kv_layers=(0,))
    with pytest.raises(ValueError, match="layer 99 of a model with"):
        TargetView(target, kv_layers=(99,))


def test_states_are_those_of_the_requested_points_only() -> None:
    target = CachedModel(MODELS["qwen3"])
    view = TargetView(target, taps=(0, 1, NORMED))
    with pytest.raises(ValueError, match="no hidden states are recorded"):
        view.hidden((0,), 0, 1)
    target.record((0, 1, NORMED))
    target.feed(PROMPT)
    whole = view.hidden((0, 1, NORMED), 0, len(PROMPT))
    size = whole.shape[1] // 3
    assert mx.array_equal(view.hidden((NORMED, 0), 2, 5), mx.concatenate([whole[2:5, -size:], whole[2:5, :size]], -1))
    assert mx.allclose(view.hidden((0,), 2, 5), view.embed(mx.array(PROMPT[2:5])))
    with pytest.raises(ValueError, match="at points \\[2\\] are requested"):
        view.hidden((2,), 2, 5)
