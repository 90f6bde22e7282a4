"""Conversations on disk: SQLite, one file. `Store` has every verb; the rest is how."""

from app.store.errors import StoreError
from app.store.store import Opened, Store, store_path

__all__ = ["Opened", "Store", "StoreError", "store_path"]
