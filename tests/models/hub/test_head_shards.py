"""The head that a quantized model lacks comes from the repository that this was made from: its shards and no others."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from engine.errors import HubError
from models.convert.stored_head import discard_head, fetch_head
from models.drafters import own_head
from models.drafters.mtp import FILES as MTP_FILES
from models.hub.client import Hub
from models.hub.download_events import DownloadEvent, Fetched
from models.loader import load
from models.parameters import flat_parameters
from tests.models.hub.hub_contents import Repo
from tests.models.hub.loopback import Loopback
from tests.toys.head_targets import qwen_with_head

ORIGINAL = "tiny-org/Tiny"
SHARDS = [f"model-{number:05}-of-00003.safetensors" for number in (1, 2, 3)]
INDEX = "model.safetensors.index.json"


@pytest.fixture(scope="module")
def whole(toy_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return qwen_with_head(toy_folder, tmp_path_factory.mktemp("original") / "qwen")


@pytest.fixture
def original(whole: Path, tmp_path: Path, server: Loopback) -> Repo:
    """The model in three shards, of which two hold its head."""
    weights: Any = mx.load(str(whole / "model.safetensors"))
    heads = sorted(name for name in weights if "mtp." in name)
    others = [name for name in weights if name not in heads]
    parts = [others[:20], [*others[20:], *heads[:4]], heads[4:]]
    files = {"config.json": (whole / "config.json").read_bytes(), "README.md": b"no"}
    for file, names in zip(SHARDS, parts, strict=True):
        mx.save_safetensors(str(tmp_path / file), {name: weights[name] for name in names})
        files[file] = (tmp_path / file).read_bytes()
    index = {name: file for file, names in zip(SHARDS, parts, strict=True) for name in names}
    files[INDEX] = json.dumps({"weight_map": index}).encode()
    return server.add(Repo(ORIGINAL, files))


@pytest.fixture
def quantized(whole: Path, toy_folder: Path, tmp_path: Path) -> Path:
    """What the hub has of it for MLX: in 8 bits, without the head."""
    folder = qwen_with_head(toy_folder, tmp_path / "quantized")
    weights: Any = mx.load(str(folder / "model.safetensors"))
    kept = {name: value + 0 for name, value in weights.items() if "mtp." not in name}
    mx.eval(kept)
    mx.save_safetensors(str(folder / "model.safetensors"), kept)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "quantization": {"bits": 8, "group_size": 32}}))
    return folder


def files_fetched(events: Iterable[DownloadEvent]) -> set[str]:
    return {event.file for event in events if isinstance(event, Fetched)}


def test_only_the_shards_of_the_head_are_fetched(original: Repo, quantized: Path, hub: Hub, tmp_path: Path) -> None:
    """It lies beside the target then, in its bits, and nothing else is left of it."""
    assert own_head(quantized) is None
    events = fetch_head(hub, ORIGINAL, quantized, tmp_path / "work")
    assert files_fetched(events) == {"config.json", INDEX, *SHARDS[1:]}
    head = own_head(quantized)
    assert head is not None and head.name == "mtp"
    stored: Any = mx.load(str(quantized / "mtp.safetensors"))
    assert "mtp.layers.0.self_attn.q_proj.scales" in stored
    assert not list((tmp_path / "work").glob("models--*"))
    assert not (hub.cache / "models--tiny-org--Tiny").exists()


def test_a_fetched_head_is_the_originals(
    original: Repo, quantized: Path, whole: Path, hub: Hub, tmp_path: Path
) -> None:
    config = json.loads((quantized / "config.json").read_text())
    del config["quantization"]
    (quantized / "config.json").write_text(json.dumps(config))
    list(fetch_head(hub, ORIGINAL, quantized, tmp_path / "work"))
    target = load(quantized)
    mine, theirs = (flat_parameters(MTP_FILES.load_head(folder, target)) for folder in (quantized, whole))
    assert mine.keys() == theirs.keys()
    assert all(mx.array_equal(mine[name], theirs[name]).item() for name in mine)


def test_a_stopped_fetch_goes_on(original: Repo, quantized: Path, hub: Hub, server: Loopback, tmp_path: Path) -> None:
    """What was complete is not fetched again."""
    first = fetch_one_shard(hub, quantized, tmp_path)
    before = len(server.seen)
    list(fetch_head(hub, ORIGINAL, quantized, tmp_path / "work"))
    assert own_head(quantized) is not None
    assert not [seen for seen in server.seen[before:] if f"/{first.file}" in seen.path]


def test_a_stopped_fetch_can_be_discarded(original: Repo, quantized: Path, hub: Hub, tmp_path: Path) -> None:
    first = fetch_one_shard(hub, quantized, tmp_path)
    assert discard_head(ORIGINAL, tmp_path / "work") >= first.size_bytes
    assert not list((tmp_path / "work").glob("models--*"))
    assert discard_head(ORIGINAL, tmp_path / "work") == 0


def fetch_one_shard(hub: Hub, quantized: Path, tmp_path: Path) -> Fetched:
    """Stops a fetch after the first shard that it has completed, which is returned."""
    events = fetch_head(hub, ORIGINAL, quantized, tmp_path / "work")
    first = next(event for event in events if isinstance(event, Fetched) and event.file in SHARDS)
    events.close()
    assert own_head(quantized) is None
    return first


def test_an_original_without_a_head_leaves_nothing(original: Repo, quantized: Path, hub: Hub, tmp_path: Path) -> None:
    index = json.loads(original.files[INDEX])["weight_map"]
    kept = {name: file for name, file in index.items() if "mtp." not in name}
    original.files[INDEX] = json.dumps({"weight_map": kept}).encode()
    events = fetch_head(hub, ORIGINAL, quantized, tmp_path / "work")
    assert files_fetched(events) == {"config.json", INDEX}
    assert own_head(quantized) is None and not list((tmp_path / "work").glob("models--*"))


def test_an_index_that_names_other_files_is_refused(original: Repo, quantized: Path, hub: Hub, tmp_path: Path) -> None:
    original.files[INDEX] = json.dumps({"weight_map": {"mtp.fc.weight": "../../model.safetensors"}}).encode()
    with pytest.raises(HubError, match="names files that are not there"):
        list(fetch_head(hub, ORIGINAL, quantized, tmp_path / "work"))
