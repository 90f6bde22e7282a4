"""A new kind of drafter is two files: one that drafts, one that the registry lists. Nothing else knows its name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import models.drafters
from app.inference.conversation import open_conversation
from app.inference.options import Options
from engine.settings import SamplingSettings
from models.compatibility.pair_check import check_compatibility
from models.drafters import KINDS, kind_of
from models.drafters.pair_footprint import pair_footprint
from models.local.completeness import missing_part
from models.model_folder import check_folder

ENGINE_FILE = '''
import mlx.core as mx
from engine.drafters import Draft, DraftContext, Needs, Traits

class Constant:
    """Always drafts the same token."""
    name, needs, traits = "constant", Needs(), Traits("block")

    def __init__(self, token):
        self.token, self.drafts = token, 0

    def sync(self, tokens, cancelled=lambda: False):
        pass

    def propose(self, context, length):
        self.drafts += 1
        return Draft(mx.full(length, self.token, mx.int32))

    def hint(self, context):
        return None

    def rewind(self, length):
        pass

    def reusable_prefix(self):
        return 0
'''
MODELS_FILE = """
import json
from engine.errors import PairError
from models.drafters.drafter_kind import Compatibility, DrafterKind, LoadedDrafter
from models.memory.memory_verdict import Share
from toy_engine_file import Constant

loaded = []

def token(folder):
    return json.loads((folder / "config.json").read_text())["constant_token"]

def detect(config):
    return "constant_token" in config

def check(target, folder, read):
    if token(folder) not in target.vocabulary.values():
        raise PairError(f"{folder}: different tokenizer; choose another drafter")
    return Compatibility(True, "constant", "the target has its token")

def load(folder, target, trees):
    loaded.append(Constant(token(folder)))
    return LoadedDrafter(loaded[-1])

def footprint(folder, item_bytes):
    return lambda context: Share(weights=1000, cache=context)

KIND = DrafterKind("constant", "constant token", detect, check, load, footprint)
"""


@pytest.fixture
def toy_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Registers the kind; returns a drafter folder of it."""
    (tmp_path / "toy_engine_file.py").write_text(ENGINE_FILE)
    (tmp_path / "toy_models_file.py").write_text(MODELS_FILE)
    monkeypatch.syspath_prepend(tmp_path)
    import toy_models_file  # type: ignore[import-not-found]

    monkeypatch.setattr(models.drafters, "KINDS", (toy_models_file.KIND, *KINDS))
    folder = tmp_path / "drafter"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"constant_token": 5}))
    (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    return folder


def test_a_new_kind_is_detected_checked_measured_and_drafts_exactly(toy_kind: Path, toy_folder: Path) -> None:
    import toy_models_file

    target = check_folder(toy_folder)
    assert kind_of(toy_kind).name == "constant" and missing_part(toy_kind) == ""
    assert check_compatibility(target, toy_kind).reason == "the target has its token"
    alone, both = pair_footprint(target)(64), pair_footprint(target, [toy_kind])(64)
    assert (both.drafter.weights, both.drafter.cache, both.weights - alone.weights) == (1000, 64, 1000)
    replies = []
    for drafter in ("none", str(toy_kind)):
        sampling = SamplingSettings(max_tokens=24)
        options = Options(target=str(toy_folder), drafters=(drafter,), draft_lengths=(3,), sampling=sampling)
        conversation = open_conversation(options, "", lambda _: None)
        list(conversation.ask("why is the sky blue?", lambda: False))
        replies.append(conversation.messages[-1]["content"])
    assert replies[0] == replies[1] != ""
    assert toy_models_file.loaded[-1].drafts > 0


def test_a_misfit_of_a_new_kind_is_refused_with_its_reason(toy_kind: Path, toy_folder: Path) -> None:
    (toy_kind / "config.json").write_text(json.dumps({"constant_token": 10**6}))
    found = check_compatibility(check_folder(toy_folder), toy_kind)
    assert (found.fits, found.reason) == (False, "different tokenizer")
