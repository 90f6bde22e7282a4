"""Writes the reference networks: tiny and random, made, saved and run by transformers.

    python -m tests.programs.architecture_references [NAME ...] [--to FOLDER]

Needs torch and transformers, in an environment of their own; nothing that Redline ships or tests imports torch. The
network of a reference is the one that its config.json describes. For a new one write this file: as its makers publish
it, but shrunk until there are some ten thousand numbers, and with every threshold within the text (windows of 12
tokens, contexts that are scaled past ORIGINAL). The rest is written here, as `save_pretrained` does, and
`expected.npz`: `tokens`, and the logits of transformers in float32 with eager attention for the whole text (`whole`)
and for its beginning alone (`beginning`); in some a prompt and the reply to it (`generated`). Weights are drawn as
numbers that float16 represents exactly, and stored in it.
"""

import argparse
import json
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

FOLDER = Path(__file__).parents[1] / "models" / "references"
_PLAIN = {"attn_implementation": "eager", "dtype": torch.float32}
_STEP = 64  # weights are multiples of 1 / _STEP: float16 represents them and their sums, and Git packs them well
VOCABULARY = 64
TOKENS = 48
ORIGINAL = 24  # tokens of the shorter text too: what is chosen by the length of a text is right in both
GENERATED = ("phi3_longrope", "phi3_partial")  # their rotation changes within the reply
PROMPT = 16
_NAMES = ("config.json", "model.safetensors", "expected.npz")


def network_of(name: str) -> Any:
    """Returns the network that a reference's config.json describes, its weights drawn."""
    network_class, config = described(json.loads((FOLDER / name / "config.json").read_text()))
    torch.manual_seed(zlib.crc32(name.encode()))
    network = network_class._from_config(config, **_PLAIN)
    draw(network)
    return network.eval()


def described(fields: dict[str, Any]) -> tuple[Any, Any]:
    """Returns the class of the network that a config.json describes, and its configuration."""
    fields = json.loads(json.dumps(fields), object_hook=_with_floats)
    config = CONFIG_MAPPING[fields["model_type"]].from_dict(fields)
    config._experts_implementation = "eager"
    return getattr(transformers, fields["architectures"][0]), config


def _with_floats(fields: dict[str, Any]) -> Any:
    """Returns a part of a configuration with the floats that transformers writes as {"__float__": "Infinity"}."""
    return float(fields["__float__"]) if set(fields) == {"__float__"} else fields


@torch.no_grad()
def draw(network: Any) -> None:
    """Draws every weight anew, whatever starts at zero or one included."""
    saved = set(network.state_dict())
    named = [*network.named_parameters(), *((name, value) for name, value in network.named_buffers() if name in saved)]
    embedding = network.get_input_embeddings().weight
    for name, value in named:
        if value.is_floating_point():
            value.copy_(torch.round(drawn(name, value, value is embedding) * _STEP) / _STEP)


def drawn(name: str, value: torch.Tensor, embedding: bool) -> torch.Tensor:
    """Returns new weights: queries and keys large enough for attention to choose, logits with a spread of about 1."""
    noise = torch.randn(value.shape)
    if embedding:
        return 0.25 * noise
    if value.ndim < 2 or not name.endswith(("weight", "_proj", "w1", "w2", "v1")):
        return value + 0.3 * noise
    if "conv" in name:
        return noise * 0.35
    gain = 1.3 if any(part in name for part in ("q_", "k_", "qkv", "query", "c_attn", "Wqkv")) else 1.0
    if "linear_attn" in name:
        gain = 0.5  # more, and transformers' own logits in 32 and in 64 bits are 4e-4 apart
    if value.ndim == 3:  # experts, whatever their order of axes
        return noise * 0.17
    return noise * gain / value.shape[-1] ** 0.5


def remedy(network: Any, length: int) -> None:
    """Tells a PhiMoE how long the text is, as the file of transformers 4 did: 5.24 forgets it, and takes the short
    factors of LongRoPE for all texts."""
    if network.config.model_type == "phimoe":
        network.model.rotary_emb.rope_init_fn = partial(ROPE_INIT_FUNCTIONS["longrope"], seq_len=length)


@torch.no_grad()
def logits(network: Any, tokens: list[int]) -> np.ndarray:
    """Returns what transformers computes after each token."""
    remedy(network, len(tokens))
    text = network.language_model if network.config.model_type == "llama4" else network  # its shell wants a picture
    return text(torch.tensor([tokens]), use_cache=False).logits[0].float().numpy()


@torch.no_grad()
def generated(network: Any, prompt: list[int]) -> np.ndarray:
    """Returns a prompt and what transformers generates after it, always the most probable token."""
    whole = network.generate(torch.tensor([prompt]), max_new_tokens=TOKENS, do_sample=False, eos_token_id=VOCABULARY)
    return whole[0].numpy().astype(np.int32)


def write(name: str, folder: Path) -> str:
    """Writes a reference; returns what is worth knowing of it."""
    network = network_of(name)
    tokens = torch.randint(4, VOCABULARY, (TOKENS,)).tolist()
    more: dict[str, Any] = {}
    if name in GENERATED:
        more["generated"] = generated(network, tokens[:PROMPT])
    beginning = logits(network, tokens[:ORIGINAL])  # first: of dynamic NTK transformers keeps what a longer text chose
    whole = logits(network, tokens)
    network.half().save_pretrained(folder)
    for path in folder.iterdir():
        if path.name not in _NAMES:
            path.unlink()
    apart = float(np.abs(whole[:ORIGINAL] - beginning).max())
    if apart > 1e-4:
        more["beginning"] = beginning
    np.savez(folder / "expected.npz", tokens=np.array(tokens, np.int32), whole=whole, **more)
    config = json.loads((folder / "config.json").read_text())
    size = sum(path.stat().st_size for path in folder.iterdir())
    return f"{name}: {config['model_type']}, {size // 1024} KiB, spread {whole.std():.2f}, by length {apart:.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=sorted(path.parent.name for path in FOLDER.glob("*/config.json")))
    parser.add_argument("--to", type=Path, default=FOLDER)
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for name in args.names:
        print(write(name, args.to / name), flush=True)


if __name__ == "__main__":
    main()
