"""Imports the libraries that take long, in an order that the engine allows: its BLAS before MLX. No thread starts, so
the process may fork."""

import engine  # noqa: F401, I001  before MLX

import huggingface_hub  # noqa: F401
import hypothesis  # noqa: F401
import mlx.nn  # noqa: F401
import mlx_lm.utils  # noqa: F401
import numpy  # noqa: F401
import PySide6.QtNetwork
import PySide6.QtSvg
import PySide6.QtWidgets  # noqa: F401
import pytest  # noqa: F401
import rich  # noqa: F401
import tokenizers  # noqa: F401
import transformers  # noqa: F401
