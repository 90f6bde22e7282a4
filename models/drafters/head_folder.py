"""The folder of a head: its config.json, read with suspicion, its tensors, and how both are written.

Invariants:
1. A file is mapped only once its header was found sound, and no head is evaluated before every tensor is known to be
   there, of the right shape and of a type that fits (`head_weights.fill`).
2. config.json is written last, and taken away first where a folder is written again: a folder that was cut off while
   being written has none, and says so when it is opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx

from engine.errors import ModelError
from models.durable_files import disk_errors, read_json_object, replace_json, replace_with
from models.model_folder import check_links, folder_names, weights_of
from models.safetensors_file import write_tensors

ANOTHER_DRAFTER = "choose another drafter"
DOES_NOT_MATCH = "config.json and weights do not belong together, download the drafter again"
_BESIDE = ("d2t", "t2d", "verifier_")  # what begins the names of tensors that are no part of a head's network
_MAX_NUMBER = 1e30  # of a config


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
        if type(value) not in (int, float) or not 0 < value < _MAX_NUMBER:
            raise self.wrong(key, "a number above 0")
        return float(value)

    def numbers(self, key: str, least: float, most: float = _MAX_NUMBER) -> tuple[float, ...]:
        """Returns numbers from `least` to `most`; none if there is no such field."""
        value = self.get(key, [])
        if not isinstance(value, list) or not all(type(one) in (int, float) and least <= one <= most for one in value):
            raise self.wrong(key, f"a list of numbers from {least:g}" + (f" to {most:g}" if most < _MAX_NUMBER else ""))
        return tuple(map(float, value))

    def flag(self, key: str, otherwise: bool = False) -> bool:
        """Returns true or false."""
        value = self.get(key, otherwise)
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
    """A head's config.json and its tensors, by the names in its files: nothing but their headers is read yet."""

    path: Path
    config: Fields
    tensors: Mapping[str, mx.array]

    def weights(self) -> dict[str, mx.array]:
        """Returns the tensors without those that are beside the network in several kinds' files: the draft vocabulary,
        parts of the target that were needed in training, and rotary frequencies, which config.json says."""
        return {
            name: value
            for name, value in self.tensors.items()
            if not name.removeprefix("model.").startswith(_BESIDE) and "rotary_emb." not in name
        }


def load_tensors(files: Iterable[Path]) -> dict[str, mx.array]:
    """Returns all tensors of `files` by name, lazily."""
    loaded: dict[str, mx.array] = {}
    for file in files:
        part = mx.load(str(file))
        assert isinstance(part, dict)
        loaded |= part
    return loaded


def open_head(path: Path, begins: tuple[str, ...] = ("model",)) -> HeadFolder:
    """Opens a head's folder, whose files of weights begin with one of `begins`.

    Raises ModelError: missing; no or bad config.json or safetensors; weights that are pickles; a link that leaves
    the folder.
    """
    try:
        names = folder_names(path)
        check_links(path, names)
        return HeadFolder(path, read_config(path), load_tensors(weights_of(path, names, begins)))
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error


def read_config(path: Path) -> Fields:
    """Returns the config.json of the folder `path`. Raises ModelError for a missing or bad one."""
    return Fields(path, read_json_object(path / "config.json"))


@contextmanager
def building(path: Path) -> Iterator[None]:
    """Raises ModelError for what goes wrong inside, where a network is built from the fields of the config.json in
    `path`: an unknown or incomplete rope_scaling, sizes that make no network, or are no numbers."""
    try:
        yield
    except (AttributeError, LookupError, OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise ModelError(
            f"{path}: config.json does not describe a valid drafter ({error}); download the drafter again"
        ) from error


def read_ids(folder: HeadFolder, columns: int, vocabulary: int) -> mx.array:
    """Returns the target's id of each of the `columns` of a head's logits, (columns,) int32, increasing.

    `d2t` holds offsets: column i stands for the token i + d2t[i] (SafeAILab/EAGLE, `eagle/traineagle3/cnets.py`).
    Without it the columns are the target's `vocabulary`. `t2d`, where there is one, must agree: true at those ids.
    Raises ModelError: missing, of another size, out of range or not increasing.
    """
    offsets, stored = folder.tensors.get("d2t"), folder.tensors.get("t2d")
    if offsets is None and columns == vocabulary:
        return mx.arange(vocabulary, dtype=mx.int32)
    if offsets is None:
        raise _does_not_match(folder, f"lacks the tensor 'd2t' for {columns} of {vocabulary} tokens")
    if offsets.shape != (columns,) or not mx.issubdtype(offsets.dtype, mx.integer):
        kind = str(offsets.dtype).rpartition(".")[2]
        raise _does_not_match(folder, f"'d2t' is {kind} {offsets.shape}, not integers ({columns},)")
    ids = mx.arange(columns) + offsets.astype(mx.int64)
    rising = mx.concatenate([mx.array([-1]), ids, mx.array([vocabulary])])
    if not mx.all(rising[1:] > rising[:-1]).item():
        raise _does_not_match(folder, f"'d2t' does not name {columns} of {vocabulary} tokens in order")
    if stored is not None:
        known = mx.zeros(vocabulary, mx.bool_)
        known[ids] = True
        if stored.shape != known.shape or not mx.array_equal(stored.astype(mx.bool_), known).item():
            raise _does_not_match(folder, "'d2t' and 't2d' contradict each other")
    return ids.astype(mx.int32)


def _does_not_match(folder: HeadFolder, what: str) -> ModelError:
    return ModelError(f"{folder.path}: {what}; {DOES_NOT_MATCH}")


def write_head(path: Path, config: Mapping[str, object], weights: str, tensors: Mapping[str, mx.array]) -> None:
    """Writes `tensors` as the file `weights`, then config.json, into the folder `path`, which is made if need be.

    Durable when it returns. Raises ModelError when the disk refuses.
    """
    to_do = "free some disk space, or choose a folder that can be written"
    with disk_errors(lambda reason: ModelError(f"{path}: the drafter could not be written ({reason}); {to_do}")):
        path.mkdir(parents=True, exist_ok=True)
        (path / "config.json").unlink(missing_ok=True)
        replace_with(path / weights, lambda draft: write_tensors(draft, tensors, "pt"))  # what transformers asks for
        replace_json(path / "config.json", config)


def write_speculators(
    path: Path,
    algorithm: str,
    architecture: str,
    about: Mapping[str, object],
    fields: Mapping[str, object],
    tensors: Mapping[str, mx.array],
) -> None:
    """Writes a head in the Speculators layout, its tensors in 16 bits, as `write_head` does. about: what config.json
    says under "redline"; its target is named as the verifier. fields: what it says of heads of this kind alone."""
    of_target = about.get("target")
    name = of_target.get("name") if isinstance(of_target, Mapping) else None
    proposal = {"proposal_type": "greedy", "speculative_tokens": 5, "verifier_accept_k": 1, "accept_tolerance": 0.0}
    config = {
        "architectures": [architecture],
        "speculators_model_type": algorithm,
        "speculators_config": {
            "algorithm": algorithm,
            "default_proposal_method": "greedy",
            "proposal_methods": [proposal],
            "verifier": {"name_or_path": name, "architectures": []},
        },
        "redline": dict(about),
        "torch_dtype": "float16",
        **fields,
    }
    write_head(path, config, "model.safetensors", tensors)
