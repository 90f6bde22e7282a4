"""Every check of a bundle, by name, and the faults that it finds: pairs of a place in the bundle and what is wrong
there, which continues the sentence that begins with the place. See the README's section on the app.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

import apple_platform

from bundling import imports, leaks, plists
from bundling.layout import MINIMUM_SYSTEM, OWN_PACKAGES, ROOT, Layout, dotted
from bundling.links import foreign_rpaths, unresolved
from bundling.machos import MACOS, NotMachOError, Slice, is_macho, slices
from bundling.tools import BuildError, run
from bundling.trim import left_out

LIMIT_BYTES = 465 * 10**6  # 450 before structured output, whose library has 8, and KaTeX, whose engine, QtQml, has 6
_SMALL_BYTES = 5 * 10**6
_NO_CERTIFICATE = "CMS error: missing further values"  # what apple-platform-rs says of every signature made ad hoc


class Bundle:
    """A bundle as the checks see it. record: modules that must be there. machine: paths that must not."""

    def __init__(self, app: Path, record: list[str], machine: list[str], source: Path | None = ROOT) -> None:
        self.layout, self.record, self.machine, self.source = Layout(app), record, machine, source

    @cached_property
    def machos(self) -> dict[Path, list[Slice] | NotMachOError]:
        """Every Mach-O file, parsed, or why it is none."""
        return {path: _parsed(path) for path in self.layout.files() if is_macho(path)}

    def arm64(self) -> Iterator[tuple[Path, Slice]]:
        """The part of each file that is run."""
        for path, parts in self.machos.items():
            if not isinstance(parts, NotMachOError):
                yield from ((path, part) for part in parts if part.arm64)

    @property
    def launcher_rpaths(self) -> tuple[str, ...]:
        return next((part.rpaths for path, part in self.arm64() if path == self.layout.launcher), ())


def _parsed(path: Path) -> list[Slice] | NotMachOError:
    try:
        return slices(path)
    except NotMachOError as error:
        return error


def architecture(bundle: Bundle) -> Iterator[tuple[str, str]]:
    """Every Mach-O file is for Apple Silicon, or has a part that is; the launcher is there."""
    for path, parts in bundle.machos.items():
        place = bundle.layout.name_of(path)
        if isinstance(parts, NotMachOError):
            yield place, str(parts)
        elif not any(part.arm64 for part in parts):
            yield place, "has nothing for arm64"
    if bundle.layout.launcher not in bundle.machos:
        yield bundle.layout.name_of(bundle.layout.launcher), "is missing or no program: the app cannot start"


def system(bundle: Bundle) -> Iterator[tuple[str, str]]:
    """No file wants a newer system than the app promises. What a wheel's tag says is not looked at: it may lie."""
    for path, part in bundle.arm64():
        place = bundle.layout.name_of(path)
        if part.minimum is None or part.platform != MACOS:
            yield place, "does not say which macOS it runs on"
        elif part.minimum > MINIMUM_SYSTEM:
            yield place, f"wants macOS {dotted(part.minimum)}, and the app promises {dotted(MINIMUM_SYSTEM)}"


def libraries(bundle: Bundle) -> Iterator[tuple[str, str]]:
    """Whatever a file links against is in the bundle or the system's, and no search path leads elsewhere."""
    rpaths = bundle.launcher_rpaths
    for path, part in bundle.arm64():
        place = bundle.layout.name_of(path)
        for what in unresolved(path, part, bundle.layout.app, bundle.layout.launcher, rpaths):
            yield place, what
        for rpath in foreign_rpaths(part):
            yield place, f"looks for libraries in {rpath}, outside the bundle"
        doubled = sorted({rpath for rpath in part.rpaths if part.rpaths.count(rpath) > 1})
        for rpath in doubled:
            yield place, f"lists the search path {rpath} twice, which macOS 15.4 and later refuse"


def machine(bundle: Bundle) -> Iterator[tuple[str, str]]:
    """No file names a folder of the machine that built it."""
    yield from leaks.leaks(bundle.layout, bundle.machine)


def signature(bundle: Bundle) -> Iterator[tuple[str, str]]:
    """Every Mach-O file is what was signed, page by page, and asks the hardened runtime for nothing; on a Mac, every
    other file too is what was signed.

    No entitlement is needed: MLX has its kernels compiled by the system's own process, nothing here writes code into
    memory (libffi has its closures' code on disk on arm64), and all libraries are signed by whoever signs the app.
    """
    for path, _ in bundle.arm64():
        place = bundle.layout.name_of(path)
        problems = [str(problem["description"]) for problem in apple_platform.verify_macho(path)]
        yield from ((place, f"is not as it was signed: {what}") for what in problems if _NO_CERTIFICATE not in what)
        if not any("signature data not found" in what for what in problems):
            asked = apple_platform.reading.find_values(apple_platform.read_signature(path), "entitlements_plist")
            yield from ((place, f"asks for entitlements, and needs none: {' '.join(lines)}") for lines in asked)
    if sys.platform == "darwin":
        try:
            run("/usr/bin/codesign", "--verify", "--deep", "--strict", bundle.layout.app)
        except BuildError as error:
            yield bundle.layout.app.name, f"is not as it was signed: {error}"


def info(bundle: Bundle) -> Iterator[tuple[str, str]]:
    """Info.plist is complete, and what it names is there."""
    yield from (("Contents/Info.plist", what) for what in plists.faults(bundle.layout.info))


def modules(bundle: Bundle) -> Iterator[tuple[str, str]]:
    """Every module of a recorded run is there; Redline's own files are all there; all is compiled, once and for all."""
    yield from (
        (name, "is imported by the app and not in the bundle") for name in imports.missing(bundle.layout, bundle.record)
    )
    for source, name in imports.wanted_by_source(bundle.layout):
        yield bundle.layout.name_of(source), f"imports {name}, which is not in the bundle"
    yield from ((name, "is not compiled") for name in imports.uncompiled(bundle.layout))
    if bundle.source is not None:
        yield from ((name, "is not the file of this repository") for name in _other_than(bundle, bundle.source))


def _other_than(bundle: Bundle, source: Path) -> Iterator[str]:
    """Files of Redline's own packages that are not in the bundle as they are in `source`, save what is trimmed."""
    for package in OWN_PACKAGES:
        for file in sorted((source / package).rglob("*")):
            name = file.relative_to(source)
            if not file.is_file() or "__pycache__" in name.parts or left_out(name.as_posix()):
                continue
            copy = bundle.layout.site_packages / name
            if not copy.is_file() or copy.read_bytes() != file.read_bytes():
                yield bundle.layout.name_of(copy)


def size(bundle: Bundle) -> Iterator[tuple[str, str]]:
    """The bundle is no larger than what was promised."""
    total = sum(bytes_by_part(bundle.layout).values())
    if total > LIMIT_BYTES:
        yield bundle.layout.app.name, f"has {total / 1e6:.0f} MB, {(total - LIMIT_BYTES) / 1e6:.0f} more than it may"


def bytes_by_part(layout: Layout) -> dict[str, int]:
    """Bytes by part, largest first: the packages of site-packages, Redline's own folders, the rest of Python, and what
    is left. Small parts are counted together."""
    counted: Counter[str] = Counter()
    for file in layout.files():
        if not file.is_symlink():
            counted[_part(layout, file)] += file.stat().st_size
    small = {part: size for part, size in counted.items() if size < _SMALL_BYTES}
    large = [(part, size) for part, size in counted.most_common() if part not in small]
    return dict(large) | ({f"{len(small)} smaller parts": sum(small.values())} if small else {})


def _part(layout: Layout, file: Path) -> str:
    if layout.site_packages in file.parents:
        first, *rest = file.relative_to(layout.site_packages).parts
        return f"{first}/{rest[0]}" if first == "resources" and len(rest) > 1 else first
    if layout.python in file.parents or layout.frameworks in file.parents:
        return "Python"
    return "launcher, icons, licences, signature"


CHECKS: Mapping[str, Callable[[Bundle], Iterator[tuple[str, str]]]] = {
    "architecture": architecture,
    "system": system,
    "libraries": libraries,
    "machine": machine,
    "signature": signature,
    "info": info,
    "modules": modules,
    "size": size,
}
