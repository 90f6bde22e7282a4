"""A small draft model in training: the target with fewer layers, distilled.

Embedding, output matrix and tokenizer are the target's and stay as they are; the chosen layers begin as copies. The
result is an ordinary MLX model folder that mlx-lm loads too.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine import backend
from engine.errors import FitError, ModelError
from engine.target.model_layout import layers_of
from models.corrections import corrected_classes
from models.drafters.draft_vocabulary_file import write_draft_vocabulary
from models.durable_files import write_json
from models.loader import Loaded, in_float32, load_network
from models.model_config import for_mlx_lm
from models.model_folder import copy_tokenizer
from models.parameters import flat_parameters
from models.safetensors_file import write_tensors
from models.training.batches import Batch
from models.training.target_layer import FINAL_NORMS
from models.training.trainee import Trainee

_COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
# What the code of architectures raises for sizes that it was not made for.
_AMISS = (ValueError, TypeError, KeyError, IndexError, AttributeError, StopIteration, RuntimeError)


def default_layers(layers: int) -> int:
    """Returns how many layers a draft model has by default, for a target of `layers` layers."""
    return max(1, round(layers / 8))


class DraftTrainee(Trainee):
    """A draft model in training. layers: how many of the target's are kept. shortlist: the tokens that it will draft,
    (n,) int32 increasing; it is trained on all tokens. Raises FitError for a target that cannot be shortened."""

    depths = max_depth = 1
    min_context = 0

    def __init__(self, target: Loaded, layers: int, shortlist: mx.array) -> None:
        self._folder = target.folder.path
        self._shortlist, self._vocabulary = shortlist, target.model.vocabulary
        self._drafts: mx.array | None = None  # which columns it drafts; None while it learns
        self._stored: dict[str, mx.array] = {}
        self.config, self.kept = shorten(target, layers)
        self.network: Any = _build(self.config)
        _copy(self.network, target, self.kept)
        self.network.freeze()
        for layer in layers_of(self.network):
            layer.unfreeze()
        for name, module in self.network.named_modules():
            if name.count(".") < 2 and name.rpartition(".")[2] in FINAL_NORMS:
                module.unfreeze()
        mx.eval(self.network.parameters())
        _try(self.network)

    def predict(self, batch: Batch, depths: int) -> list[mx.array]:
        logits: mx.array = self.network(batch.tokens)
        chosen = logits.reshape(-1, logits.shape[-1])[batch.rows].astype(mx.float32)
        return [chosen if self._drafts is None else mx.where(self._drafts, chosen, -mx.inf)]

    def finalize(self) -> None:
        """Rounds the weights by quantizing them as the target's are; drafts from the shortlist alone from now on."""
        self._drafts = mx.zeros(self._vocabulary, mx.bool_)
        self._drafts[self._shortlist] = True
        self._stored = self._weights()
        self.network = in_float32(self.network)
        mx.eval(self.network.parameters())

    def save(self, folder: Path, about: Mapping[str, Any]) -> None:
        write_tensors(folder / "model.safetensors", self._stored or self._weights())
        write_draft_vocabulary(folder, self._shortlist, self._vocabulary)
        copy_tokenizer(self._folder, folder)
        write_json(folder / "config.json", {**self.config, "redline": dict(about)})

    def _weights(self) -> dict[str, mx.array]:
        """Returns the weights to store, to which the network is rounded."""
        self.network.set_dtype(_dtype(self.config))
        quantization = self.config.get("quantization")
        if isinstance(quantization, dict):
            _quantize(self.network, quantization)
        weights = flat_parameters(self.network)
        mx.eval(weights)
        return weights


def shorten(target: Loaded, layers: int) -> tuple[dict[str, Any], list[int]]:
    """Returns the config of `target` with only `layers` layers, and the numbers of its layers that are kept: spread
    evenly, the first and the last among them. Lists with one entry per layer are shortened too."""
    whole = len(layers_of(target.network))
    if whole == 1:
        raise FitError("the target has one layer, which cannot be fewer: choose --kind eagle3 or medusa")
    if layers >= whole:
        raise FitError(f"a draft model of {layers} layers is no smaller than the target with {whole}: give fewer")
    config = {key: value for key, value in target.folder.config.items() if key != "quantization_config"}
    part = config
    if not any(part.get(key) == whole for key in _COUNTS) and isinstance(config.get("text_config"), dict):
        part = config["text_config"] = dict(_object(config["text_config"]))
    keys = [key for key in _COUNTS if part.get(key) == whole]
    if not keys:
        raise FitError(f"the target's config does not say where its {whole} layers come from: choose --kind eagle3")
    kept = [round(i * (whole - 1) / (layers - 1)) for i in range(layers)] if layers > 1 else [0]
    for key, value in part.items():
        if key in keys:
            part[key] = layers
        elif isinstance(value, list) and len(value) == whole and not key.endswith(("token_id", "token_ids")):
            part[key] = [value[i] for i in kept]
    if isinstance(config.get("quantization"), dict):
        config["quantization"] = _renumbered(_object(config["quantization"]), _prefix(target.network), kept)
    return config, kept


def _object(value: Any) -> dict[str, Any]:
    return dict(value)


def _renumbered(quantization: dict[str, Any], prefix: str, kept: list[int]) -> dict[str, Any]:
    """Returns the settings of single modules under the names that they have in the shortened model."""
    found: dict[str, Any] = {key: value for key, value in quantization.items() if not key.startswith(prefix)}
    for new, old in enumerate(kept):
        own = f"{prefix}{old}."
        found |= {f"{prefix}{new}.{key.removeprefix(own)}": v for key, v in quantization.items() if key.startswith(own)}
    return found


def _prefix(network: Any) -> str:
    """Returns what the names of the layers' parameters begin with: "model.layers." for most."""
    first = layers_of(network)[0]
    name = next(name for name, module in network.named_modules() if module is first)
    return str(name.removesuffix("0"))


def _build(config: dict[str, Any]) -> Any:
    plain = for_mlx_lm({key: value for key, value in config.items() if key != "quantization"})
    try:
        model_class, arguments_class = corrected_classes(plain)
        return model_class(arguments_class.from_dict(plain))
    except _AMISS as error:
        raise _refusal(f"mlx-lm cannot build it ({type(error).__name__}: {error})") from error


def _copy(student: Any, target: Loaded, kept: list[int]) -> None:
    """Copies the target's weights in float32 to the student, under its names."""
    network = target.network
    if not backend.describe().dequantize:
        network, _ = load_network(target.folder)
        network = in_float32(network)
    weights = flat_parameters(network)
    prefix, own = _prefix(network), _prefix(student)
    copied = []
    for name, value in flat_parameters(student).items():
        if name.startswith(own):
            number, _, rest = name.removeprefix(own).partition(".")
            source = f"{prefix}{kept[int(number)]}.{rest}"
        else:
            source = name
        if source not in weights or weights[source].shape != value.shape:
            raise _refusal(f"its layers are of different kinds ({source} does not fit)")
        copied.append((name, weights[source].astype(mx.float32)))
    student.load_weights(copied)
    student.eval()


def _try(student: Any) -> None:
    """Raises FitError unless a step of training can be made at all."""

    def loss() -> mx.array:
        return mx.sum(student(mx.zeros((1, 4), mx.int32)).astype(mx.float32))

    try:
        mx.eval(nn.value_and_grad(student, loss)())
    except _AMISS as error:
        raise _refusal(f"it does not run so ({type(error).__name__}: {error})") from error


def _refusal(why: str) -> FitError:
    return FitError(f"the target cannot simply be shortened, {why}: choose --kind eagle3 or medusa")


def _dtype(config: Mapping[str, Any]) -> mx.Dtype:
    """Returns the type that the target's floats are stored in; float16 where the config does not say."""
    named = {"bfloat16": mx.bfloat16, "float32": mx.float32}
    return named.get(str(config.get("torch_dtype") or config.get("dtype")).removeprefix("torch."), mx.float16)


def _quantize(network: nn.Module, quantization: dict[str, Any]) -> None:
    """Quantizes the network as the config says, module by module. Raises ModelError for a mode that MLX lacks."""

    def choose(path: str, module: Any) -> bool | dict[str, Any]:
        if not hasattr(module, "to_quantized") or module.weight.shape[-1] % quantization["group_size"]:
            return False
        own: bool | dict[str, Any] = quantization.get(path, True)
        return own

    try:
        nn.quantize(
            network,
            quantization["group_size"],
            quantization["bits"],
            mode=quantization.get("mode", "affine"),
            class_predicate=choose,
        )
    except (ValueError, KeyError) as error:
        raise ModelError(
            f"the draft model cannot be quantized as the target is ({error}): choose another kind"
        ) from error
