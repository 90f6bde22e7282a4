"""Rounds of every published format, through the drafter itself, against its reference implementation.

A draft, a rejection with another token in its place and a second draft, then an edit that takes committed tokens back
and a third one. `oracles/README.md` says who computed what is expected.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from engine.cache.model_cache import LayerKV
from engine.drafters import Draft, DraftContext, head_drafter
from engine.drafters.dflash import DFlash
from engine.drafters.eagle3 import Eagle3
from engine.drafters.gemma4_assistant import Gemma4Assistant
from engine.drafters.mtp import Mtp
from engine.sampling import Sampler, TokenCounts
from engine.settings import SamplingSettings
from tests.models.drafters.oracle_heads import CLOSE, ORACLES, Arrays, embedding_of, far, head_of, recorded

KV_LAYERS = {"sliding_attention": 0, "full_attention": 1}
KV_NAMES = (("ks", "vs"), ("kf", "vf"))


class RecordedTarget:
    """What a drafter reads of a target, from a fixture: in place of a `TargetView`."""

    shares_passes = False

    def __init__(self, recorded: Arrays, embedding: mx.array, output: mx.array) -> None:
        self._recorded, self._embedding, self._output = recorded, embedding, output
        self.rows: list[int] = []

    @property
    def length(self) -> int:
        return len(self.rows)

    def embed(self, tokens: mx.array) -> mx.array:
        return self._embedding[tokens]

    def unembed(self, hidden: mx.array) -> mx.array:
        return hidden @ self._output.T

    def hidden(self, _taps: Sequence[int], start: int, end: int) -> mx.array:
        assert 0 <= start < end <= len(self.rows)
        return mx.array(self._recorded["states"])[mx.array(self.rows[start:end])]

    def kv(self, layer: int) -> LayerKV:
        keys, values = (mx.array(self._recorded[name])[:, mx.array(self.rows)] for name in KV_NAMES[layer])
        return LayerKV(keys, values, 0)


DRAFTERS: dict[str, Callable[[Any, Any], Any]] = {
    "qwen3_5": Mtp, "nextn": Mtp, "dflash": DFlash, "dspark": DFlash, "eagle3": Eagle3, "peagle": Eagle3,
    "gemma4": lambda head, target: Gemma4Assistant(head, target, KV_LAYERS),
}  # fmt: skip
NAMES = sorted(folder.name for folder in ORACLES.iterdir() if folder.is_dir())


def drafter_of(folder: Path, want: Arrays, patch: pytest.MonkeyPatch) -> tuple[Any, RecordedTarget]:
    """The drafter in `folder`, and the target that it reads."""
    embedding = embedding_of(folder, want)
    target = RecordedTarget(want, embedding, mx.array(want["head"]) if "head" in want else embedding)
    patch.setattr(head_drafter, "TargetView", lambda given, *_: given)
    make = next(make for start, make in DRAFTERS.items() if folder.name.startswith(start))
    return make(head_of(folder), target), target


def spy(drafter: Any, patch: pytest.MonkeyPatch) -> tuple[list[mx.array], list[mx.array]]:
    """What the output matrix of the drafter will have read, and the logits that it will have made."""
    owner = drafter.head if hasattr(drafter.head, "logits") else drafter
    read: list[mx.array] = []
    made: list[mx.array] = []
    logits = owner.logits

    def listening(hidden: mx.array, *more: Any) -> mx.array:
        read.append(hidden)
        made.append(logits(hidden, *more))
        return made[-1]

    patch.setattr(owner, "logits", listening)
    return read, made


def propose(drafter: Any, tokens: list[int], vocabulary: int, length: int) -> Draft:
    sampler = Sampler(SamplingSettings(), vocabulary)
    draft: Draft = drafter.propose(DraftContext(tokens, TokenCounts(sampler.distribution, tokens), sampler), length)
    return draft


@pytest.mark.parametrize("name", NAMES)
def test_drafts_are_the_references_before_and_after_a_rejection_and_an_edit(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens, the states that the output matrix reads, and logits."""
    follows_the_reference(ORACLES / name, monkeypatch)


def follows_the_reference(folder: Path, patch: pytest.MonkeyPatch) -> None:
    want = recorded(folder)
    drafter, target = drafter_of(folder, want, patch)
    read, made = spy(drafter, patch)
    before: list[int] = []
    for turn in range(3):
        tokens, drafts = want[f"tokens{turn}"].tolist(), want[f"drafts{turn}"].tolist()
        drafter.rewind(kept(before, tokens))
        target.rows = want[f"rows{turn}"].tolist()
        del read[:], made[:]
        assert propose(drafter, tokens, target._embedding.shape[0], len(drafts)).tokens.tolist() == drafts
        assert far(mx.concatenate(read), want[f"out{turn}"]) < CLOSE
        assert far(mx.concatenate(made), want[f"logits{turn}"]) < CLOSE
        before = tokens


def kept(before: list[int], tokens: list[int]) -> int:
    """How many leading tokens are still those that the drafter has seen."""
    return next((i for i, pair in enumerate(zip(before, tokens, strict=False)) if pair[0] != pair[1]), len(before))
