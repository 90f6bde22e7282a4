"""The numbers GGUF uses for types (ggml.h `ggml_type`, docs/gguf.md `gguf_metadata_value_type`).

To read one more tensor type: move its line to TENSOR_TYPES, and say in models/gguf/blocks.py what it is in MLX; a type
without an entry there is dequantized by the gguf package.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class TensorType:
    """How ggml stores a row: blocks of `block_values` values in `block_bytes` bytes each."""

    name: str
    block_values: int
    block_bytes: int


TENSOR_TYPES = {
    0: TensorType("F32", 1, 4),
    1: TensorType("F16", 1, 2),
    2: TensorType("Q4_0", 32, 2 + 16),
    3: TensorType("Q4_1", 32, 2 + 2 + 16),
    6: TensorType("Q5_0", 32, 2 + 4 + 16),
    7: TensorType("Q5_1", 32, 2 + 2 + 4 + 16),
    8: TensorType("Q8_0", 32, 2 + 32),
    12: TensorType("Q4_K", 256, 2 + 2 + 12 + 128),
    13: TensorType("Q5_K", 256, 2 + 2 + 12 + 32 + 128),
    14: TensorType("Q6_K", 256, 128 + 64 + 16 + 2),
    30: TensorType("BF16", 1, 2),
}

UNSUPPORTED_TENSOR_TYPES = {
    9: "Q8_1",
    10: "Q2_K",
    11: "Q3_K",
    15: "Q8_K",
    16: "IQ2_XXS",
    17: "IQ2_XS",
    18: "IQ3_XXS",
    19: "IQ1_S",
    20: "IQ4_NL",
    21: "IQ3_S",
    22: "IQ2_S",
    23: "IQ4_XS",
    24: "I8",
    25: "I16",
    26: "I32",
    27: "I64",
    28: "F64",
    29: "IQ1_M",
    34: "TQ1_0",
    35: "TQ2_0",
    39: "MXFP4",
    40: "NVFP4",
    41: "Q1_0",
}

# Metadata numbers as struct formats, without the byte order.
NUMBER_FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 10: "Q", 11: "q", 12: "d"}
BOOL, STRING, ARRAY = 7, 8, 9
