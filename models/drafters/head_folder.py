"""The folder of a head: its config.json, read with suspicion, its tensors, how both are written and what they take.

Invariants:
1. A file is mapped only once its header was found sound, and no head is evaluated before every tensor is known to be
   there, of the right shape and of a type that fits (`head_weights.fill`).
2. config.json is written last, and taken away first where a folder is written again: a folder that was cut off while
   being written has none, and says so when it is opened.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx

from engine import backend
from engine.errors import ModelError
from engine.target.cached_model import PREFILL_CHUNK
from engine.target.tree_trial import why_no_trees
from models.durable_files import read_json_object, replace_json
from models.loader import Loaded
from models.memory.memory_verdict import Share
from models.model_folder import check_links, folder_names, weights_of
from models.safetensors_file import Entry, read_entries, write_tensors

_INTEGERS = ("I64", "I32")
_LARGEST_NUMBER = 1e30  # of a config
_LEFT_ON_DISK = ("embed_tokens.weight", "verifier_lm_head.weight", "verifier_norm.weight", "d2t", "t2d")
_PACKED = ("U32", "U8")  # quantized weights, and scales of the micro-scaled types
_CACHED = (
    "k_proj.weight",
    "v_proj.weight",
    "kv_a_proj_with_mqa.weight",
    "indexer.wk.weight",
    "query_key_value.weight",  # the queries' rows, which do not, among them
)  # whose rows stand in the head's own cache, one a token
_FUSED = "fc.weight"  # whose columns are the tapped states of a token
_CACHE_STEP = 256  # tokens by which the head's cache grows
_COPIES = 3  # of a chunk's tapped states at the same time: as they came, side by side, and fused
_APART = "config.json and weights do not belong together, download the drafter again"


@dataclass(frozen=True)
class Fields:
    """The fields of a config.json, or of an object within it: each is of the right type, or a ModelError.

    path: of the folder, for messages. A field that is null counts as missing: NVIDIA's ModelOpt writes null for what
    neither of its configs has (`modelopt/torch/export/plugins/hf_spec_export.py`).
    """

    path: Path
    values: Mapping[str, Any]

    def get(self, key: str, otherwise: Any = None) -> Any:
        """Returns the value, of any type, or `otherwise` if there is none."""
        value = self.values.get(key)
        return otherwise if value is None else value

    def count(self, key: str, otherwise: int | None = None) -> int:
        """Returns a whole number above 0. Raises ModelError if it is missing and there is no `otherwise`."""
        value = self.get(key, otherwise)
        if type(value) is not int or value < 1:
            raise self.wrong(key, "a whole number above 0")
        return value

    def number(self, key: str, otherwise: float) -> float:
        """Returns a finite number above 0."""
        value = self.get(key, otherwise)
        if type(value) not in (int, float) or not 0 < value < _LARGEST_NUMBER:
            raise self.wrong(key, "a number above 0")
        return float(value)

    def flag(self, key: str) -> bool:
        """Returns true or false; false if it is missing."""
        value = self.get(key, False)
        if type(value) is not bool:
            raise self.wrong(key, "true or false")
        return value

    def places(self, key: str) -> tuple[int, ...]:
        """Returns whole numbers from 0; none if there is no such field."""
        value = self.get(key, [])
        if not isinstance(value, list) or not all(type(item) is int and item >= 0 for item in value):
            raise self.wrong(key, "a list of whole numbers")
        return tuple(value)

    def token(self, key: str, vocabulary: int) -> int:
        """Returns a token below `vocabulary`."""
        value = self.get(key)
        if type(value) is not int or not 0 <= value < vocabulary:
            raise self.wrong(key, f"a token below {vocabulary:,}")
        return value

    def part(self, key: str) -> Fields:
        """Returns the object under `key`, empty if there is none."""
        value = self.values.get(key) or {}
        if not isinstance(value, dict):
            raise self.wrong(key, "an object")
        return Fields(self.path, value)

    def wrong(self, key: str, wanted: str) -> ModelError:
        """Returns the error for a field that is missing or not what is `wanted`."""
        if self.get(key) is None:
            return ModelError(f"{self.path}: config.json lacks {key}, {wanted}; download the drafter again")
        value = str(self.values[key])[:60]
        return ModelError(f"{self.path}: config.json has {key} {value!r}, not {wanted}; download the drafter again")


@dataclass(frozen=True)
class HeadFolder:
    """A head's config.json and the headers of its weights. tensors: by name. files: those that hold them."""

    path: Path
    config: Fields
    tensors: Mapping[str, Entry]
    files: tuple[Path, ...]

    def load(self) -> dict[str, mx.array]:
        """Returns all tensors, by the folder's names, lazily: nothing but their headers is read yet."""
        return load_tensors(self.files)


def load_tensors(files: Iterable[Path]) -> dict[str, mx.array]:
    """Returns all tensors of `files` by name, lazily."""
    loaded: dict[str, mx.array] = {}
    for file in files:
        part = mx.load(str(file))
        assert isinstance(part, dict)
        loaded |= part
    return loaded


def open_head(path: Path, begins: tuple[str, ...]) -> HeadFolder:
    """Reads the headers of a head's folder, whose files of weights begin with one of `begins`.

    Raises ModelError: missing; no or bad config.json or safetensors; weights that are pickles; a link that leaves
    the folder.
    """
    try:
        names = folder_names(path)
        check_links(path, names)
        config = Fields(path, read_json_object(path / "config.json"))
        files = weights_of(path, names, begins)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    tensors = {name: entry for entries in files.values() for name, entry in entries.items()}
    return HeadFolder(path, config, tensors, tuple(files))


def read_ids(folder: HeadFolder, loaded: Mapping[str, mx.array], columns: int, vocabulary: int) -> mx.array:
    """Returns the target's id of each of the `columns` of a head's logits, (columns,) int32, increasing.

    `d2t` holds offsets: column i stands for the token i + d2t[i] (SafeAILab/EAGLE, `eagle/traineagle3/cnets.py`).
    Without it the columns are the target's `vocabulary`. `t2d`, where there is one, must agree: true at those ids.
    Raises ModelError: missing, of another size, out of range or not increasing.
    """
    entry = folder.tensors.get("d2t")
    if entry is None:
        if columns != vocabulary:
            raise ModelError(f"{folder.path}: lacks the tensor 'd2t' for {columns} of {vocabulary} tokens; {_APART}")
        return mx.arange(vocabulary, dtype=mx.int32)
    if entry.shape != (columns,) or entry.dtype not in _INTEGERS:
        raise ModelError(f"{folder.path}: 'd2t' is {entry.dtype} {entry.shape}, not integers ({columns},); {_APART}")
    ids = mx.arange(columns) + loaded["d2t"].astype(mx.int64)
    rising = mx.concatenate([mx.array([-1]), ids, mx.array([vocabulary])])
    if not mx.all(rising[1:] > rising[:-1]).item():
        raise ModelError(f"{folder.path}: 'd2t' does not name {columns} of {vocabulary} tokens in order; {_APART}")
    if "t2d" in loaded:
        known = mx.zeros(vocabulary, mx.bool_)
        known[ids] = True
        if loaded["t2d"].shape != known.shape or not mx.array_equal(loaded["t2d"].astype(mx.bool_), known).item():
            raise ModelError(f"{folder.path}: 'd2t' and 't2d' contradict each other; {_APART}")
    return ids.astype(mx.int32)


def id_tensors(ids: mx.array, vocabulary: int) -> dict[str, mx.array]:
    """Returns `d2t` and `t2d` of the increasing `ids`; nothing if they are the whole vocabulary."""
    if ids.size == vocabulary:
        return {}
    known = mx.zeros(vocabulary, mx.bool_)
    known[ids] = True
    return {"d2t": ids.astype(mx.int64) - mx.arange(ids.size), "t2d": known}


def write_head(path: Path, config: Mapping[str, object], weights: str, tensors: Mapping[str, mx.array]) -> None:
    """Writes `tensors` as the file `weights`, then config.json, into the folder `path`, which is made if need be.

    Durable when it returns. Raises ModelError when the disk refuses.
    """
    draft = path / f".{weights}.partial"
    try:
        path.mkdir(parents=True, exist_ok=True)
        (path / "config.json").unlink(missing_ok=True)
        try:
            write_tensors(draft, tensors, "pt")  # what transformers asks for
            draft.replace(path / weights)
        finally:
            with suppress(FileNotFoundError):
                draft.unlink()
        replace_json(path / "config.json", config)
    except OSError as error:
        reason = error.strerror or str(error)
        to_do = "free some disk space, or choose a folder that can be written"
        raise ModelError(f"{path}: the drafter could not be written ({reason}); {to_do}") from error


def speculators_fields(algorithm: str, architecture: str, about: Mapping[str, object]) -> dict[str, object]:
    """Returns what config.json of any head in the Speculators layout begins with. about: what it says under "redline";
    its target is named as the verifier."""
    of_target = about.get("target")
    name = of_target.get("name") if isinstance(of_target, Mapping) else None
    proposal = {"proposal_type": "greedy", "speculative_tokens": 5, "verifier_accept_k": 1, "accept_tolerance": 0.0}
    return {
        "architectures": [architecture],
        "speculators_model_type": algorithm,
        "speculators_config": {
            "algorithm": algorithm,
            "default_proposal_method": "greedy",
            "proposal_methods": [proposal],
            "verifier": {"name_or_path": name, "architectures": []},
        },
        "redline": dict(about),
    }


def usual_acceptance(path: Path) -> tuple[float, ...]:
    """Returns the probability that each drafted token is accepted after those before it, as measured when the drafter
    at `path` was made; empty if config.json does not say. Raises ModelError for nonsense."""
    measured = _measured(path)
    probs = measured.values.get("acceptance_by_position", [])
    if not isinstance(probs, list) or not all(type(prob) in (int, float) and 0 <= prob <= 1 for prob in probs):
        raise measured.wrong("acceptance_by_position", "a list of numbers from 0 to 1")
    return tuple(map(float, probs))


def tree_tau(path: Path) -> dict[int, float]:
    """Returns the mean acceptance length by the nodes of a tree, from 1, as measured when the head at `path` was made;
    empty if config.json does not say. Raises ModelError for nonsense."""
    measured = _measured(path)
    lengths = measured.values.get("tree_tau", [])
    if not isinstance(lengths, list) or not all(type(tau) in (int, float) and tau >= 1 for tau in lengths):
        raise measured.wrong("tree_tau", "a list of numbers from 1")
    return {nodes: float(tau) for nodes, tau in enumerate(lengths) if nodes}


def _measured(path: Path) -> Fields:
    """What config.json has under "redline"."""
    return Fields(path, read_json_object(path / "config.json")).part("redline")


def tree_drafting(target: Loaded, trees: bool) -> tuple[bool, str]:
    """Returns whether a head for `target` should branch, and why it should not although `trees` were requested. To
    find out empties the target's cache."""
    trouble = why_no_trees(target.model) if trees else None
    return trees and trouble is None, f"drafts chains, not trees: {trouble}" if trouble else ""


def head_footprint(path: Path, item_bytes: int, own_embedding: bool = False) -> Callable[[int], Share]:
    """Returns the memory that a head takes, by the length of the context, from the shapes in its files.

    item_bytes: of a number of the target, which a head computes in. own_embedding: an embedding in the files may be the
    head's own, so it counts. Raises ModelError for damaged files.
    """
    files = [path / name for name in folder_names(path) if name.endswith(".safetensors")]
    left = _LEFT_ON_DISK[1:] if own_embedding else _LEFT_ON_DISK
    entries = [entry for file in files for entry in read_entries(file).values() if entry.name not in left]
    return entries_footprint(entries, item_bytes)


def entries_footprint(entries: Iterable[Entry], item_bytes: int) -> Callable[[int], Share]:
    """Returns the same from the headers of a head's tensors. Quantized ones stay as they are where the backend keeps
    quantized weights."""
    entries = list(entries)
    dequantize = backend.describe().dequantize
    weights = sum(_weight_bytes(entry, item_bytes, dequantize) for entry in entries)
    rows = sum(entry.shape[0] for entry in entries if entry.name.endswith(_CACHED) and entry.shape)
    tapped = sum(entry.shape[1] for entry in entries if entry.name.endswith(_FUSED) and len(entry.shape) == 2)
    stored = sum(entry.size_bytes for entry in entries)

    def at(context: int) -> Share:
        return Share(
            weights=weights,
            loading=stored if stored != weights else 0,
            cache=-(-context // _CACHE_STEP) * _CACHE_STEP * rows * item_bytes,
            working=_COPIES * min(PREFILL_CHUNK, context) * tapped * item_bytes,
        )

    return at


def _weight_bytes(entry: Entry, item_bytes: int, dequantize: bool) -> int:
    """Returns the bytes of a tensor in memory. A packed one is taken to have 4 bits a number, the least that is
    usual."""
    if entry.dtype in _PACKED:
        return entry.size_bytes * 2 * item_bytes if dequantize else entry.size_bytes
    return math.prod(entry.shape) * item_bytes
