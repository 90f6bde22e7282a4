"""Every architecture that transformers has too computes what transformers computed: `python -m tests.models.references`
prints the table."""

import json
import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mlx_lm.utils import MODEL_REMAPPING

from engine.backend.mlx_lm_imports import model_classes
from engine.drafters import Drafter
from engine.drafters.draft_model import DraftModel
from engine.drafters.prompt_lookup import PromptLookup
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from models import loader
from models.architecture_references import FILE, reference_line, references
from models.convert.folder_conversion import convert_folder
from models.convert.model_import import import_model, inspect
from models.corrections import corrected_classes
from models.model_folder import check_folder
from models.storage_options import StorageOptions
from tests.engine.fewer import fewer
from tests.engine.replies import PROMPT, Scripted, reply
from tests.models.references.__main__ import PART, table, verdict_of
from tests.models.references.comparison import compare, folder_of, in_one_pass, names
from tests.models.references.verdicts import CORRECTED, REFUSED, RENAMED, TOLERANCE
from tests.programs.architecture_page import part
from tests.programs.sweep import EveryLength, by_mlx_lm, mistakes

# Factors that mlx-lm multiplies into weights are rounded with them to the 16 bits of the new folder.
_CONVERTED = {"falcon_h1": 3e-3}
# One of each kind of cache and of correction.
_EVERY_TIME = {"gemma3_text", "jamba", "longcat_flash", "mamba2", "phi3_longrope", "phimoe"}
_TOKENS = 36  # past every window and original context, and every draft length once
# The same rotation as files from before transformers 5 have it.
_OLDER: dict[str, dict[str, Any]] = {
    "llama": {"rope_theta": 500_000.0},
    "llama_llama3": {
        "rope_theta": 500_000.0,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 24,
        },
    },
    "qwen2_yarn": {
        "rope_theta": 1_000_000.0,
        "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 24},
    },
    "phi3_longrope": {
        "rope_theta": 10_000.0,
        "rope_scaling": {
            "type": "su",
            "short_factor": [1.0, 1.1, 1.2, 1.3],
            "long_factor": [1.0, 2.0, 3.0, 4.0],
        },
    },
    "phi3_partial": {
        "rope_theta": 10_000.0,
        "partial_rotary_factor": 0.75,
        "rope_scaling": {"type": "yarn", "short_factor": [1.0, 1.1, 1.2], "long_factor": [1.0, 2.0, 3.0]},
    },
    "glm4": {"rope_theta": 10_000.0, "partial_rotary_factor": 0.5},
    "gemma3_text": {
        "rope_theta": 1_000_000.0,
        "rope_local_base_freq": 10_000.0,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        "sliding_window_pattern": 4,
    },
}


def some_every_time(cases: Iterable[str]) -> list[Any]:
    """All cases, of which only those in `_EVERY_TIME` are not marked as slow."""
    return [pytest.param(name, marks=[] if name in _EVERY_TIME else pytest.mark.slow) for name in sorted(cases)]


def older_form(name: str, path: Path) -> Path:
    """Copies a reference to `path`, with the config.json that transformers 4 would have written."""
    folder_of(name, path)
    config = json.loads((path / "config.json").read_text())
    config = {key: value for key, value in config.items() if key != "rope_parameters"} | _OLDER[name]
    (path / "config.json").write_text(json.dumps(config))
    return path


@pytest.mark.parametrize("name", names())
def test_logits_are_those_of_transformers_or_the_folder_is_refused(name: str, tmp_path: Path) -> None:
    found = compare(name, folder_of(name, tmp_path / name))
    if name in REFUSED:
        assert found.reason is not None and REFUSED[name] in found.reason
        return
    assert found.reason is None
    assert found.largest < TOLERANCE, found


@pytest.mark.parametrize("name", some_every_time(CORRECTED | RENAMED))
def test_mlx_lm_alone_is_not_right_or_its_correction_goes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "corrected_classes", lambda config, in_float32, without: model_classes(dict(config)))
    found = compare(name, folder_of(name, tmp_path / name))
    right = found.reason is None and found.largest < TOLERANCE
    assert not right, f"mlx-lm computes {name} as transformers now: remove what models/ does for it"


@pytest.mark.parametrize("temperature", fewer([0.0, 0.8], [0.8]))
@pytest.mark.parametrize("name", some_every_time(CORRECTED))
def test_speculation_leaves_the_text_of_a_corrected_network_as_it_is(
    name: str, temperature: float, tmp_path: Path
) -> None:
    """Greedy and coupled text, over windows and original contexts, with drafts of every length and every mistake."""
    loaded = loader.load(folder_of(name, tmp_path / name))
    target, twin = loaded.model, CachedModel(loaded.network)
    sampling = SamplingSettings(temperature=temperature, seed=3)
    expected = reply(target, tokens=_TOKENS, sampling=sampling)[0]
    if sampling.temperature == 0 and target.rotation.threshold is None:  # else mlx-lm's caches mix both rotations
        assert expected == by_mlx_lm(loaded.network, _TOKENS)
    scripted = Scripted(len(PROMPT), expected, mistakes(_TOKENS), target.vocabulary)
    drafters: list[Drafter] = [scripted, PromptLookup(1)]
    if target.rotation.threshold is None:  # where it changes, a twin of the same modules would change them as well
        drafters.append(DraftModel(twin, target.vocabulary))
    for drafter in drafters:
        found, rounds, _ = reply(target, drafter, EveryLength(), sampling, tokens=_TOKENS)
        assert found == expected, drafter.name
        assert any(round_.drafted for round_ in rounds)


@pytest.mark.parametrize("name", sorted(_OLDER))
def test_older_and_newer_forms_of_a_configuration_give_one_network(name: str, tmp_path: Path) -> None:
    newer = folder_of(name, tmp_path / "newer")
    older = older_form(name, tmp_path / "older")
    tokens = np.arange(4, 52) % 64
    a, b = (in_one_pass(loader.load(path).model, tokens) for path in (newer, older))
    assert np.array_equal(a, b)
    assert check_folder(newer).context_length == check_folder(older).context_length


@pytest.mark.slow_for("glm4", "llama", "phi3_longrope", "llama_llama3", "phi3_partial", "qwen2_yarn")
@pytest.mark.parametrize("name", sorted(_OLDER))
def test_imported_and_converted_folders_write_one_text_whichever_transformers_saved_them(
    name: str, tmp_path: Path
) -> None:
    newer = folder_of(name, tmp_path / "newer")
    expected = reply(loader.load(newer).model, tokens=_TOKENS)[0]
    older = older_form(name, tmp_path / "older")
    for place, source in enumerate((newer, older)):
        made = import_model(inspect(source), tmp_path / f"import-{place}", StorageOptions())
        again = import_model(inspect(source), tmp_path / f"convert-{place}", StorageOptions(), convert=True)
        for folder in (made, again):
            assert reply(loader.load(folder).model, tokens=_TOKENS)[0] == expected


@pytest.mark.parametrize("name", some_every_time(CORRECTED | RENAMED | _OLDER.keys()))
def test_a_converted_folder_computes_the_same(name: str, tmp_path: Path) -> None:
    convert_folder(folder_of(name, tmp_path / "source"), tmp_path / name)
    found = compare(name, tmp_path / name)
    assert found.reason is None
    assert found.largest < _CONVERTED.get(name, TOLERANCE), found


def test_a_network_keeps_the_name_of_its_class_and_file(tmp_path: Path) -> None:
    folder = check_folder(folder_of("llama_mistral", tmp_path / "mistral"))
    network, _ = loader.load_network(folder)
    assert type(network).__module__ == "mlx_lm.models.llama"
    kind, _ = partial(corrected_classes, in_float32=True)(folder.config)
    assert kind.__name__ == "Model"


def test_the_page_and_the_table_of_the_product_are_those_of_the_references() -> None:
    known = references()
    assert [one.name for one in known] == names()
    assert [one.verdict for one in known] == [verdict_of(name) for name in names()]
    assert all(one.largest < TOLERANCE for one in known)
    assert json.loads(FILE.read_text())["networks"] == MODEL_REMAPPING
    assert part(PART) == table(list(known))


@pytest.mark.parametrize(
    ("model_type", "said"),
    [
        ("smollm3", r"smollm3: logits within \de-06 of transformers 5\.24\.0"),
        ("starcoder2", r"starcoder2: logits within \de-\d+ of transformers 5\.24\.0, with Redline's corrections"),
        ("mixtral", r"mixtral: logits within .*, in some variants with Redline's corrections"),
        ("kimi_k2", r"kimi_k2, as deepseek_v3: logits within \de-\d+ of transformers 5\.24\.0"),
        ("bailing_moe", "bailing_moe: no independent reference; it computes what mlx-lm computes"),
        ("bitnet", "bitnet: no independent reference; it computes what mlx-lm computes"),
        ("lfm2-vl", r"lfm2-vl, as lfm2_vl: logits within .*"),
    ],
)
def test_what_an_architecture_was_compared_with_is_one_line(model_type: str, said: str) -> None:
    assert re.fullmatch(said, reference_line({"model_type": model_type}))
