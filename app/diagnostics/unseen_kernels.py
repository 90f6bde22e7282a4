"""What runs other code on Metal than on MLX's CPU backend, so that no test that passed on a CPU says anything of it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class UnseenKernel:
    """name: of the file of mlx-lm, or of the operation of MLX. architectures: that go through it. what: runs on Metal
    instead."""

    name: str
    what: str
    architectures: tuple[str, ...] = ()


_DELTA = ("bailing_moe_v3", "kimi_k3", "kimi_linear", "olmo_hybrid", "qwen3_5", "qwen3_next")
_SCAN = ("falcon_h1", "granitemoehybrid", "mamba2", "nemotron_h", "plamo2")

# Of mlx-lm 0.32.2: every file with a kernel of its own (a test looks for new ones), and operations of MLX 0.32.4.
UNSEEN = (
    UnseenKernel("gated_delta", "the gated delta rule as one kernel", _DELTA),
    UnseenKernel("ssm", "the state-space scan as one kernel, for states of multiples of 32", _SCAN),
    UnseenKernel("rwkv7", "the recurrence as one kernel", ("rwkv7",)),
    UnseenKernel("bitlinear_layers", "ternary products as one kernel", ("bitnet",)),
    UnseenKernel("deepseek_v41", "kernels of its own for sparse attention", ("deepseek_v41",)),
    UnseenKernel("kimi_k3", "kernels of its own", ("kimi_k3",)),
    UnseenKernel("kernels", "norms, rotary positions and expert routing, without a CPU path", ("muse_spark",)),
    UnseenKernel("quantized_matmul", "products with 2 to 8 bits; on a CPU models are turned into float32"),
    UnseenKernel("gather_qmm", "quantized experts, sorted from 64 tokens on"),
    UnseenKernel("scaled_dot_product_attention", "fused attention, in one or two passes or in full, by rows and heads"),
    UnseenKernel("bfloat16", "weights, keys and logits as they are stored; float32 on a CPU"),
)
