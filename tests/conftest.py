"""Readies the backend before anything imports MLX."""

import engine  # noqa: F401
