"""Speculative equals plain equals mlx-lm on every architecture that can be built: see `tests.programs.sweep`."""

import mlx.core as mx
import pytest

from engine import backend
from tests.programs.architecture_page import part
from tests.programs.sweep import PART, TOKENS, examine, names

CHAINS_BY_CODE = {"afm7", "gpt2", "gpt_bigcode", "ministral3", "mistral3", "mistral4", "nanochat", "talkie"}
LISTED = {"deepseek_v32", "glm_moe_dsa", "longcat_flash", "minimax_m3_vl"}  # KV caches in a list: two a layer
ON_A_CPU = {} if mx.metal.is_available() else {"muse_spark": "not built"}  # all of it is Metal kernels
KNOWN = {**ON_A_CPU, "olmo": "not built", "phi3small": "refused"}
# Kernels of GPUs round by the rows of a pass, so a near-tie may be decided otherwise there; never on a CPU.
EXACT = {"exact"} if backend.describe().device == "cpu" else {"exact", "near-tie"}
# Every time and with a shorter text, which still leaves every window; the other caches have tests of their own.
EVERY_TIME = ["llama", "qwen3_next", "gpt_oss", *KNOWN]


@pytest.mark.slow_for("gpt_oss-80")
@pytest.mark.parametrize(
    ("name", "tokens"),
    [*((name, 80) for name in EVERY_TIME), *(pytest.param(name, TOKENS, marks=pytest.mark.slow) for name in names())],
)
def test_every_architecture_is_exact_or_says_why_not(name: str, tokens: int) -> None:
    row = examine(name, tokens)
    assert row.verdict in ({KNOWN[name]} if name in KNOWN else EXACT), row.reason
    assert row.verdict == "exact" or row.reason
    if row.verdict in EXACT and set(row.caches.split(", ")) <= {"KVCache", "SlidingKVCache"} and name not in LISTED:
        assert bool(row.trees) == (name in CHAINS_BY_CODE), row.trees
    elif row.verdict in EXACT:
        assert "cannot drop refused branches" in row.trees


def test_the_page_lists_every_architecture() -> None:
    words = set(part(PART).replace("|", " ").replace(",", " ").split())
    assert set(names()) <= words
