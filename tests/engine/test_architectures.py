"""Speculative equals plain equals mlx-lm on every architecture that can be built: see `tests.sweep`."""

from pathlib import Path

import pytest

from tests.sweep import BEGIN, END, README, examine, names

CHAINS_BY_CODE = {"afm7", "gpt2", "gpt_bigcode", "ministral3", "mistral3", "mistral4", "nanochat", "talkie"}
LISTED = {"deepseek_v32", "glm_moe_dsa", "longcat_flash", "minimax_m3_vl"}  # KV caches in a list: two a layer
LATER = pytest.mark.slow
EVERY_TIME = {  # what people run, each kind of cache, and whatever was wrong once; the others take minutes
    *(
        "llama",
        "llama4",
        "qwen2",
        "qwen3",
        "qwen3_moe",
        "qwen3_next",
        "gemma3",
        "gemma3_text",
        "gemma3n",
        "gemma4_text",
    ),
    *("smollm3", "lfm2", "mistral3", "ministral3", "mixtral", "phi3", "gpt_oss", "glm4_moe", "deepseek_v3", "cohere2"),
    *("mamba2", "rwkv7", "jamba", "falcon_h1", "granitemoehybrid", "nemotron_h", "recurrent_gemma", "baichuan_m1"),
    *("olmo2", "olmo3", "plamo3", "phi3small", "olmo", "muse_spark", "bitnet", "exaone4", "kimi_linear", "minimax"),
}
KNOWN = {"muse_spark": "not built", "olmo": "not built", "phi3small": "refused"}


@pytest.mark.parametrize("name", [name if name in EVERY_TIME else pytest.param(name, marks=LATER) for name in names()])
def test_every_architecture_is_exact_or_says_why_not(name: str) -> None:
    row = examine(name)
    assert row.verdict == KNOWN.get(name, "exact"), row.reason
    assert row.verdict == "exact" or row.reason
    if row.verdict == "exact" and set(row.caches.split(", ")) <= {"KVCache", "SlidingKVCache"} and name not in LISTED:
        assert bool(row.trees) == (name in CHAINS_BY_CODE), row.trees
    elif row.verdict == "exact":
        assert "cannot leave refused branches out" in row.trees


def test_the_readme_lists_every_architecture() -> None:
    section = Path(README).read_text().split(BEGIN)[1].split(END)[0]
    words = set(section.replace("|", " ").replace(",", " ").split())
    assert set(names()) <= words
