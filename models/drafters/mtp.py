"""Multi-token prediction heads on disk, in every layout in which they are published.

    in a checkpoint     Qwen3-Next, Qwen3.5 and later: `mtp.*`, also below `model.` or `language_model.`
                        (vllm-project/vllm, `vllm/model_executor/models/qwen3_5_mtp.py`). DeepSeek-V3, GLM-4.5, Ling,
                        Step 3.5: `model.layers.N.*`, after the N layers of the model (`deepseek_mtp.py`,
                        `glm4_moe_mtp.py`, `bailing_moe_mtp.py`, `step3p5_mtp.py`). MiMo: `model.mtp_layers.0.*`;
                        MiMo-V2: `model.mtp.layers.0.*` (`mimo_v2_mtp.py`). Nemotron-H: `mtp.layers.K.*` for the
                        blocks K of one head (`nemotron_h_mtp.py`)
    sidecar             a folder of its own, model_type `qwen3_5_mtp`, names without `mtp.` (Blaizzy/mlx-vlm,
                        `speculative/drafters/qwen3_5_mtp/split.py`)
    mtplx               a file beside the target's weights, see `HEAD_FILES` (mtplx, `artifacts.py`)
    Speculators         `speculators_model_type: mtp`, `mtp_layers.0.*` (vllm-project/speculators,
                        `convert/mtp/converter.py`)

All of them become the names of `engine.drafters.mtp.MtpHead`. The layer is mlx-lm's own of the target's architecture,
filled by mlx-lm's own conversion where the upstream tensors have other shapes.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx

from engine.drafters.mtp import LayerChain, Mtp, MtpForm, MtpHead
from engine.errors import ModelError
from engine.target.layer_taps import NORMED
from engine.target.model_layout import layers_of, matrix_rows
from models.drafters.draft_vocabulary_file import read_draft_vocabulary, vocabulary_size, write_draft_vocabulary
from models.drafters.drafter_kind import Variants
from models.drafters.head_files import HeadFiles
from models.drafters.head_folder import (
    ANOTHER_DRAFTER,
    Fields,
    HeadFolder,
    building,
    load_tensors,
    write_speculators,
)
from models.drafters.head_weights import fill, head_footprint
from models.drafters.mtp_families import FAMILIES, build_layer, convert_layer, family_of
from models.drafters.target_match import TargetShape, check_vocabulary, check_width, copies_output
from models.durable_files import read_json_object, replace_with
from models.loader import Loaded
from models.memory.memory_verdict import Share
from models.model_folder import check_links, folder_names
from models.mtp_tensors import HEAD_FILES, OUTER, files_of_heads
from models.parameters import flat_parameters
from models.safetensors_file import read_entries, read_metadata, write_tensors

CONVERTED = {"converted": "true"}  # in the metadata of a file: what `write_mtp` adds to its format
_PART = re.compile(r"^(?:mtp\.|mtp_layers\.0\.|layers\.\d+\.)?(?:layers\.\d+\.)?(?:transformer\.)?")

# What the layouts call the parts of a head; everything else belongs to its layer.
_NAMES = {
    "norm_embedding": ("pre_fc_norm_embedding", "token_layernorm", "enorm"),
    "norm_hidden": ("pre_fc_norm_hidden", "hidden_layernorm", "hnorm"),
    "fc": ("fc", "input_proj", "eh_proj"),
    "norm": ("norm", "final_layernorm", "shared_head.norm"),
    "lm_head": ("lm_head", "shared_head.head", "shared_head.output"),
    "embed_tokens": ("embed_tokens",),
}
_PARTS = {stored: part for part, names in _NAMES.items() for stored in names}
_PARTS["pre_mlp_layernorm"] = "layer.post_attention_layernorm"  # MiMo-V2

# What the fields of `mtplx_mtp_contract`, and their other names, change about a head's form.
_CONTRACT: Mapping[str, Mapping[str, Mapping[str, bool]]] = {
    "base_hidden_variant": {"post_norm": {}, "pre_norm": {"reads_normed": False}},
    "hidden_variant": {"post_norm": {}, "pre_norm": {"feeds_normed": False}},
    "mtp_hidden_variant": {"post_norm": {}, "pre_norm": {"feeds_normed": False}},
    "concat_order": {"embedding_hidden": {}, "hidden_embedding": {"hidden_first": True}},
    "mtp_position_mode": {"cache": {}, "local": {}, "absolute": {}},
    "position_mode": {"cache": {}, "local": {}, "absolute": {}},
}


class MtpFiles(HeadFiles):
    """A sidecar is a folder of its own. A target's folder may hold a head too, beside or among its weights."""

    def open(self, path: Path, target: Mapping[str, object]) -> HeadFolder:
        """The tensors are called as in `MtpHead`, and are what mlx-lm's layer wants; a copy of the target's embedding
        is left on the disk. The fields are those of the head's layer, from the target's config.json where the head's
        own says nothing, and what its own says about the head as a whole."""
        check_links(path, folder_names(path))
        own = read_json_object(path / "config.json")
        names = _names_by_file(path, own)
        if not names:
            raise ModelError(f"{path}: holds no multi-token prediction head; {ANOTHER_DRAFTER}")
        about = {key: own.get(key) for key in ("redline", "mtplx_mtp_contract")}
        config, tensors = Fields(path, {**_text(target), **_text(own), **about}), _stored_tensors(names)
        if not any(CONVERTED.items() <= read_metadata(file).items() for file in names):
            with building(path):
                tensors = _converted(config, tensors)
        return HeadFolder(path, config, tensors)

    def network(self, folder: HeadFolder, tensors: Mapping[str, mx.array], shape: TargetShape) -> MtpHead:
        fields = folder.config
        check_width(folder.path, fields.count("hidden_size"), shape.hidden, shape)
        check_vocabulary(folder.path, fields.count("vocab_size", shape.rows), shape)
        return mtp_network(fields, tensors)

    def complete(self, folder: HeadFolder, head: Any, shape: TargetShape, target: Loaded | None) -> None:
        """An output matrix that copies the target's is left away, so that the target's serves both."""
        if head.project is not None:
            check_vocabulary(folder.path, head.lm_head.weight.shape[0], shape)
            if target is not None and copies_output(partial(matrix_rows, head.lm_head), target):
                del head.lm_head

    def borrowed_output(self, head: MtpHead, folder: Path, target: Loaded) -> float:
        rows = target.model.vocabulary  # of a draft vocabulary its rows alone are copied
        return 0.0 if head.project is not None else (vocabulary_size(folder) or rows) / rows

    def variants(self, head: MtpHead, path: Path, target: Loaded, trees: bool) -> Variants:
        """Which state a head reads is disputed for DeepSeek's and GLM's, and for heads that Speculators trained: vLLM's
        and transformers' code take the one after the final norm, llama.cpp's notes the one before it. The one that the
        head's form names comes first."""
        before = len(layers_of(target.network))
        ids = None if head.project else read_draft_vocabulary(path, target.model.vocabulary)
        variants = {
            "the state after the final norm": lambda: Mtp(head, target.model, NORMED, ids),
            "the state before the final norm": lambda: Mtp(head, target.model, before, ids),
        }
        return variants if head.form.reads_normed else dict(reversed(variants.items()))

    def footprint(self, folder: Path, item_bytes: int) -> Callable[[int], Share]:
        """With a draft vocabulary it has copies of some rows of the target's output matrix."""
        tensors = _stored_tensors(_names_by_file(folder, read_json_object(folder / "config.json")))
        widths = [value.size for name, value in tensors.items() if name.endswith("input_layernorm.weight")]
        rows = mx.zeros((vocabulary_size(folder), max(widths, default=0)), mx.float16)
        return head_footprint({**tensors, "rows": rows}, item_bytes)

    def is_within(self, target: Path) -> bool:
        try:
            return bool(_names_by_file(target, read_json_object(target / "config.json")))
        except (ModelError, OSError):
            return False


FILES = MtpFiles()


def upstream_mtp(source: Path) -> MtpHead | None:
    """Returns the head among the weights of the folder `source`, lazily; None without one, or with one of an
    architecture whose layer is not known.

    Raises ModelError for damaged files.
    """
    config = read_json_object(source / "config.json")
    if _text(config).get("model_type") not in FAMILIES or not _names_by_file(source, config):
        return None
    folder = FILES.open(source, config)
    head = mtp_network(folder.config, folder.tensors)
    fill(source, head, folder.tensors)
    return head


def write_mtp(head: MtpHead, path: Path) -> None:
    """Writes `head` beside the weights of the model folder `path`, in one step, under upstream's names of Qwen3.5.

    Raises OSError when the disk refuses.
    """
    parts = {part: f"mtp.{names[0]}" for part, names in _NAMES.items()}
    layer = "mtp." if isinstance(head.layer, LayerChain) else "mtp.layers.0."
    tensors = {_renamed(name, parts, layer): value for name, value in flat_parameters(head).items()}
    replace_with(path / HEAD_FILES[0], lambda draft: write_tensors(draft, tensors, about=CONVERTED))


def save_mtp(
    path: Path, head: MtpHead, fields: Mapping[str, object], ids: mx.array, about: Mapping[str, object]
) -> None:
    """Writes `head` into the folder `path` in the Speculators layout, its weights in 16 bits.

    fields: as in `mtp_network`. ids: the draft vocabulary that it was trained for, a file of its own, as the layout has
    none. about: what config.json says under "redline". Raises ModelError or OSError when the disk refuses.
    """
    parts = {part: f"mtp_layers.0.{names[1]}" for part, names in _NAMES.items() if len(names) > 1}
    tensors = {
        _renamed(name, parts, "mtp_layers.0."): value.astype(mx.float16)
        for name, value in flat_parameters(head).items()
    }
    config = {"num_nextn_predict_layers": 1, "transformer_layer_config": {**fields, "torch_dtype": "float16"}}
    write_draft_vocabulary(path, ids, Fields(path, fields).count("vocab_size"))
    write_speculators(path, "mtp", "MTPSpeculator", about, config, tensors)


def _renamed(name: str, parts: Mapping[str, str], layer: str) -> str:
    """Returns what a layout calls a parameter of `MtpHead`. parts: its names of the parts. layer: what stands before
    the names within the layer."""
    part, _, kind = name.rpartition(".")
    return f"{parts[part]}.{kind}" if part in parts else name.replace("layer.", layer, 1)


def _text(config: Mapping[str, object]) -> dict[str, object]:
    """Returns the fields of the model of text in a config.json. A sidecar names only itself at the top."""
    for key in ("text_config", "transformer_layer_config"):
        part = config.get(key)
        if isinstance(part, dict):
            return dict(part)
    named = str(config.get("model_type", ""))
    return {key: value for key, value in config.items() if key != "model_type" or not named.endswith("_mtp")}


def _names_by_file(path: Path, config: Mapping[str, object]) -> dict[Path, dict[str, str]]:
    """Returns, for each file that holds tensors of the head, what `MtpHead` calls them, by what the file calls them."""
    beside = files_of_heads(path, config)
    files = beside[:1] or [path / name for name in folder_names(path) if fnmatch(name, "model*.safetensors")]
    sidecar, chain = bool(beside) or str(config.get("model_type")).endswith("_mtp"), _has_chain(config)
    found = {
        file: {name: _own_name(name, chain) for name in read_entries(file) if belongs_to_head(name, config, sidecar)}
        for file in files
    }
    return {file: names for file, names in found.items() if names}


def _stored_tensors(names: Mapping[Path, Mapping[str, str]]) -> dict[str, mx.array]:
    """Returns the head's tensors by the names of `MtpHead`, as they are stored, but for a copy of an embedding."""
    loaded = load_tensors(names)
    owned = {stored: own for of_file in names.values() for stored, own in of_file.items()}
    return {own: loaded[stored] for stored, own in owned.items() if not own.startswith("embed_tokens.")}


def belongs_to_head(name: str, config: Mapping[str, object], sidecar: bool = False) -> bool:
    """Whether a tensor of a file is part of its first head. config: the config.json beside it. sidecar: whether the
    file holds nothing but heads."""
    inner = OUTER.sub("", name)
    if inner.startswith("mtp_layers.") or (inner.startswith("mtp.layers.") and not _has_chain(config)):
        return inner.removeprefix("mtp.").split(".")[1] == "0"
    if inner.startswith("mtp."):
        return True
    added = re.match(r"layers\.(\d+)\.", inner)
    if added and int(added[1]) == _text(config).get("num_hidden_layers"):
        return True
    return sidecar and (added is None or int(added[1]) == 0)


def _own_name(name: str, chain: bool) -> str:
    """Returns what `MtpHead` calls a tensor of any layout. chain: of a head of several blocks, which keep their numbers
    and where `norm` within one is the block's own."""
    inner = OUTER.sub("", name)
    bare = _PART.sub("", inner)
    part, _, kind = bare.rpartition(".")
    if part in _PARTS and not (chain and part == "norm" and inner.startswith("mtp.layers.")):
        return f"{_PARTS[part]}.{kind}"
    return f"layer.{inner.removeprefix('mtp.') if chain else bare}"


def _has_chain(config: Mapping[str, object]) -> bool:
    """Whether the layer of a head for a model with this config.json is several blocks of the model (Nemotron-H)."""
    family = FAMILIES.get(str(_text(config).get("model_type")))
    return family is not None and family.chain


def mtp_network(config: Fields, tensors: Mapping[str, mx.array]) -> MtpHead:
    """Returns a head with random weights, for the `tensors` that it may be given. config: the fields of its layer, as
    transformers has them, with the architecture as `model_type`. Raises ModelError for one that no head is known to
    have."""
    layer, form = build_layer(config)
    norm = layer.layers[0].norm if isinstance(layer, LayerChain) else layer.input_layernorm
    output, form = tensors.get("lm_head.weight"), _with_contract(form, config.part("mtplx_mtp_contract"))
    own_output = None if output is None else output.shape[0]
    return MtpHead(layer, config.count("hidden_size"), float(norm.eps), form, own_output)


def _with_contract(form: MtpForm, contract: Fields) -> MtpForm:
    """Returns the form that a pack's `mtplx_mtp_contract` asks for (mtplx, `mtp_patch.py`, `MTPContract`). What is
    mtplx's own default says nothing, as every pack has it, and so do positions: rotary embeddings look at distances.
    Raises ModelError for what Redline does not know."""
    for name, value in contract.values.items():
        known = _CONTRACT.get(name)
        if known is None:
            continue
        if not isinstance(value, str) or value not in known:
            raise ModelError(
                f"{contract.path}: Redline does not support the mtplx contract's {name} {str(value)[:40]!r}; "
                f"{ANOTHER_DRAFTER}"
            )
        form = replace(form, **known[value])  # type: ignore[arg-type]  # all of them flags
    return form


# --- from upstream's tensors to mlx-lm's -------------------------------------------------------


def _converted(config: Fields, tensors: dict[str, mx.array]) -> dict[str, mx.array]:
    """Returns the tensors as mlx-lm's layer has them: experts stacked, latent attention split, norms not minus one."""
    family = family_of(config)
    if family.converts:
        tensors = convert_layer(config, tensors)
    tensors = _join_experts(config.path, tensors)
    norms = {name: value for name, value in tensors.items() if value.ndim == 1 and "norm" in name}
    if family.delta_norms and _are_delta(norms):
        tensors |= {name: value + 1 for name, value in norms.items()}
    return tensors


def _join_experts(path: Path, tensors: dict[str, mx.array]) -> dict[str, mx.array]:
    """Returns the tensors with a matrix of all experts for each part of them: single ones are stacked, and of Qwen3.5's
    joint one the first half is the gate's. Raises ModelError unless single ones are numbered from 0 without a gap."""
    found: dict[str, mx.array] = {}
    single: dict[str, dict[int, mx.array]] = {}
    for name, value in tensors.items():
        if match := re.fullmatch(r"layer\.mlp\.experts\.(\d+)\.(.+)", name):
            single.setdefault(match[2], {})[int(match[1])] = value
        elif name == "layer.mlp.experts.gate_up_proj":
            middle = value.shape[-2] // 2
            found["layer.mlp.switch_mlp.gate_proj.weight"] = value[..., :middle, :]
            found["layer.mlp.switch_mlp.up_proj.weight"] = value[..., middle:, :]
        elif name == "layer.mlp.experts.down_proj":
            found["layer.mlp.switch_mlp.down_proj.weight"] = value
        else:
            found[name] = value
    for part, experts in single.items():
        if sorted(experts) != list(range(len(experts))):
            raise ModelError(f"{path}: experts are missing; download the drafter again")
        found[f"layer.mlp.switch_mlp.{part}"] = mx.stack([experts[place] for place in sorted(experts)])
    return found


def _are_delta(norms: Mapping[str, mx.array]) -> bool:
    """Whether the weights of `norms` are stored minus one, as upstream stores Qwen's and a sidecar may or may not.

    By their means (mtplx, `compressed_tensors.py`, `mtp_sidecar_norms_are_delta`): the norms of queries and keys lie
    well above 1 where they are whole, and some norm lies well below where none is.
    """
    means: dict[str, Any] = {name: mx.mean(value.astype(mx.float32)).item() for name, value in norms.items()}
    heads = [mean for name, mean in means.items() if name.endswith(("q_norm.weight", "k_norm.weight"))]
    return bool(max(heads, default=1.0) < 1.25 and min(means.values(), default=1.0) < 0.5)
