"""Random heads of the newer kinds for toy targets: multi-token prediction, blocks, and Gemma 4's assistants."""

import importlib
from typing import Any

import mlx.core as mx
from mlx_lm.models import gemma4_text

from engine.drafters.dflash import DFlash, DFlashConfig, DFlashHead
from engine.drafters.gemma4_assistant import AssistantConfig, AssistantHead, Gemma4Assistant
from engine.drafters.mtp import Mtp, MtpHead
from engine.target.cached_model import CachedModel
from engine.target.model_layout import embed, layers_of
from tests.toys.architecture_common import FULL, SLIDING, VOCABULARY
from tests.toys.architectures import _config
from tests.toys.heads import _lively

_MTP_LAYERS = {
    "qwen3_5": ("TextModelArgs", "DecoderLayer"),
    "qwen3_next": ("ModelArgs", "Qwen3NextDecoderLayer"),
    "deepseek_v3": ("ModelArgs", "DeepseekV3DecoderLayer"),
    "glm4_moe": ("ModelArgs", "DecoderLayer"),
}
DFLASH = DFlashConfig(
    taps=(1, 2),
    feature_size=64,
    hidden_size=32,
    intermediate_size=40,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    vocab_size=VOCABULARY,
    draft_vocab_size=VOCABULARY,
    block=6,
    mask_id=VOCABULARY - 1,
    windows=(9, None),
    causal=(True, False),
)
BLOCKS: dict[str, dict[str, Any]] = {
    "dflash": {},
    "dflash2": {"sequential": "selector", "rank": 6, "candidates": 5, "conv_kernel": 2, "conv_group": 8},
    "dspark": {"sequential": "markov", "rank": 6, "from_anchor": True},
    "gated dspark": {"sequential": "gated_markov", "rank": 6, "windows": (None, None), "causal": (False, False)},
}


def random_mtp(network: Any, name: str, seed: int = 0) -> Mtp:
    """A drafter with a head whose layer is of the target's own architecture."""
    mx.random.seed(seed)
    module = importlib.import_module(f"mlx_lm.models.{name}")
    arguments, layer = _MTP_LAYERS[name]
    config = _config(name)
    args = getattr(module, arguments).from_dict(config.get("text_config", config))
    interval = getattr(args, "full_attention_interval", None)
    place = interval - 1 if interval else args.num_hidden_layers
    head = MtpHead(getattr(module, layer)(args, place), args.hidden_size, 1e-6)
    return Mtp(_lively(head), CachedModel(network))


def random_block(network: Any, kind: str, seed: int = 0, trees: bool = False, **changes: Any) -> DFlash:
    """A block drafter that reads two layers of the target; `changes` to its config."""
    from dataclasses import replace

    mx.random.seed(seed)
    target, width = CachedModel(network), embed(network)(mx.array([0])).shape[-1]
    changes |= {
        "vocab_size": target.vocabulary,
        "draft_vocab_size": target.vocabulary,
        "mask_id": target.vocabulary - 1,
    }
    points = (1, len(layers_of(network)))
    config = replace(DFLASH, taps=points, feature_size=2 * width, hidden_size=width, **BLOCKS[kind] | changes)
    return DFlash(_lively(DFlashHead(config)), target, trees=trees)


def random_assistant(network: Any, ordered: bool = False, seed: int = 0) -> Gemma4Assistant:
    """An assistant for a toy Gemma 4 that reads its last two layers with keys and values of their own."""
    mx.random.seed(seed)
    target, sizes = CachedModel(network), vars(network.args)
    vocabulary, own = target.vocabulary, sizes["num_hidden_layers"] - sizes.get("num_kv_shared_layers", 0)
    args = gemma4_text.ModelArgs.from_dict(
        {
            "hidden_size": 16,
            "intermediate_size": 24,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": sizes.get("head_dim", 8),
            "global_head_dim": sizes.get("global_head_dim", 16),
            "vocab_size": vocabulary,
            "num_kv_shared_layers": 3,
            "hidden_size_per_layer_input": 0,
            "use_double_wide_mlp": False,
            "layer_types": [SLIDING, SLIDING, FULL],
        }
    )
    clusters = {"clusters": min(8, vocabulary // 2), "best_clusters": 2} if ordered else {}
    layers = [gemma4_text.DecoderLayer(args, place) for place in range(3)]
    head: AssistantHead = _lively(AssistantHead(AssistantConfig(32, 16, vocabulary, **clusters), layers))
    if ordered:
        head.masked_embedding.token_ordering = mx.random.permutation(vocabulary).astype(mx.int32)
    return Gemma4Assistant(head, target, {SLIDING: own - 2, FULL: own - 1})
