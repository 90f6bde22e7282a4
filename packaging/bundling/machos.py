"""Mach-O files as far as a bundle's checks need them, read with macholib.

Format: <mach-o/loader.h> and <mach-o/fat.h>; versions are packed as 16 bits major, 8 minor, 8 patch.
"""

from dataclasses import dataclass
from pathlib import Path
from struct import error as StructError

from macholib import mach_o
from macholib.MachO import MachO, MachOHeader

ARM64 = 0x0100000C
MACOS = 1  # PLATFORM_MACOS
_MAGICS = (b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\xca\xfe\xba\xbf")
_MAX_SLICES = 16  # a Java class has the same magic, and its version where a fat file has their number
_LOADS = (mach_o.LC_LOAD_DYLIB, mach_o.LC_REEXPORT_DYLIB, mach_o.LC_LOAD_UPWARD_DYLIB, mach_o.LC_LAZY_LOAD_DYLIB)


class NotMachOError(Exception):
    """A file begins as a Mach-O does and cannot be read as one."""


@dataclass(frozen=True)
class Dependency:
    """name: as the file has it, "@rpath/..." say. weak: the file loads without it."""

    name: str
    weak: bool


@dataclass(frozen=True)
class Slice:
    """One processor's part of a Mach-O file.

    offset, size: of the slice in the file, bytes. minimum: the oldest system it runs on, None if it does not say.
    identity: a library's own name for itself.
    """

    cpu: int
    offset: int
    size: int
    minimum: tuple[int, int] | None
    platform: int | None
    identity: str | None
    dependencies: tuple[Dependency, ...]
    rpaths: tuple[str, ...]
    strings: tuple[int, int] | None

    @property
    def arm64(self) -> bool:
        return self.cpu == ARM64


def is_macho(path: Path) -> bool:
    """Whether a file begins as a Mach-O file does."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(8)
    if head[:4] in _MAGICS[2:]:
        return int.from_bytes(head[4:8], "big") <= _MAX_SLICES
    return head[:4] in _MAGICS


def slices(path: Path) -> list[Slice]:
    """Of a Mach-O file, one a processor. Raises NotMachOError."""
    try:
        return [_slice(header) for header in MachO(str(path)).headers]
    except (ValueError, StructError, OSError, KeyError) as error:
        raise NotMachOError(f"it begins as a Mach-O file and cannot be read as one ({error})") from error


def arm64_slice(path: Path) -> Slice | None:
    """The part that Apple Silicon runs, if there is one. Raises NotMachOError."""
    return next((part for part in slices(path) if part.arm64), None)


def symbols(path: Path, part: Slice) -> frozenset[bytes]:
    """The names in a slice's symbol table, defined there or not."""
    if part.strings is None:
        return frozenset()
    start, size = part.strings
    with path.open("rb") as file:
        file.seek(part.offset + start)
        return frozenset(file.read(size).split(b"\0"))


def _slice(header: MachOHeader) -> Slice:
    minimum = platform = identity = strings = None
    dependencies, rpaths = [], []
    for load, command, data in header.commands:
        if load.cmd == mach_o.LC_BUILD_VERSION:
            minimum, platform = _unpacked(int(command.minos)), int(command.platform)
        elif load.cmd == mach_o.LC_VERSION_MIN_MACOSX:
            minimum, platform = _unpacked(int(command.version)), MACOS
        elif load.cmd == mach_o.LC_ID_DYLIB:
            identity = _text(data)
        elif load.cmd in _LOADS or load.cmd == mach_o.LC_LOAD_WEAK_DYLIB:
            dependencies.append(Dependency(_text(data), load.cmd == mach_o.LC_LOAD_WEAK_DYLIB))
        elif load.cmd == mach_o.LC_RPATH:
            rpaths.append(_text(data))
        elif load.cmd == mach_o.LC_SYMTAB:
            strings = (int(command.stroff), int(command.strsize))
    cpu = int(header.header.cputype) & 0xFFFFFFFF
    where = (int(header.offset), int(header.size))
    return Slice(cpu, *where, minimum, platform, identity, tuple(dependencies), tuple(rpaths), strings)


def _unpacked(version: int) -> tuple[int, int]:
    return version >> 16, version >> 8 & 0xFF


def _text(data: bytes) -> str:
    """A load command's string: macholib hands over what follows the command's fixed part, padded with zeros."""
    return data.split(b"\0")[0].decode(errors="replace")
