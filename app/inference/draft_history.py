"""Earlier replies as prompt lookup drafts from them: the index of the files of one tokenizer, kept up to date."""

from __future__ import annotations

from array import array
from pathlib import Path

from app.reply_history import ReplyHistory
from engine.drafters.prompt_lookup import HISTORY_SHORTEST
from engine.drafters.suffix_index import END, SuffixIndex


class DraftHistory:
    """What is in a folder of `app.reply_history`, for one vocabulary: its digest, and how many tokens it has."""

    def __init__(self, vocabulary: str, size: int) -> None:
        self._vocabulary, self._size = vocabulary, size
        self._state: object = None
        self._known: dict[tuple[int, int], array[int]] = {}
        self._index = SuffixIndex(HISTORY_SHORTEST)

    def index(self, folder: Path) -> SuffixIndex:
        """Returns the index of all replies in the folder as it is now. One that has gone is searched no more."""
        files = ReplyHistory(folder)
        state = folder, files.state(self._vocabulary)
        if state != self._state:
            self._state, replies = state, files.read(self._vocabulary)
            if any(replies.get(key) != ids for key, ids in self._known.items()):
                self._known, self._index = {}, SuffixIndex(HISTORY_SHORTEST)
            self._add(
                {
                    key: ids
                    for key, ids in replies.items()
                    if key not in self._known and max(ids, default=0) < self._size
                }
            )
        return self._index

    def _add(self, replies: dict[tuple[int, int], array[int]]) -> None:
        text = array("i")
        for ids in replies.values():
            text.extend([*ids, END])
        self._index.extend(text)
        self._known.update(replies)
