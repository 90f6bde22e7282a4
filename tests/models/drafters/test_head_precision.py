"""A head that is large beside a quantized target gets its bits. As on Metal, but on this CPU."""

from pathlib import Path
from typing import Any

import mlx.nn as nn
import pytest

from app.inference.pair_loader import open_drafter
from engine import backend
from engine.policy.fixed import FixedLength
from engine.session import Session
from engine.settings import SamplingSettings
from models.drafters import head_weights
from models.drafters.eagle3 import FILES as EAGLE3_FILES
from models.drafters.eagle3 import save_eagle3
from models.drafters.head_weights import MIN_SHARE, Quantization, quantization_of, quantize, share_of
from models.loader import Loaded, load
from tests.engine.conversations import chat_reply, read
from tests.toys.folders import quantize_folder
from tests.toys.heads import random_eagle3, random_medusa

FOUR_BITS = Quantization(4, 32, "affine")
HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def quantized_folder(toy_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy, stored in 4 bits."""
    return quantize_folder(toy_folder, tmp_path_factory.mktemp("quantized") / "toy", 4)


@pytest.fixture
def target(quantized_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Loaded:
    """The quantized toy as Metal has it."""
    monkeypatch.setattr(backend, "describe", lambda: backend.Backend("gpu", "metal", dequantize=False, detail=""))
    monkeypatch.setattr("engine.backend.memory.describe", lambda: backend.Backend("cpu", "", True, ""))
    return load(quantized_folder)


@pytest.fixture
def head(target: Loaded, tmp_path: Path) -> Path:
    hidden, vocabulary = target.network.args.hidden_size, target.model.vocabulary
    sizes = {"feature_size": 3 * hidden, "hidden_size": hidden, "intermediate_size": 64}
    made = random_eagle3(vocab_size=vocabulary, draft_vocab_size=32, taps=(0, 1, 2), **sizes)
    save_eagle3(tmp_path / "head", made, {})
    return tmp_path / "head"


def network_of(drafter: Any) -> Any:
    return drafter.head


def test_a_head_gets_the_bits_of_its_target_and_says_so(target: Loaded, head: Path, tmp_path: Path) -> None:
    """Of several ways to read a head all are of the same weights; nothing is tried for the bits."""
    assert quantization_of(target.network) == FOUR_BITS
    found = open_drafter(str(head), target, cache_root=tmp_path / "cache")
    network = network_of(found.drafter)
    assert quantization_of(network) == FOUR_BITS
    assert isinstance(network.lm_head, nn.QuantizedLinear)
    assert found.note == "quantized to 4 bits like the target" and not (tmp_path / "cache").exists()


@pytest.mark.parametrize(("share", "bits"), [(0.99, 4), (1.01, None)])
def test_a_head_that_is_small_beside_its_target_keeps_its_precision(
    share: float, bits: int | None, target: Loaded, head: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = EAGLE3_FILES.load_head(head, target)
    monkeypatch.setattr(head_weights, "MIN_SHARE", share * share_of(stored, target.network))
    assert 0 < MIN_SHARE < 1
    quantized = quantization_of(network_of(open_drafter(str(head), target).drafter))
    assert (quantized and quantized.bits) == bits


def test_replies_with_a_quantized_head_are_the_targets_own(target: Loaded, head: Path) -> None:
    drafter, texts = open_drafter(str(head), target).drafter, []
    session = Session(target.model, target.tokenizer, 400)
    settings = SamplingSettings(temperature=0.8, seed=2, acceptance="coupled", max_tokens=24)
    for one, length in ((None, 0), (drafter, 1), (drafter, 4)):
        session.forget()
        texts.append(read(list(chat_reply(session, HELLO, settings, one, FixedLength(length)))).ids)
    assert texts[0] == texts[1] == texts[2] != []


def test_on_a_cpu_heads_stay_as_they_are(toy_folder: Path, head: Path) -> None:
    """Where targets are turned into float32, no head is quantized."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "describe", lambda: backend.Backend("cpu", "openblas", dequantize=True, detail=""))
        found = open_drafter(str(head), load(toy_folder))
    assert quantization_of(network_of(found.drafter)) is None and found.note == ""


def test_all_that_fits_is_quantized_and_embeddings_are_not() -> None:
    for network in (random_medusa(), random_eagle3(head_dim=8)):
        quantize(network, FOUR_BITS)
        left = [m for m in network.modules() if isinstance(m, nn.Linear) and m.weight.shape[-1] % 32 == 0]
        assert not left and quantization_of(network) == FOUR_BITS
        assert not any(isinstance(module, nn.QuantizedEmbedding) for module in network.modules())
