"""Multi-token prediction heads of every family whose names are known: loaded from a checkpoint, then in the loop."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from engine.backend.mlx_lm_imports import KVCache
from engine.drafters import DraftContext
from engine.drafters.mtp import Mtp, MtpHead
from engine.errors import ModelError
from engine.sampling import Sampler, TokenCounts
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from engine.target.layer_taps import NORMED
from models.convert.stored_head import stored_head
from models.drafters.head_weights import evaluate_weights
from models.drafters.mtp import FILES, write_mtp
from models.drafters.target_match import TargetShape
from models.parameters import flat_parameters
from models.storage_options import StorageOptions
from tests.engine.fewer import fewer
from tests.engine.replies import PROMPT, attach, plain_reply, reply
from tests.models.drafters.head_folders import config_of, edit
from tests.toys.architecture_common import VOCABULARY
from tests.toys.mtp_heads import PLACE, PUBLISHED, toy_target, write_checkpoint

SHAPE = TargetShape("target", VOCABULARY, PLACE, 32, lambda points: 32 * len(points), {})
SHAPED = SamplingSettings(temperature=0.9, top_p=0.95, seed=3)
PAIRS = 20  # more than the toys' windows of 12, and than the 16 keys that an index chooses


def head_in(path: Path, dtype: mx.Dtype = mx.float32) -> MtpHead:
    head = FILES.build(path, replace(SHAPE, config=config_of(path)))
    evaluate_weights(head, dtype)
    return head


def inputs() -> tuple[mx.array, mx.array]:
    mx.random.seed(9)
    return mx.random.normal((1, PAIRS, 32)), mx.random.normal((1, PAIRS, 32))


@pytest.mark.slow_for("glm_moe_dsa", "glm4_moe_lite")
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_head_computes_what_its_layer_computes_over_all_pairs_at_once(name: str, tmp_path: Path) -> None:
    """In blocks and single steps; steps that are taken back leave no trace."""
    reference, head = write_checkpoint(name, tmp_path), head_in(tmp_path)
    hidden, embedded = inputs()
    raw = reference(hidden, embedded)
    want = reference.norm("norm", raw)
    caches, out = [KVCache() for _ in range(head.form.caches)], []
    for start, end in ((0, 6), (6, 7), (7, 15), (15, 16), (16, PAIRS)):
        head(hidden[:, :2], embedded[:, 1:3], caches)
        head(hidden[:, :1], embedded[:, :1], caches)
        for cache in caches:
            cache.trim(3)
        out.append(head(hidden[:, start:end], embedded[:, start:end], caches))
    found = mx.concatenate(out, 1)
    assert mx.allclose(found, want if PUBLISHED[name].normed else raw, atol=1e-4, rtol=1e-4).item()
    assert mx.allclose(head.normed(found), want, atol=1e-4, rtol=1e-4).item()


# What decides which experts compute, which mlx-lm keeps in 32 bits.
BIASES = {"bailing_moe": "expert_bias", "bailing_hybrid": "expert_bias"} | dict.fromkeys(
    ("deepseek_v3", "kimi_k2", "glm4_moe", "glm4_moe_lite", "deepseek_v32", "glm_moe_dsa", "nemotron_h"),
    "e_score_correction_bias",
)


@pytest.mark.slow_for("glm_moe_dsa", "deepseek_v3*", "kimi_k2")
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_biases_that_choose_experts_stay_in_32_bits(name: str, tmp_path: Path) -> None:
    wanted = flat_parameters(write_checkpoint(name, tmp_path).layer)
    parameters = flat_parameters(head_in(tmp_path, mx.bfloat16))
    kept = {path for path, value in parameters.items() if value.dtype == mx.float32}
    assert {path.rpartition(".")[2] for path in kept} == ({BIASES[name]} if name in BIASES else set())
    assert all(mx.array_equal(parameters[path], wanted[path.removeprefix("layer.")]).item() for path in kept)
    assert {value.dtype for path, value in parameters.items() if path not in kept} == {mx.bfloat16}


# Norms whose epsilon mlx-lm takes from elsewhere, as in targets.
EPSILON = {
    "glm4_moe_lite": ("self_attn.q_a_layernorm", "self_attn.kv_a_layernorm"),
    "deepseek_v32": ("self_attn.indexer.k_norm",),
}


@pytest.mark.parametrize("name", EPSILON)
def test_the_layer_is_corrected_as_the_targets_are(name: str, tmp_path: Path) -> None:
    write_checkpoint(name, tmp_path)
    modules = dict(head_in(tmp_path).layer.named_modules())
    assert {modules[norm].eps for norm in EPSILON[name]} == {1e-6}


@pytest.mark.parametrize("name", ["glm4_moe_lite", "step3p5"])
def test_an_output_matrix_of_its_own_is_read_under_both_names(name: str, tmp_path: Path) -> None:
    own = mx.random.normal((VOCABULARY, 32))
    write_checkpoint(name, tmp_path, own_output=own)
    project = head_in(tmp_path).project
    assert project is not None and mx.allclose(project(mx.eye(32)), own.T, atol=1e-6).item()


@pytest.mark.slow_for("glm_moe_dsa", "glm4_moe_lite", "deepseek_v32", "bailing*", "kimi_k2")
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_head_is_stored_beside_converted_weights(name: str, tmp_path: Path) -> None:
    """And loads from there as it was."""
    write_checkpoint(name, tmp_path / "source")
    head = stored_head(tmp_path / "source", StorageOptions())
    assert head is not None
    converted = tmp_path / "converted"
    converted.mkdir()
    shutil.copy(tmp_path / "source" / "config.json", converted)
    write_mtp(head, converted)
    wanted, found = (flat_parameters(head_in(path)) for path in (tmp_path / "source", converted))
    assert wanted.keys() == found.keys()
    assert all(mx.array_equal(found[path], value).item() for path, value in wanted.items())
    kept = {path.rpartition(".")[2] for path, value in flat_parameters(head).items() if value.dtype == mx.float32}
    assert name not in BIASES or BIASES[name] in kept
    assert FILES.footprint(converted, 4)(100).cache > 0


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        ("exaone_moe", {}, "does not support 'exaone_moe' layers"),
        ("nemotron_h", {"mtp_hybrid_override_pattern": "M*E"}, "does not describe a valid drafter (blocks 'M*E')"),
        ("step3p5", {"layer_types": ["full_attention"]}, "does not describe a valid drafter (list index out of range)"),
        ("deepseek_v3", {"n_routed_experts": "x"}, "does not describe a valid drafter"),
        ("deepseek_v3", {"qk_nope_head_dim": []}, "does not describe a valid drafter"),
        ("glm4_moe_lite", {"num_attention_heads": "x"}, "does not describe a valid drafter"),
    ],
)
def test_what_no_source_describes_is_refused(name: str, changes: dict[str, Any], reason: str, tmp_path: Path) -> None:
    write_checkpoint(name if name in PUBLISHED else "mimo", tmp_path)
    edit(tmp_path, model_type=name, **changes)
    with pytest.raises(ModelError) as caught:
        head_in(tmp_path)
    assert reason in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", fewer(PUBLISHED, ["step3p5"]))
def test_the_text_is_the_targets_whatever_a_head_drafts(name: str, tmp_path: Path) -> None:
    """Afterwards the drafter, wound back, drafts what a new one does."""
    write_checkpoint(name, tmp_path)
    network, taps = toy_target(name), NORMED if PUBLISHED[name].normed else PLACE
    for sampling in (SHAPED, None):
        drafter = Mtp(head_in(tmp_path), CachedModel(network), taps)
        ids, rounds, _ = reply(network, drafter, 4, sampling, tokens=20)
        assert ids == plain_reply(network, sampling, 20)
        assert sum(len(round_.drafted) for round_ in rounds) > 20
    again = Mtp(drafter.head, CachedModel(network), taps)
    assert draft_after_prompt(drafter, network) == draft_after_prompt(again, network)


def draft_after_prompt(drafter: Mtp, network: Any) -> list[int]:
    """What it drafts after the prompt, of which it knows at most the first four pairs."""
    target = CachedModel(network)
    attach(drafter, target)
    target.feed(PROMPT[:-1])
    drafter.rewind(5)
    sampler = Sampler(SamplingSettings(), VOCABULARY)
    draft = drafter.propose(DraftContext(PROMPT, TokenCounts(sampler.distribution, PROMPT), sampler), 4)
    tokens: Any = draft.tokens.tolist()
    return list(tokens)
