"""`packaging/verify.py`: a small bundle is whole; broken in one way after the other, each is found and told."""

import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path

import apple_platform
import pytest
from bundling import checks, plists
from bundling.layout import LIBPYTHON, ROOT, Layout

from tests.packaging import toys
from tests.packaging.machofiles import ARM64, DYLIB, X86_64, Recipe, macho, universal

Break = Callable[[Layout], object]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toys.make_source(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, source: Path) -> Layout:
    return toys.make_bundle(tmp_path_factory.mktemp("whole"), source)


@pytest.fixture
def layout(tmp_path: Path, whole: Layout) -> Layout:
    """One to break."""
    return Layout(Path(shutil.copytree(whole.app, tmp_path / whole.app.name, symlinks=True)))


# --- ways to break one --------------------------------------------------------------------------


def mlx(layout: Layout) -> Path:
    return layout.site_packages / "mlx" / "lib" / "libmlx.dylib"


def core(layout: Layout) -> Path:
    return next((layout.site_packages / "mlx").glob("core.*.so"))


def rewrite(place: Callable[[Layout], Path], recipe: Recipe) -> Break:
    return lambda layout: place(layout).write_bytes(macho(recipe))


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def change_info(layout: Layout, **changes: object) -> None:
    properties = plists.info("1.2.3") | changes
    layout.info.write_bytes(plists.written({k: v for k, v in properties.items() if v is not None}))


def name_machine(layout: Layout) -> None:
    (layout.site_packages / "some" / "notes.txt").write_text(f"built in {toys.MACHINE}/redline by hand")


def link_out(layout: Layout) -> None:
    (layout.resources / "elsewhere").symlink_to("/usr/lib")


def ask_for(layout: Layout) -> None:
    wanted = layout.app.with_name("entitlements.plist")
    wanted.write_bytes(plistlib.dumps({"com.apple.security.cs.disable-library-validation": True}))
    signed = apple_platform.sign_macho_bytes(
        macho(toys.MLX), binary_identifier="libmlx", entitlements_xml_file=str(wanted)
    )
    mlx(layout).write_bytes(signed)


def look_at_source(layout: Layout) -> None:
    """Checked by the file's time: the flags of PEP 552 are zero."""
    compiled = next((layout.site_packages / "app" / "__pycache__").glob("*.pyc"))
    data = compiled.read_bytes()
    compiled.write_bytes(data[:4] + bytes(4) + data[8:])


def import_more(layout: Layout) -> None:
    (layout.site_packages / "app" / "__init__.py").write_text("def late():\n    import absent.one\n")


def own(layout: Layout, name: str = "engine/__init__.py") -> Path:
    return layout.site_packages / name


# What is done, the check that finds it, what is said. Then it is signed again, so that no other check has a reason.
RESIGNED: dict[str, tuple[Break, str, str]] = {
    "a library for Intel": (
        rewrite(core, replace(toys.CORE, cpu=X86_64)),
        "architecture",
        "has nothing for arm64",
    ),
    "no launcher": (lambda b: b.launcher.write_bytes(b"#!/bin/sh\n"), "architecture", "is missing or no program"),
    "a newer system": (rewrite(core, replace(toys.CORE, minimum=(15, 0))), "system", "wants macOS 15.0"),
    "no system named": (rewrite(core, replace(toys.CORE, minimum=None)), "system", "does not say which macOS"),
    "a library that is not there": (lambda b: mlx(b).unlink(), "libraries", "@rpath/libmlx.dylib, which is not in"),
    "a library beside that is not there": (
        rewrite(core, replace(toys.CORE, needs=("@loader_path/lib/libmlx.2.dylib",))),
        "libraries",
        "wants @loader_path/lib/libmlx.2.dylib",
    ),
    "a library of the building machine": (
        rewrite(core, replace(toys.CORE, needs=("/opt/homebrew/lib/libmlx.dylib",))),
        "libraries",
        "neither in the bundle nor the system's",
    ),
    "a search path outside": (
        rewrite(core, replace(toys.CORE, rpaths=("@loader_path/lib", "/opt/homebrew/lib"))),
        "libraries",
        "looks for libraries in /opt/homebrew/lib",
    ),
    "a search path twice": (
        rewrite(core, replace(toys.CORE, rpaths=("@loader_path/lib", "@loader_path/lib"))),
        "libraries",
        "twice",
    ),
    "a folder of the building machine": (name_machine, "machine", f"names {toys.MACHINE}"),
    "a link out of the bundle": (link_out, "machine", "is a link to /usr/lib"),
    "an entitlement": (ask_for, "signature", "disable-library-validation"),
    "a key of Info.plist": (lambda b: change_info(b, NSHighResolutionCapable=None), "info", "lacks NSHigh"),
    "another system in Info.plist": (lambda b: change_info(b, LSMinimumSystemVersion="15.0"), "info", "'15.0'"),
    "no version": (lambda b: change_info(b, CFBundleVersion=""), "info", "has '' for CFBundleVersion"),
    "no document types": (lambda b: change_info(b, CFBundleDocumentTypes=None), "info", "lacks CFBundleDocumentTypes"),
    "no icon": (lambda b: (b.resources / "Redline.icns").unlink(), "info", "names the icon Redline.icns"),
    "Info.plist no property list": (lambda b: b.info.write_bytes(b"bplist00 cut"), "info", "is no property list"),
    "a recorded module": (lambda b: own(b, "some/plain.pyc").unlink(), "modules", "is imported by the app"),
    "a recorded module of the library": (
        rewrite(lambda b: b.frameworks / LIBPYTHON["darwin"], replace(toys.LIBRARY, symbols=("_Py_RunMain",))),
        "modules",
        "time is imported by the app",
    ),
    "an import in the source": (import_more, "modules", "imports absent.one"),
    "another source": (lambda b: own(b).write_text("x = 1\n"), "modules", "is not the file of this repository"),
    "a source not compiled": (
        lambda b: shutil.rmtree(own(b).parent / "__pycache__"),
        "modules",
        "engine/__init__.py is not compiled",
    ),
    "bytecode that looks at its source": (look_at_source, "modules", "whose source is looked at"),
}
# Of these the signature is what breaks. On a Mac `codesign` finds more: files changed, added and gone.
UNSIGNED: dict[str, tuple[Break, str]] = {
    "a page of code": (lambda b: flip(mlx(b), 0x3FC4), "mismatch for entry 3"),
    "the last page": (lambda b: flip(b.frameworks / LIBPYTHON["darwin"], 0x4004), "mismatch for entry 4"),
    "a library not signed": (rewrite(mlx, toys.MLX), "signature data not found"),
}


def faults_of(layout: Layout, source: Path) -> tuple[set[str], str]:
    """The checks that fail, and all that they say."""
    bundle = toys.bundle(layout, source)
    found = {name: [f"{place} {what}" for place, what in check(bundle)] for name, check in checks.CHECKS.items()}
    return {name for name, faults in found.items() if faults}, "\n".join(chain.from_iterable(found.values()))


def test_a_whole_bundle_has_no_fault(whole: Layout, source: Path) -> None:
    assert faults_of(whole, source) == (set(), "")


@pytest.mark.parametrize("broken", RESIGNED)
def test_each_fault_is_found_by_its_check_and_by_no_other(layout: Layout, source: Path, broken: str) -> None:
    break_it, check, said = RESIGNED[broken]
    break_it(layout)
    if broken not in ("no launcher", "an entitlement", "Info.plist no property list"):
        toys.sign(layout)
    failed, told = faults_of(layout, source)
    assert failed == {check}, told
    assert said in told


@pytest.mark.parametrize("broken", UNSIGNED)
def test_what_changes_after_signing_is_found(layout: Layout, source: Path, broken: str) -> None:
    break_it, said = UNSIGNED[broken]
    break_it(layout)
    failed, told = faults_of(layout, source)
    assert "signature" in failed and said in told, told


def test_a_bundle_too_large_is_found_and_says_where_its_size_goes(layout: Layout) -> None:
    large = own(layout, "mlx/lib/mlx.metallib")
    large.touch()
    os.truncate(large, checks.LIMIT_BYTES)  # a hole: takes no disk
    told = [what for _, what in checks.size(toys.bundle(layout))]
    assert told and told[0].startswith("has 465 MB")
    assert next(iter(checks.bytes_by_part(layout))) == "mlx"
    os.truncate(large, checks.LIMIT_BYTES - 200_000)
    assert list(checks.size(toys.bundle(layout))) == []


def test_a_universal_file_is_checked_by_its_part_for_arm64(layout: Layout, source: Path) -> None:
    intel = macho(replace(toys.CORE, cpu=X86_64, minimum=(10, 15)))
    core(layout).write_bytes(universal(intel, macho(replace(toys.CORE, cpu=ARM64))))
    toys.sign(layout)
    assert faults_of(layout, source) == (set(), "")
    core(layout).write_bytes(universal(intel, macho(replace(toys.CORE, minimum=(26, 0)))))
    toys.sign(layout)
    assert faults_of(layout, source)[0] == {"system"}


def test_a_weak_dependency_need_not_be_there(layout: Layout, source: Path) -> None:
    core(layout).write_bytes(macho(replace(toys.CORE, weak=("@rpath/libabsent.dylib",))))
    toys.sign(layout)
    assert faults_of(layout, source) == (set(), "")


def test_what_only_begins_as_a_macho_file_is_told_and_a_java_class_is_not(layout: Layout, source: Path) -> None:
    own(layout, "some/Main.class").write_bytes(bytes.fromhex("cafebabe00000041") + bytes(40))
    toys.sign(layout)
    assert faults_of(layout, source) == (set(), "")
    own(layout, "some/cut.dylib").write_bytes(macho(Recipe(DYLIB))[:40])
    failed, told = faults_of(layout, source)
    assert "architecture" in failed and "cut.dylib it begins as a Mach-O file" in told


def verify(app: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "packaging" / "verify.py"), str(app), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_tells_faults_and_sizes_and_ends_with_the_right_code(layout: Layout, tmp_path: Path) -> None:
    record = tmp_path / "record"
    record.write_text("# a comment\n" + "\n".join(toys.RECORD))
    done = verify(layout.app, "--record", str(record), "--machine", toys.MACHINE)
    assert done.returncode == 1  # its own packages are not this repository's
    lines = {line.split()[1]: line.split()[0] for line in done.stdout.splitlines() if line[:4] in ("ok  ", "FAIL")}
    assert lines == {name: "FAIL" if name == "modules" else "ok" for name in checks.CHECKS}
    assert "MB of at most 465" in done.stdout and "4 Mach-O files" in done.stdout
    name_machine(layout)
    again = verify(layout.app, "--record", str(record), "--machine", toys.MACHINE).stdout
    assert "notes.txt names /builds/of/somebody" in again and "FAIL  machine" in again
    assert verify(tmp_path).returncode == 2


def test_the_list_of_faults_is_of_every_check() -> None:
    assert {check for _, check, _ in RESIGNED.values()} | {"size"} == set(checks.CHECKS)
