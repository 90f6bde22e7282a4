"""Mach-O files of a few hundred bytes, as far as loaders and signers look at them. Nothing in them can run.

Format: <mach-o/loader.h>; all numbers little-endian. A header, load commands, a page of "code", a symbol table.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

ARM64, X86_64 = 0x0100000C, 0x01000007
EXECUTE, DYLIB = 2, 6
PAGE = 0x4000
_LC_SYMTAB, _LC_LOAD_DYLIB, _LC_ID_DYLIB, _LC_SEGMENT_64 = 0x2, 0xC, 0xD, 0x19
_LC_LOAD_WEAK_DYLIB, _LC_RPATH, _LC_BUILD_VERSION = 0x80000018, 0x8000001C, 0x32
_MACOS = 1
_CODE = bytes(range(64))
SYSTEM_LIBRARY = "/usr/lib/libSystem.B.dylib"


@dataclass(frozen=True)
class Recipe:
    """kind: EXECUTE or DYLIB. identity: a library's own name. needs, weak: libraries by name. symbols: names defined.
    minimum: the oldest macOS, None to say nothing of it. code: of the text page."""

    kind: int = DYLIB
    cpu: int = ARM64
    identity: str = ""
    needs: Sequence[str] = ()
    weak: Sequence[str] = ()
    rpaths: Sequence[str] = ()
    symbols: Sequence[str] = ()
    minimum: tuple[int, int] | None = (14, 0)
    code: bytes = field(default=b"")


def macho(recipe: Recipe) -> bytes:
    """The file, unsigned, with room in its header for one more load command."""
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in recipe.symbols)
    strings = strings.ljust(-(-len(strings) // 16) * 16, b"\0")
    code = recipe.code or _CODE
    commands = [
        _segment(b"__TEXT", 0, PAGE, 5, _section(b"__text", b"__TEXT", PAGE - len(code), len(code))),
        _segment(b"__LINKEDIT", PAGE, len(strings), 1),
        struct.pack("<6I", _LC_SYMTAB, 24, PAGE, 0, PAGE, len(strings)),
    ]
    if recipe.identity:
        commands.append(_library(_LC_ID_DYLIB, recipe.identity))
    if recipe.minimum is not None:
        major, minor = recipe.minimum
        version = major << 16 | minor << 8
        commands.append(struct.pack("<6I", _LC_BUILD_VERSION, 24, _MACOS, version, version, 0))
    commands += [_library(_LC_LOAD_DYLIB, name) for name in (*recipe.needs, SYSTEM_LIBRARY)]
    commands += [_library(_LC_LOAD_WEAK_DYLIB, name) for name in recipe.weak]
    commands += [_with_text(_LC_RPATH, b"", rpath) for rpath in recipe.rpaths]
    body = b"".join(commands)
    head = struct.pack("<8I", 0xFEEDFACF, recipe.cpu, 0, recipe.kind, len(commands), len(body), 0x85, 0)
    return (head + body).ljust(PAGE - len(code), b"\0") + code + strings


def universal(*slices: bytes) -> bytes:
    """A fat file. Its own numbers are big-endian (<mach-o/fat.h>)."""
    head, data = struct.pack(">2I", 0xCAFEBABE, len(slices)), b""
    for part in slices:
        offset = PAGE + len(data)
        cpu = struct.unpack_from("<I", part, 4)[0]
        head += struct.pack(">5I", cpu, 0, offset, len(part), 14)
        data += part.ljust(-(-len(part) // PAGE) * PAGE, b"\0")
    return head.ljust(PAGE, b"\0") + data


def _segment(name: bytes, start: int, size: int, protection: int, section: bytes = b"") -> bytes:
    room = -(-size // PAGE) * PAGE
    head = struct.pack("<2I16s4Q", _LC_SEGMENT_64, 72 + len(section), name, start, room, start, size)
    return head + struct.pack("<4I", protection, protection, 1 if section else 0, 0) + section


def _section(name: bytes, segment: bytes, start: int, size: int) -> bytes:
    return struct.pack("<16s16s2Q8I", name, segment, start, size, start, 2, 0, 0, 0x80000400, 0, 0, 0)


def _library(kind: int, name: str) -> bytes:
    return _with_text(kind, struct.pack("<3I", 2, 0x10000, 0x10000), name)


def _with_text(kind: int, fixed: bytes, text: str) -> bytes:
    """A command that ends in a string: its offset comes before the fixed rest."""
    offset = 12 + len(fixed)
    data = text.encode() + b"\0"
    size = -(-(offset + len(data)) // 8) * 8
    return (struct.pack("<3I", kind, size, offset) + fixed + data).ljust(size, b"\0")
