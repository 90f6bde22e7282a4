"""Gemma 4's assistants and draft models that draft in parallel (PARD), damaged or hostile: refused in a line that says
why, and nothing in them is run."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from engine.errors import ModelError, PairError
from models.drafters import draft_model_kind, gemma4_assistant_folder, kind_of
from models.drafters.target_match import TargetShape
from models.loader import Loaded, load
from models.model_folder import check_folder
from tests.models.drafters.head_folders import Change, config_of, cut, drop, edit, put, said

SHAPE = TargetShape("target", 64, 4, 32, lambda points: 32 * len(points), {})
GEMMA: dict[str, Any] = {
    "model_type": "gemma4",
    "text_config": {
        "num_hidden_layers": 4,
        "num_kv_shared_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    },
}


class Trap:
    """Writes a file as soon as it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[Path]]:
        return Path.touch, (self.path,)


def trapped(name: str) -> Change:
    """Puts a pickle that runs code in place of the weights."""

    def change(path: Path) -> None:
        for file in path.glob("*.safetensors"):
            file.unlink()
        (path / name).write_bytes(pickle.dumps(Trap(path / "ran")))

    return change


def disguised(path: Path) -> None:
    """A pickle under the name of safetensors."""
    (path / "model.safetensors").write_bytes(pickle.dumps(Trap(path / "ran")))


def claims(size: int) -> Change:
    """A header that claims to be this long."""
    return lambda path: (path / "model.safetensors").write_bytes(size.to_bytes(8, "little") + b"{}")


def text(**changes: Any) -> Change:
    return lambda path: edit(path, text_config=config_of(path)["text_config"] | changes)


def refused(path: Path, fault: tuple[Change, str], *attempts: Callable[[], object]) -> None:
    """Each attempt, whether to check or to load it, is refused for the same reason, in one line."""
    spoil, reason = fault
    spoil(path)
    for attempt in attempts:
        with pytest.raises((ModelError, PairError)) as caught:
            attempt()
        assert reason in str(caught.value) and "\n" not in str(caught.value) and str(path) in str(caught.value)
    assert not (path / "ran").exists()


# --- Gemma 4's assistants ----------------------------------------------------------------------

ASSISTANT: dict[str, tuple[Change, str]] = {
    "pickle": (trapped("pytorch_model.bin"), "are a pickle, which can run code and is never loaded"),
    "pickle, .pt": (trapped("model.pt"), "are a pickle, which can run code and is never loaded"),
    "disguised pickle": (disguised, "cut short or not a safetensors"),
    "cut file": (cut(3000), "cut short or not a safetensors"),
    "empty file": (cut(0), "cut short or not a safetensors"),
    "endless header": (claims(2**62), "cut short or not a safetensors"),
    "damaged config": (lambda path: (path / "config.json").write_text("{"), "not valid JSON"),
    "narrow projection": (put("pre_projection.weight", mx.ones((16, 32))), "'pre_projection.weight' is (16, 32)"),
    "short embedding": (put("model.embed_tokens.weight", mx.ones((60, 16))), "is (60, 16), not (64, 16)"),
    "centroids of another number": (put("masked_embedding.centroids.weight", mx.ones((3, 16))), "is (3, 16), not"),
    "short ordering": (put("masked_embedding.token_ordering", mx.arange(60)), "is (60,), not (64,)"),
    "no ordering": (drop("masked_embedding.token_ordering"), "lacks the tensor 'masked_embedding.token_ordering'"),
    "unknown tensor": (put("model.layers.9.mlp.up_proj.weight", mx.ones(3)), "unknown tensor 'model.layers.9"),
    "more of the best than clusters": (said(centroid_intermediate_top_k=10**6), "no fewer than the best of them"),
    "unknown layers": (text(layer_types=["linear_attention"] * 4), "config.json describes no assistant"),
    "heads of nonsense": (text(num_attention_heads=10**9), "config.json"),
    "another vocabulary": (text(vocab_size=65), "different vocabulary size (65; target has 64)"),
    "another width": (said(backbone_hidden_size=48), "different hidden size (48 numbers a token; target has 32"),
}


@pytest.mark.parametrize("fault", ASSISTANT)
def test_each_fault_of_an_assistant_is_named_and_nothing_is_run(fault: str, tmp_path: Path) -> None:
    path = Path(shutil.copytree(Path(__file__).parent / "oracles" / "gemma4_ordered", tmp_path / "assistant"))

    refused(path, ASSISTANT[fault], lambda: gemma4_assistant_folder.check_assistant(path, GEMMA, SHAPE))


# --- draft models that draft in parallel -------------------------------------------------------

PARD: dict[str, tuple[Change, str]] = {
    "pickle": (trapped("pytorch_model.bin"), "pickle"),
    "pickle, .pt": (trapped("model.pt"), "pickle"),
    "disguised pickle": (disguised, "safetensors"),
    "cut file": (cut(3000), "cut short"),
    "endless header": (claims(2**62), "safetensors"),
    "mask beyond the vocabulary": (said(pard_token=10**9), "has no usable pard_token (1000000000)"),
    "mask below 0": (said(pard_token=-1), "has no usable pard_token (-1)"),
    "mask of nonsense": (said(pard_token="<mask>"), "has no usable pard_token (<mask>)"),
    "mask that is true": (said(pard_token=True), "has no usable pard_token (True)"),
}


@pytest.mark.parametrize("fault", PARD)
def test_each_fault_of_a_parallel_draft_model_is_named_and_nothing_is_run(
    fault: str, toy_folder: Path, toy_drafter_folder: Path, target: Loaded, tmp_path: Path
) -> None:
    path = Path(shutil.copytree(toy_drafter_folder, tmp_path / "pard"))
    edit(path, pard_token=5)
    assert draft_model_kind.KIND.load(path, target, False).drafter.traits.shape == "block"
    checked = check_folder(toy_folder)
    refused(
        path,
        PARD[fault],
        lambda: kind_of(path).check(checked, path, check_folder),
        lambda: draft_model_kind.KIND.load(path, target, False),
    )


@pytest.fixture(scope="module")
def target(toy_folder: Path) -> Loaded:
    return load(toy_folder)
