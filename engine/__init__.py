"""Exact speculative decoding: token ids in, events out. Knows no Qt, no disk, no network.

Importing this package prepares the backend before MLX is first imported (see `backend`).
"""

from engine import backend as backend

backend.prepare()
