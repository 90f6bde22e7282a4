"""A Mach-O file's embedded signature, as far as a file can be checked without Apple's certificates.

Format: xnu's `osfmk/kern/cs_blobs.h`, all of it big-endian. A SuperBlob holds blobs by slot; its CodeDirectories hold
a hash for every page of the file up to the signature, and, in special slots, of the other blobs and two files.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bundling.machos import Slice

SUPERBLOB, CODE_DIRECTORY, ENTITLEMENTS = 0xFADE0CC0, 0xFADE0C02, 0xFADE7171
_HASHES = {1: ("sha1", 20), 2: ("sha256", 32), 3: ("sha256", 20), 4: ("sha384", 48)}
_STRONG = (2, 4)
INFO_SLOT, REQUIREMENTS_SLOT, RESOURCES_SLOT, ENTITLEMENTS_SLOT = 1, 2, 3, 5
_HEAD = struct.Struct(">IIIIIIIIIBBBB")


class BadSignatureError(Exception):
    """A signature is missing, cannot be read, or does not fit the file."""


@dataclass(frozen=True)
class CodeDirectory:
    """limit: bytes of the file that are hashed. special: by slot, 1 up; code: by page. cdhash: what a bundle knows the
    file by."""

    flags: int
    limit: int
    page_bytes: int
    hash_type: int
    special: dict[int, bytes]
    code: tuple[bytes, ...]
    cdhash: bytes

    def hash_of(self, data: bytes) -> bytes:
        name, size = _HASHES[self.hash_type]
        return hashlib.new(name, data).digest()[:size]


@dataclass(frozen=True)
class Signature:
    """blobs: by slot, as they stand in the file."""

    directories: tuple[CodeDirectory, ...]
    blobs: dict[int, bytes]

    @property
    def entitlements(self) -> bytes | None:
        """The property list, if there is one."""
        blob = self.blobs.get(ENTITLEMENTS_SLOT)
        return None if blob is None else blob[8:]


def read(path: Path, part: Slice) -> Signature:
    """Raises BadSignatureError."""
    if part.signature is None:
        raise BadSignatureError("is not signed, and Apple Silicon runs nothing unsigned")
    start, size = part.signature
    with path.open("rb") as file:
        file.seek(part.offset + start)
        data = file.read(size)
    try:
        return _read(data)
    except (struct.error, IndexError, KeyError) as error:
        raise BadSignatureError(f"has a signature that cannot be read ({error})") from error


def check(path: Path, part: Slice) -> Signature:
    """The signature of a slice, whose pages are what was signed. Raises BadSignatureError."""
    signature = read(path, part)
    assert part.signature is not None
    with path.open("rb") as file:
        file.seek(part.offset)
        code = file.read(part.signature[0])
    for directory in signature.directories:
        if directory.limit != len(code):
            raise BadSignatureError(f"is signed up to byte {directory.limit}, and its code ends at {len(code)}")
        wrong = [page for page, fits in enumerate(_pages(directory, code)) if not fits]
        if wrong:
            count = len(directory.code)
            raise BadSignatureError(f"was changed after it was signed: page {wrong[0]} of {count} has another hash")
        for slot, blob in signature.blobs.items():
            if slot < 0x1000 and slot != 0 and directory.special.get(slot) != directory.hash_of(blob):
                raise BadSignatureError(f"has a signature whose part {slot} does not fit")
    return signature


def fits(signature: Signature, slot: int, data: bytes) -> bool:
    """Whether `data` is what was signed as the file of a special slot, INFO_SLOT say."""
    return all(directory.special.get(slot) == directory.hash_of(data) for directory in signature.directories)


def _pages(directory: CodeDirectory, code: bytes) -> Iterator[bool]:
    size = directory.page_bytes
    if len(directory.code) != -(-len(code) // size):
        raise BadSignatureError(f"has {len(directory.code)} signed pages for {len(code)} bytes")
    for page, expected in enumerate(directory.code):
        yield directory.hash_of(code[page * size : (page + 1) * size]) == expected


def _read(data: bytes) -> Signature:
    magic, _, count = struct.unpack_from(">III", data)
    if magic != SUPERBLOB:
        raise BadSignatureError("has no signature where it says that one is")
    directories, blobs = [], {}
    for place in range(count):
        slot, offset = struct.unpack_from(">II", data, 12 + 8 * place)
        kind, length = struct.unpack_from(">II", data, offset)
        blob = data[offset : offset + length]
        if len(blob) != length:
            raise BadSignatureError("has a signature that is cut short")
        if kind == CODE_DIRECTORY:
            directories.append(_directory(blob))
        else:
            blobs[slot] = blob
    if not any(directory.hash_type in _STRONG for directory in directories):
        raise BadSignatureError("has no hashes that today's systems accept")
    return Signature(tuple(directories), blobs)


def _directory(blob: bytes) -> CodeDirectory:
    head = _HEAD.unpack_from(blob)
    flags, hashes, specials, codes, limit, size, kind, page_bits = (head[i] for i in (3, 4, 6, 7, 8, 9, 10, 12))
    if (kind not in _HASHES) or size != _HASHES[kind][1] or not page_bits:
        raise BadSignatureError(f"is hashed in a way that is not known ({kind})")
    special = {slot: blob[hashes - slot * size :][:size] for slot in range(1, specials + 1)}
    code = tuple(blob[hashes + page * size :][:size] for page in range(codes))
    cdhash = hashlib.new(_HASHES[kind][0], blob).digest()[:20]
    return CodeDirectory(flags, limit, 1 << page_bits, kind, special, code, cdhash)
