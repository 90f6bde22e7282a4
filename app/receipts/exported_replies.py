"""The replies of exported conversations, and what came of checking each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.protocol import Pair, Verify
from app.store import StoreError
from app.store.json_export import Document, MessageDocument, read_document
from app.store.records import MessageBody, MessageRecord, StoredReceipt, verify_request
from engine.errors import UsageError


@dataclass(frozen=True)
class Export:
    """A file as it was read."""

    path: Path
    data: bytes
    document: Document


@dataclass(frozen=True)
class Case:
    """A reply to be checked. place: among the messages of its document, from 0."""

    export: Export
    place: int

    @property
    def message(self) -> MessageDocument:
        return self.export.document.messages[self.place]

    @property
    def number(self) -> int:
        """For people, from 1."""
        return self.place + 1

    @property
    def tokens(self) -> int:
        return sum(len(done.round.tokens) for done in self.message.rounds)

    @property
    def pair(self) -> Pair:
        """What it was made with."""
        return self.message.pair or self.export.document.settings.pair

    @property
    def unknown(self) -> str:
        """Why nobody can check it, or ""."""
        if not self.message.rounds:
            return "its tokens are not in the file"
        return "" if self.message.sampling is not None else "how it was drawn is not in the file"

    def request(self) -> Verify:
        """To have it checked from what is in the file."""
        messages, way = self.export.document.messages, [self.place]
        while (parent := messages[way[-1]].parent) is not None:
            way.append(parent)
        records = [_record(place, messages[place]) for place in reversed(way)]
        return verify_request(self.number, self.export.document.settings.system, records, self.message.rounds)


@dataclass(frozen=True)
class Result:
    """What came of a case: a receipt, or why there is none."""

    case: Case
    kept: StoredReceipt | None = None
    error: str = ""

    @property
    def sound(self) -> bool:
        """Whether it was checked, and nothing is wrong with it but rounding."""
        return self.kept is not None and self.kept.receipt.verdict != "failure"


def read_export(path: Path) -> Export:
    """Raises UsageError for a file that cannot be read, StoreError for one that is no conversation."""
    try:
        data = path.read_bytes()
        text = data.decode()
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}): give a conversation exported as JSON") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no text: give a conversation exported as JSON") from error
    try:
        document = read_document(text)
    except StoreError as error:
        raise StoreError(f"{path}: {error}") from error
    return Export(path, data, document)


def chosen(exports: Sequence[Export], number: int | None) -> list[Case]:
    """Every reply, or the one of this number. Raises UsageError where there is none."""
    cases = [
        Case(export, place)
        for export in exports
        for place, message in enumerate(export.document.messages)
        if message.role == "assistant" and number in (None, place + 1)
    ]
    if not cases:
        names = ", ".join(export.path.name for export in exports)
        wanted = "there is no reply in it" if number is None else f"its message {number} is no reply"
        raise UsageError(f"{names}: {wanted}, so there is nothing to verify")
    return cases


def _record(place: int, message: MessageDocument) -> MessageRecord:
    body = {name: getattr(message, name) for name in MessageBody.__struct_fields__}
    parent = None if message.parent is None else message.parent + 1
    return MessageRecord(id=place + 1, conversation=0, parent=parent, **body)
