"""How the weights of an imported model are stored: the options of `redline models import` and `convert`."""

from dataclasses import dataclass
from typing import Literal

from engine.errors import UsageError

BITS = (2, 3, 4, 5, 6, 8)  # widths that MLX quantizes to
GROUP_SIZES = (32, 64, 128)
FLOAT_TYPES = ("float16", "bfloat16", "float32")


@dataclass(frozen=True)
class StorageOptions:
    """Checked once, here. Raises UsageError for a value that MLX does not have.

    bits: None keeps what the source has, as far as MLX can; 16 stores plain floats; 2 to 8 quantizes every matrix
    again. group: columns that share a scale and a bias. dtype: of scales, vectors and plain matrices; None chooses.
    """

    bits: int | None = None
    group: int = 64
    dtype: Literal["float16", "bfloat16", "float32"] | None = None

    def __post_init__(self) -> None:
        if self.bits not in (None, 16, *BITS):
            raise UsageError(f"bits is {self.bits}: choose one of {', '.join(map(str, (*BITS, 16)))}")
        if self.group not in GROUP_SIZES:
            raise UsageError(f"the group size is {self.group}: choose one of {', '.join(map(str, GROUP_SIZES))}")
        if self.dtype not in (None, *FLOAT_TYPES):
            raise UsageError(f"dtype is {self.dtype!r}: choose one of {', '.join(FLOAT_TYPES)}")

    @property
    def quantizes(self) -> bool:
        """Whether every matrix is quantized again."""
        return self.bits not in (None, 16)
