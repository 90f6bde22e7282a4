"""Every published format of heads against the outputs of its reference implementation, see `oracles/README.md`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.backend.mlx_lm_imports import KVCache
from engine.drafters.eagle3 import Eagle3
from tests.models.drafters.oracle_heads import CLOSE, ORACLES, embedding_of, far, head_of, recorded


@pytest.mark.parametrize("name", ["qwen3_5_mtp", "nextn_deepseek_v3", "nextn_glm4_moe"])
def test_prediction_heads_compute_what_transformers_does(name: str) -> None:
    """States of nine pairs, then the tokens of four chained steps; a step that is taken back leaves no trace."""
    folder, want = ORACLES / name, recorded(ORACLES / name)
    head, embedding = head_of(folder), embedding_of(folder, want)
    project = head.project or (lambda states: states @ mx.array(want["head"]).T)
    states, last = want["hid" if "hid" in want else "hidden"], want["last"]
    cache, following = KVCache(), mx.array(want["ids"])[:, 1:]
    out = head(mx.array(states)[:, :6], embedding[following[:, :6]], cache)
    head(out[:, -1:], embedding[following[:, 6:7]], cache)
    cache.trim(1)  # a drafted step, taken back
    rest = head(mx.array(states)[:, 6:], embedding[following[:, 6:]], cache)
    assert far(mx.concatenate([out, rest], 1), want["out"]) < CLOSE
    hidden, drafts = rest[:, -1:], []
    for _ in range(4):
        token = mx.argmax(project(hidden), -1)
        drafts.append(token.item())
        if len(drafts) < 4:
            hidden = head(hidden, embedding[token], cache)
    assert drafts == want["drafts"].tolist() and far(hidden, last) < CLOSE


@pytest.mark.parametrize("name", [f"dflash_{case}" for case in range(7)])
def test_blocks_are_those_of_z_lab(name: str) -> None:
    """Two rounds with nine and three committed rows: logits of every slot and, for DFlash 2, the selected path. A
    longer context that is taken back in between leaves no trace."""
    head, want = head_of(ORACLES / name), recorded(ORACLES / name)
    embedding, output, caches = mx.array(want["emb"]), mx.array(want["head"]), head.make_caches()
    for turn in (0, 1):
        states = mx.array(want[f"t{turn}"])[0]
        head.remember(states, caches)
        head.remember(states[:2], caches)
        for cache in caches:
            cache.trim(2)
        hidden = head(embedding[mx.array([[5 + turn, 63, 63, 63]])], head.after(caches))[0, 1:]
        logits = head.logits(hidden, lambda rows: rows @ output.T)
        assert far(logits, want[f"l{turn}"]) < CLOSE
        if f"path{turn}" in want:
            assert walked(head, logits, hidden, 5 + turn) == want[f"path{turn}"][0].tolist()


@pytest.mark.parametrize("anchor", [0, 1])
def test_markov_blocks_are_those_of_speculators(anchor: int) -> None:
    folder = ORACLES / f"dspark_{anchor}"
    head, want = head_of(folder), recorded(folder)
    caches, output = head.make_caches(), mx.array(want["head"])
    assert (head.config.from_anchor, head.config.longest) == (bool(anchor), 4)
    head.remember(mx.array(want["t0"])[0], caches)
    block = mx.array([5] + [head.config.mask_id] * (head.config.block - 1))
    hidden = head(head.embed_tokens(block)[None], head.after(caches))[0, -4:]
    assert far(hidden, want["h"]) < CLOSE
    assert walked(head, head.logits(hidden, lambda rows: rows @ output.T), hidden, 5) == want["toks"].tolist()


def walked(head: Any, logits: mx.array, hidden: mx.array, before: int) -> list[int]:
    """The likeliest token of every slot, given those before it."""
    path, token = [], mx.array([before])
    for slot in range(logits.shape[0]):
        token = mx.argmax(head.following(logits[slot : slot + 1], hidden[slot : slot + 1], token), -1)
        path.append(token.item())
    return path


@pytest.mark.parametrize("name", ["gemma4_plain", "gemma4_ordered"])
def test_assistants_compute_what_transformers_does(name: str) -> None:
    """State and logits of a step; tokens of other clusters have no probability, where transformers gives them the
    least."""
    head, want = head_of(ORACLES / name), recorded(ORACLES / name, ("expected.npz",))
    kv = {"sliding_attention": ("ks", "vs"), "full_attention": ("kf", "vf")}
    read = {kind: (mx.array(want[keys]), mx.array(want[values])) for kind, (keys, values) in kv.items()}
    both = mx.array(want["x"])[0]
    state, hidden = head(both[:, :32], both[:, 32:], read, 8)
    logits = head.logits(hidden)
    assert far(state, want["last"]) < CLOSE and far(logits, want["logits"]) < CLOSE
    assert np.isfinite(np.array(logits)).sum() == (16 if name == "gemma4_ordered" else 64)
    assert mx.argmax(logits).item() == want["logits"].argmax()


@pytest.mark.parametrize("name", ["eagle3_1", "peagle"])
def test_eagle_heads_compute_what_speculators_does(name: str) -> None:
    """Two layers, four taps with norms of their own; chained steps, or the slots of a parallel head."""
    folder, want = ORACLES / name, recorded(ORACLES / name)
    head, embedding = head_of(folder), embedding_of(folder, want)
    drafter: Any = Eagle3.__new__(Eagle3)
    drafter.head, drafter._caches = head, [KVCache() for _ in head.layers]
    drafter.target = SimpleNamespace(embed=lambda tokens: embedding[tokens])
    out = drafter.steps(head.fuse(mx.array(want["hidden"])[0]), mx.array(want["ids"])[0])
    assert far(out, want["out"]) < CLOSE and far(head.logits(out), want["logits"]) < CLOSE
    hidden, drafts = out[-1:], best(head, out[-1:])
    if name == "peagle":
        masked = mx.broadcast_to(head.fuse(head.mask_hidden[0]), (3, 32))
        hidden = drafter.steps(masked, mx.full(3, head.config.mask_id))
        drafts += best(head, hidden)
    while len(drafts) < 4:
        hidden = drafter.steps(hidden, mx.array(drafts[-1:]))
        drafts += best(head, hidden)
    assert drafts == want["drafts"].tolist() and far(hidden[-1:], want["last"]) < CLOSE


def best(head: Any, hidden: mx.array) -> list[int]:
    tokens: Any = head.ids[mx.argmax(head.logits(hidden), -1)].tolist()
    return tokens
