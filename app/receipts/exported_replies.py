"""The replies of exported conversations, the results of checking them, and receipts written back into the files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from app.protocol import Pair, Verify
from app.store import StoreError
from app.store.json_export import Document, MessageDocument, read_document
from app.store.records import StoredReceipt, verify_request
from engine.errors import RedlineError, UsageError
from models.durable_files import disk_errors, replace_file


class WriteError(RedlineError):
    """The receipts could not be saved."""


@dataclass(frozen=True)
class Export:
    """An exported conversation as it was read."""

    path: Path
    data: bytes
    document: Document


@dataclass(frozen=True)
class Case:
    """A reply to be checked. place: its index among the messages of its document."""

    export: Export
    place: int

    @property
    def message(self) -> MessageDocument:
        return self.export.document.messages[self.place]

    @property
    def number(self) -> int:
        """The number of the message, from 1."""
        return self.place + 1

    @property
    def tokens(self) -> int:
        return sum(len(done.round.tokens) for done in self.message.rounds)

    @property
    def pair(self) -> Pair:
        """The models that the reply was made with."""
        return self.message.pair or self.export.document.settings.pair

    @property
    def obstacle(self) -> str:
        """Why the reply cannot be checked, or ""."""
        if not self.message.rounds:
            return "its tokens are not in the file"
        return "" if self.message.sampling is not None else "its sampling settings are not in the file"

    def request(self) -> Verify:
        """Returns the request that has the reply checked from what is in the file."""
        messages, branch = self.export.document.messages, [self.place]
        while (parent := messages[branch[-1]].parent) is not None:
            branch.append(parent)
        turns = [messages[place] for place in reversed(branch)]
        return verify_request(self.number, self.export.document.settings.system, turns, self.message.rounds)


@dataclass(frozen=True)
class Result:
    """The result of a case: a receipt, or why there is none."""

    case: Case
    kept: StoredReceipt | None = None
    error: str = ""

    @property
    def sound(self) -> bool:
        """Whether the reply was checked and differs at most by rounding."""
        return self.kept is not None and self.kept.receipt.verdict != "failure"


def read_export(path: Path) -> Export:
    """Reads a file. Raises UsageError if it cannot be read, StoreError if it is not a conversation."""
    try:
        data = path.read_bytes()
        text = data.decode()
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}): give a conversation exported as JSON") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not text: give a conversation exported as JSON") from error
    try:
        document = read_document(text)
    except StoreError as error:
        raise StoreError(f"{path}: {error}") from error
    return Export(path, data, document)


def chosen(exports: Sequence[Export], number: int | None) -> list[Case]:
    """Returns every reply, or the one with this number. Raises UsageError if there is none."""
    cases = [
        Case(export, place)
        for export in exports
        for place, message in enumerate(export.document.messages)
        if message.role == "assistant" and number in (None, place + 1)
    ]
    if not cases:
        names = ", ".join(export.path.name for export in exports)
        why = "it has no replies" if number is None else f"its message {number} is not a reply"
        raise UsageError(f"{names}: there is nothing to verify, as {why}")
    return cases


def write_receipts(export: Export, results: Sequence[Result]) -> int:
    """Writes the receipts of one export into its file, and returns how many. All else in the file stays, unknown fields
    included. Raises WriteError if the file cannot be written or has changed."""
    found = {result.case.place: result.kept for result in results if result.case.export is export and result.kept}
    if not found:
        return 0
    document = msgspec.json.decode(export.data)
    for place, kept in found.items():
        document["messages"][place]["receipt"] = msgspec.to_builtins(kept)
    path = export.path.resolve()
    with disk_errors(lambda why: WriteError(f"{export.path} cannot be written ({why}): copy it to another folder")):
        if path.read_bytes() != export.data:
            raise WriteError(f"{export.path} has changed while it was verified, and is left as it is: verify it again")
        replace_file(path, msgspec.json.encode(document))
    return len(found)
