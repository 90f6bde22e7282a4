"""The seal of a bundle's resources: `_CodeSignature/CodeResources`, which has the hash of every file that is no code.

Its `files2` is what today's systems read: by path below Contents, a hash of the contents, the target of a link, or, of
code in Frameworks, the hash of its CodeDirectory. A file that is not listed breaks the signature as a changed one does.
"""

from __future__ import annotations

import hashlib
import plistlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bundling.layout import Layout
from bundling.machos import NotMachOError, arm64_slice
from bundling.signatures import INFO_SLOT, RESOURCES_SLOT, BadSignatureError, fits, read

_RESOURCES = "_CodeSignature/CodeResources"
_TICKET = "CodeResources"  # what `stapler` adds, after signing


def broken(layout: Layout) -> Iterator[tuple[str, str]]:
    """(place, what): files whose contents are not what was signed, are missing, or came later."""
    seal = layout.contents / _RESOURCES
    if not seal.is_file():
        yield _RESOURCES, "is missing: the bundle is not signed as one"
        return
    yield from _launcher(layout, seal.read_bytes())
    listed: Mapping[str, Any] = plistlib.loads(seal.read_bytes()).get("files2", {})
    omitted = {"Info.plist", "PkgInfo", _RESOURCES, _TICKET, layout.launcher.relative_to(layout.contents).as_posix()}
    present = {path.relative_to(layout.contents).as_posix(): path for path in layout.files()}
    for name in sorted(present.keys() - listed.keys() - omitted):
        yield name, "is not in the bundle's signature"
    for name, entry in sorted(listed.items()):
        if name not in present:
            if not (isinstance(entry, dict) and entry.get("optional")):
                yield name, "is in the bundle's signature and not in the bundle"
        elif not _sealed(present[name], entry):
            yield name, "was changed after the bundle was signed"


def _launcher(layout: Layout, seal: bytes) -> Iterator[tuple[str, str]]:
    """The launcher's signature is the bundle's: it holds the hashes of the seal and of Info.plist."""
    part = arm64_slice(layout.launcher)
    try:
        signature = read(layout.launcher, part) if part else None
    except BadSignatureError:
        return  # reported with every file's signature
    if signature is None:
        return
    for slot, name, data in ((RESOURCES_SLOT, _RESOURCES, seal), (INFO_SLOT, "Info.plist", layout.info.read_bytes())):
        if not fits(signature, slot, data):
            yield name, "is not what the launcher was signed with"


def _sealed(path: Path, entry: Any) -> bool:
    if isinstance(entry, bytes):
        return hashlib.sha1(path.read_bytes()).digest() == entry
    if "symlink" in entry:
        return path.is_symlink() and str(path.readlink()) == entry["symlink"]
    if path.is_symlink():
        return False
    if "cdhash" in entry:
        return bytes(entry["cdhash"]) in _cdhashes(path)
    return hashlib.sha256(path.read_bytes()).digest() == entry.get("hash2")


def _cdhashes(path: Path) -> list[bytes]:
    try:
        part = arm64_slice(path)
        return [directory.cdhash for directory in read(path, part).directories] if part else []
    except (NotMachOError, BadSignatureError):
        return []
