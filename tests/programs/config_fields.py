"""Finds fields of published configurations that change what transformers computes and not what Redline computes.

    python -m tests.programs.config_fields theirs FILE [NAME ...]    in the environment with torch and transformers
    python -m tests.programs.config_fields ours FILE [NAME ...]      in Redline's own

For every reference network each field of its config.json is changed, one at a time, with the weights as they are. Where
transformers' logits change, `theirs` keeps them in FILE (an .npz); `ours` gives the same configuration to Redline and
prints what does not follow: "ignored" for logits as before, "other" for logits that are neither. Fields that would
change the shape of a tensor are left out: strict loading finds those.
"""

import argparse
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parents[1] / "models" / "references"
MOVED = 2e-4  # logits have a spread of about 1

# What is none of a forward pass in float32, or names the model and its tokens.
_APART = (
    *("architectures", "auto_map", "dtype", "torch_dtype", "model_type", "transformers_version", "use_cache"),
    *("initializer_range", "layer_types", "vocab_size", "vision_config", "audio_config", "tie_word_embeddings"),
    *("num_hidden_layers", "num_layers", "n_layer", "n_layers", "is_decoder", "use_mamba_kernels"),
    *("input_jitter_noise", "rescale_prenorm_residual", "output_router_logits"),  # of training, or of new weights
    # Experts are in two groups of two, of which one is chosen: there is no third. For a single one transformers makes
    # the weight 1, where mlx-lm and files like DeepSeek's gate leave it.
    *("num_experts_per_tok", "num_experts_per_token"),
)
# Where transformers 5.24 is no reference: see tests/models/references/README.md.
_ON_PURPOSE = {("dbrx", "rope_parameters.rope_theta"), ("phimoe", "rope_parameters.original_max_position_embeddings")}
# Values to try where the field is None or a text; None of a field that is not here is left alone.
_TRIED: dict[str, tuple[Any, ...]] = {
    "activation": ("gelu", "relu"),
    "hidden_act": ("gelu", "gelu_pytorch_tanh", "relu", "relu2", "silu"),
    "hidden_activation": ("gelu", "gelu_pytorch_tanh", "silu"),
    "activation_function": ("gelu", "gelu_pytorch_tanh", "relu", "silu"),
    "mlp_hidden_act": ("relu", "silu"),
    "mamba_hidden_act": ("gelu",),
    "clip_qkv": (0.3,),
    "sliding_window": (12,),
    "attn_logit_softcapping": (2.0,),
    "final_logit_softcapping": (2.0,),
    "logits_soft_cap": (2.0,),
    "mlp_only_layers": ([0],),
    "scoring_func": ("softmax", "sigmoid"),
    "topk_method": ("greedy", "group_limited_greedy", "noaux_tc"),
    "position_embedding_type": ("rope", "nope"),
    "attention_factor": (1.3,),
    "rope_type": (),
}


def values_for(name: str, value: Any) -> tuple[Any, ...]:
    """Returns what to try in place of a field's value."""
    if name in _APART or name.endswith(("_token_id", "_dropout", "_drop", "pdrop", "_token_index", "aux_loss_coef")):
        return ()
    if name in _TRIED:
        return tuple(other for other in _TRIED[name] if other != value)
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int):
        return tuple(other for other in (value + 1, value - 1, 2 * value, value // 2) if other > 0 and other != value)
    if "eps" in name:
        return (0.5,)
    if isinstance(value, float):
        return (value * 1.5, value / 2) if value else (0.5,)
    if isinstance(value, list) and value and all(type(one) in (int, float) for one in value):
        return ([value[0] * 2, *value[1:]], [*value[:-1], value[-1] + 1])
    return ()


def changes(config: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields a path of fields and a value to try there, for each field of the text part."""
    text = config.get("text_config") if not path else None
    if isinstance(text, dict):
        yield from changes(text, ("text_config",))
        return
    for name, value in config.items():
        if isinstance(value, dict) and name not in _APART:
            yield from changes(value, (*path, name))
        else:
            yield from (((*path, name), other) for other in values_for(name, value))
    if path and path[-1] == "rope_parameters" and config.get("rope_type") in ("yarn", "longrope"):
        for name, other in (("attention_factor", 1.3), ("truncate", False), ("beta_fast", 8.0), ("beta_slow", 3.0)):
            if name not in config:
                yield (*path, name), other


def changed(config: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """Returns a copy of a configuration with another value at `path`."""
    first, *rest = path
    return {**config, first: changed(config[first], tuple(rest), value) if rest else value}


def references(wanted: list[str]) -> list[str]:
    """Returns the names of the references, all without `wanted`."""
    return wanted or sorted(path.parent.name for path in FOLDER.glob("*/expected.npz"))


def their_logits(folder: Path, config: dict[str, Any], tokens: np.ndarray) -> np.ndarray | None:
    """Returns float32 logits (n, vocabulary) of transformers with the weights of a reference and another configuration;
    None where no network is made of it, or its tensors are others."""
    import torch

    from tests.programs.architecture_references import described, remedy

    try:
        network_class, made = described(config)
        network, report = network_class.from_pretrained(
            folder, config=made, attn_implementation="eager", dtype=torch.float32, output_loading_info=True
        )
        if any(report[what] for what in ("missing_keys", "unexpected_keys", "mismatched_keys")):
            return None
        remedy(network.eval(), len(tokens))
        with torch.no_grad():
            found = network(torch.tensor(tokens[None].astype(np.int64)), use_cache=False).logits[0].numpy()
    except Exception:  # noqa: BLE001  broad: values that nobody trained with fail in many ways
        return None
    return found if np.isfinite(found).all() else None


def theirs(file: Path, wanted: list[str]) -> None:
    """Writes the logits of transformers for each change that moves them."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    found: dict[str, np.ndarray] = {}
    for name in references(wanted):
        config = json.loads((FOLDER / name / "config.json").read_text())
        with np.load(FOLDER / name / "expected.npz") as expected:
            tokens, whole = expected["tokens"], expected["whole"]
        for path, value in changes(config):
            logits = their_logits(FOLDER / name, changed(config, path, value), tokens)
            if logits is not None and np.abs(logits - whole).max() > MOVED:
                found[json.dumps([name, list(path), value])] = logits
        print(name, len(found), flush=True)
    np.savez_compressed(file, **found)


def our_logits(folder: Path, tokens: np.ndarray) -> np.ndarray | str:
    """Returns float32 logits (n, vocabulary) of Redline, or why the folder is refused."""
    import mlx.core as mx
    from tokenizers import Tokenizer, models

    from engine.backend import to_numpy
    from engine.backend.mlx_lm_imports import why_unsound_type
    from engine.target.cached_model import CachedModel
    from models.loader import load_network
    from models.model_folder import check_folder

    words = {f"w{number}": number for number in range(64)}
    Tokenizer(models.WordLevel(words, unk_token="w0")).save(str(folder / "tokenizer.json"))
    try:
        if reason := why_unsound_type(folder.name):  # one of these files ends the process
            return reason
        network, _ = load_network(check_folder(folder), in_32_bits=True)
        network.set_dtype(mx.float32)
        model = CachedModel(network)
        model.read_as(len(tokens))
        return to_numpy(model.forward(mx.array(tokens)).astype(mx.float32))
    except Exception as error:  # noqa: BLE001  broad: a hundred networks with values that nobody trained with
        return f"{type(error).__name__}: {error}".replace(str(folder), "")


def ours(file: Path, wanted: list[str]) -> None:
    """Prints what does not follow."""
    with np.load(file) as found:
        for key in found.files:
            name, path, value = json.loads(key)
            if wanted and name not in wanted:
                continue
            if (name, ".".join(path)) in _ON_PURPOSE:
                continue
            verdict = _verdict(name, path, value, found[key])
            print(f"{verdict:8s} | {name} | {'.'.join(path)} = {value}", flush=True)


def _verdict(name: str, path: list[str], value: Any, expected: np.ndarray) -> str:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / name
        shutil.copytree(FOLDER / name, place)
        config = json.loads((place / "config.json").read_text())
        (place / "config.json").write_text(json.dumps(changed(config, tuple(path), value)))
        with np.load(place / "expected.npz") as before:
            tokens, whole = before["tokens"], before["whole"]
        logits = our_logits(place, tokens)
    if isinstance(logits, str):
        return f"refused ({logits[:90]})"
    if np.abs(logits - expected).max() < MOVED:
        return "follows"
    return "ignored" if np.abs(logits - whole).max() < MOVED else "other"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("side", choices=("theirs", "ours"))
    parser.add_argument("file", type=Path)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    (theirs if args.side == "theirs" else ours)(args.file, args.names)


if __name__ == "__main__":
    main()
