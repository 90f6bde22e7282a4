"""Conversations on disk: SQLite, one file. `Store` has every verb; the other modules are how it is done."""

from app.store.conversation_store import OpenResult, Store, store_path
from app.store.database import StoreError

__all__ = ["OpenResult", "Store", "StoreError", "store_path"]
