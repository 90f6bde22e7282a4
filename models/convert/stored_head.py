"""The multi-token prediction head of an upstream model, stored beside a converted one.

mlx-lm's conversions drop the head (`"mtp."` in the `sanitize` of `mlx_lm/models/qwen3_5.py`, layers after the last one
in DeepSeek's), so quantized models on the hub have none. Here it is made of upstream's tensors, in the bits of the
model that it stands beside, and for a downloaded model fetched from the repository that this was made from: only the
shards that hold it.
"""

import shutil
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.drafters.mtp import MtpHead
from models.drafters.mtp import belongs_to_head, upstream_mtp, write_mtp
from models.durable_files import read_json_object
from models.hub.client import Hub
from models.hub.download import pull_shards
from models.hub.download_events import DownloadEvent
from models.hub.repo_cache import RepoCache
from models.parameters import cast
from models.storage_options import BITS, GROUP_SIZES, StorageOptions

_PLAIN = ("fc", "gate", "shared_expert_gate")  # the last parts of the names of matrices that are never quantized


def stored_head(source: Path, options: StorageOptions) -> MtpHead | None:
    """Returns the head that the upstream folder `source` brings as it is to be stored, lazily; None without one.

    Raises ModelError for damaged files.
    """
    head = upstream_mtp(source)
    if head is None:
        return None
    if options.dtype is not None:
        cast(head, getattr(mx, options.dtype))
    if options.quantizes and options.bits is not None:
        nn.quantize(head, options.group, options.bits, class_predicate=_quantizable(options.group))
    return head


def _quantizable(group: int) -> Any:
    """Returns which modules are quantized: all that can be but the input, which reads two states of different sizes,
    and routers, as in mlx-lm."""

    def choose(name: str, module: Any) -> bool:
        last = name.rpartition(".")[2]
        return hasattr(module, "to_quantized") and last not in _PLAIN and module.weight.shape[-1] % group == 0

    return choose


def fetch_head(hub: Hub, original: str, target: Path, work: Path) -> Generator[DownloadEvent, None, bool]:
    """Fetches the head of the repository `original` and stores it beside the weights of the model folder `target`, in
    its bits; returns whether there is one. work: a folder for shards, which are deleted at the end; a fetch that was
    stopped continues from there.

    Raises HubError, ModelError, OSError.
    """
    apart = replace(hub, cache=work)
    snapshot = yield from pull_shards(apart, original, belongs_to_head)
    if snapshot is None:
        return False
    head = stored_head(snapshot, _options_of(target))
    if head is not None:
        write_mtp(head, target)
    shutil.rmtree(snapshot.parents[1], ignore_errors=True)
    return head is not None


def discard_head(original: str, work: Path) -> int:
    """Deletes what an unfinished fetch of a head has left in `work`; returns the number of bytes freed."""
    folder = RepoCache(work, original).folder
    freed_bytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    shutil.rmtree(folder, ignore_errors=True)
    return freed_bytes


def _options_of(target: Path) -> StorageOptions:
    """Returns how a model folder is quantized; no quantization where a head cannot be quantized the same way."""
    found = read_json_object(target / "config.json").get("quantization")
    bits, group = (found.get("bits"), found.get("group_size")) if isinstance(found, dict) else (None, None)
    return StorageOptions(bits, group) if bits in BITS and group in GROUP_SIZES else StorageOptions()
