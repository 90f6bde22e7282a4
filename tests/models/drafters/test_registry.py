"""A new kind of drafter is two files: one that drafts, one that the registry lists. Nothing else knows its name."""

import json
from pathlib import Path
from typing import Any

import pytest

import models.drafters
from app.inference.conversation import open_conversation
from app.inference.options import Options
from engine.errors import ModelError
from engine.policy.fixed import FixedLength
from engine.session import Prompt, Session
from engine.settings import SamplingSettings
from models.compatibility.pair_check import check_compatibility
from models.drafters import KINDS, kind_of
from models.drafters.drafter_kind import DrafterKind
from models.drafters.pair_footprint import pair_footprint
from models.loader import load
from models.local.completeness import missing_part
from models.model_folder import check_folder
from tests.engine.conversations import read
from tests.models.drafters.head_folders import config_of
from tests.models.drafters.oracle_heads import ORACLES

ENGINE_FILE = '''
import mlx.core as mx
from engine.drafters import Draft, Drafter

class Constant(Drafter):
    """Always drafts the same token."""
    name = "constant"

    def __init__(self, token):
        self.token, self.drafts = token, 0

    def propose(self, context, length):
        self.drafts += 1
        return Draft(mx.full(length, self.token, mx.int32))
'''
MODELS_FILE = """
import json
from engine.errors import PairError
from models.drafters.drafter_kind import Compatibility, DrafterFiles, LoadedDrafter
from models.memory.memory_verdict import Share
from toy_engine_file import Constant

loaded = []

def token(folder):
    return json.loads((folder / "config.json").read_text())["constant_token"]

class ConstantFiles(DrafterFiles):
    def check(self, target, folder, read):
        if token(folder) not in target.vocabulary.values():
            raise PairError(f"{folder}: different tokenizer; choose another drafter")
        return Compatibility(True, "the target has its token")

    def load(self, folder, target, trees):
        loaded.append(Constant(token(folder)))
        return LoadedDrafter(loaded[-1])

    def footprint(self, folder, item_bytes):
        return lambda context: Share(weights=1000, cache=context)

FILES = ConstantFiles()
"""
CONSTANT = DrafterKind("constant", "constant token", "toy_models_file", ("constant_token",))


@pytest.fixture
def toy_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Registers the kind; returns a drafter folder of it."""
    (tmp_path / "toy_engine_file.py").write_text(ENGINE_FILE)
    (tmp_path / "toy_models_file.py").write_text(MODELS_FILE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(models.drafters, "KINDS", (*KINDS, CONSTANT))
    folder = tmp_path / "drafter"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"constant_token": 5}))
    (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    return folder


def test_a_new_kind_is_detected_checked_measured_and_drafts_exactly(toy_kind: Path, toy_folder: Path) -> None:
    target = check_folder(toy_folder)
    assert kind_of(toy_kind).name == "constant" and missing_part(toy_kind) == ""
    assert check_compatibility(target, toy_kind).reason == "the target has its token"
    alone, both = pair_footprint(target)(64), pair_footprint(target, [toy_kind])(64)
    assert (both.drafter.weights, both.drafter.cache, both.weights - alone.weights) == (1000, 64, 1000)
    replies = []
    for drafter in ("none", str(toy_kind)):
        sampling = SamplingSettings(max_tokens=24, draft_length=3)
        options = Options(target=str(toy_folder), drafters=(drafter,), sampling=sampling)
        conversation = open_conversation(options, "", lambda _: None)
        list(conversation.ask("why is the sky blue?", lambda: False))
        replies.append(conversation.messages[-1]["content"])
    assert replies[0] == replies[1] != ""


def test_a_new_kind_goes_on_with_a_conversation_that_was_kept(toy_kind: Path, toy_folder: Path) -> None:
    """All that the session asks of a drafter, `snapshot` and `restore` included: one conversation, another, the first
    one again."""
    target, settings = load(toy_folder), SamplingSettings(max_tokens=12)
    drafter = kind_of(toy_kind).files.load(toy_kind, target, False).drafter
    texts: list[list[list[int]]] = []
    for one in (None, drafter):
        session = Session(target.model, target.tokenizer, 1000)
        session.kept.limit_bytes, prompts, found = 1 << 30, [[n + i % 40 for i in range(150)] for n in (3, 50)], []
        for turn in (0, 1, 0):
            told = read(list(session.continue_tokens(Prompt(prompts[turn]), settings, one, FixedLength(3))))
            prompts[turn] += [*told.ids, 7, 8]
            found.append([told.reused, *told.ids])
        texts.append(found)
    assert [one[1:] for one in texts[0]] == [one[1:] for one in texts[1]]
    assert texts[1][2][0] >= 150 and drafter.drafts > 0  # type: ignore[attr-defined]


def test_a_misfit_of_a_new_kind_is_refused_with_its_reason(toy_kind: Path, toy_folder: Path) -> None:
    (toy_kind / "config.json").write_text(json.dumps({"constant_token": 10**6}))
    found = check_compatibility(check_folder(toy_folder), toy_kind)
    assert (found.fits, found.reason) == (False, "different tokenizer")


CONFIGS: list[tuple[dict[str, Any], str]] = [
    ({"model_type": "llama"}, "model"),
    ({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "pard_token": 5}, "model"),
    ({"model_type": "eagle_2_5_vl", "architectures": ["Eagle2_5_VLForConditionalGeneration"]}, "model"),
    ({"speculators_model_type": "eagle3"}, "eagle3"),
    ({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "draft_vocab_size": 32000}, "eagle3"),
    ({"model_type": "llama", "architectures": ["LlamaForCausalLMEagle3"]}, "eagle3"),
    ({"model_type": "llama", "eagle_config": {}}, "eagle3"),
    ({"speculators_model_type": "peagle"}, "eagle3"),
    ({"speculators_model_type": "mtp"}, "mtp"),
    ({"model_type": "qwen3_5_mtp"}, "mtp"),
    ({"speculators_config": {"algorithm": "dspark"}}, "dflash"),
    ({"speculators_model_type": "dflash", "draft_vocab_size": 32000}, "dflash"),
    ({"model_type": "qwen3", "architectures": ["DFlashDraftModel"]}, "dflash"),
    ({"model_type": "qwen3", "architectures": ["DFlashDraftModel"], "draft_vocab_size": 32000}, "dflash"),
    (
        {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "dflash_config": {}, "draft_vocab_size": 9},
        "dflash",
    ),
    ({"model_type": "qwen3", "architectures": ["Qwen3DSparkModel"]}, "dflash"),
    ({"model_type": "gemma4_assistant"}, "gemma4-assistant"),
    ({"model_type": "gemma4_unified_assistant"}, "gemma4-assistant"),
    ({"medusa_num_heads": 4, "draft_vocab_size": 8192}, "medusa"),
    ({"model_type": "medusa", "architectures": ["MedusaModel"], "medusa_num_heads": 4}, "medusa"),
    ({"model_type": "mlp_speculator", "architectures": ["MLPSpeculatorPreTrainedModel"]}, "mlp-speculator"),
]
PUBLISHED = {
    "dflash": "dflash", "dspark": "dflash", "eagle3": "eagle3", "peagle": "eagle3", "gemma4": "gemma4-assistant",
    "qwen3_5": "mtp",
}  # fmt: skip


def samples() -> list[tuple[dict[str, Any], str]]:
    """The config.json of sample folders of every kind, and the kind's name; nextn heads lie within their targets."""
    folders = [folder for folder in ORACLES.iterdir() if folder.is_dir() and not folder.name.startswith("nextn")]
    kinds = [next(kind for start, kind in PUBLISHED.items() if one.name.startswith(start)) for one in folders]
    return [*CONFIGS, *((config_of(folder), kind) for folder, kind in zip(folders, kinds, strict=True))]


def test_one_kind_alone_detects_each_sample_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    for shift in range(len(KINDS)):
        for order in (KINDS[shift:] + KINDS[:shift], (KINDS[shift:] + KINDS[:shift])[::-1]):
            monkeypatch.setattr(models.drafters, "KINDS", order)
            for config, kind in samples():
                assert [found.name for found in models.drafters.kinds_in(config)] == [kind], config


def test_no_mark_stands_for_two_kinds() -> None:
    marks = [mark for kind in KINDS for mark in (*kind.marks, *kind.shared_marks)]
    assert len(marks) == len(set(marks))
    both = {"medusa_num_heads": 4, "dflash_config": {}}
    assert {kind.name for kind in models.drafters.kinds_in(both)} == {"medusa", "dflash"}


def test_a_folder_of_two_kinds_or_of_an_unknown_one_is_refused(tmp_path: Path) -> None:
    for config, reason in (
        ({"speculators_model_type": "hydra"}, "unknown kind of drafter 'hydra'; choose"),
        ({"speculators_config": {"algorithm": "mlp"}}, "unknown kind of drafter 'mlp'; choose"),
        ({"medusa_num_heads": 4, "dflash_config": {}}, "marks of two kinds, Medusa heads and DFlash; choose"),
    ):
        (tmp_path / "config.json").write_text(json.dumps(config))
        with pytest.raises(ModelError, match=reason):
            kind_of(tmp_path)
    with pytest.raises(ModelError, match="no such model folder"):
        kind_of(tmp_path / "nowhere")
