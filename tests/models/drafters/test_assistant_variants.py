"""At which position a Gemma 4 assistant stands is disputed, so both are tried when it is first used."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

from engine.drafters import DraftContext
from engine.sampling import Sampler, TokenCounts
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from models.drafters import variant_trial
from models.drafters.gemma4_assistant import FILES
from models.drafters.variant_trial import choose_variant
from models.loader import Loaded, load
from tests.engine.replies import PROMPT, attach
from tests.toys.architectures import _config, build


@pytest.fixture
def target(toy_folder: Path) -> Loaded:
    """A toy Gemma 4 under another toy's tokenizer."""
    found, network = load(toy_folder), build("gemma4_text")
    folder = dataclasses.replace(found.folder, config={**_config("gemma4_text"), "model_type": "gemma4_text"})
    return dataclasses.replace(found, folder=folder, network=network, model=CachedModel(network))


@pytest.mark.parametrize(("rates", "ahead"), [([0.6, 0.3], 0), ([0.3, 0.6], 1)])
def test_an_assistant_stands_where_more_of_its_drafts_are_accepted(
    rates: list[float], ahead: int, target: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(shutil.copytree(Path(__file__).parent / "oracles" / "gemma4_plain", tmp_path / "assistant"))
    found = FILES.load(path, target, False)
    monkeypatch.setattr(variant_trial, "try_variants", lambda *_: rates)
    kept = choose_variant(found, path, target, tmp_path)
    assert ("uses the position after the last token seen: 60% of its drafts" in kept.note) == bool(ahead)
    drafter, places = kept.drafter, []
    head = drafter.head  # type: ignore[attr-defined]

    def noted(embedded: object, state: object, kv: object, position: int) -> object:
        places.append(position)
        return head(embedded, state, kv, position)

    noted.dtype, noted.config, noted.logits = head.dtype, head.config, head.logits  # type: ignore[attr-defined]
    monkeypatch.setattr(drafter, "head", noted)
    attach(drafter, target.model)
    target.model.feed(PROMPT[:-1])
    sampler = Sampler(SamplingSettings(), target.model.vocabulary)
    drafter.propose(DraftContext(PROMPT, TokenCounts(sampler.distribution, PROMPT), sampler), 3)
    assert places == [len(PROMPT) - 2 + ahead] * 3
