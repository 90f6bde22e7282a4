"""What goes into a bundle and what does not: trimming, licences, mending of Mach-O files, bytecode, icons, images."""

import json
import re
import shutil
import struct
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from bundling import (
    binary_patches,
    bytecode,
    code_signing,
    icons,
    image,
    imports,
    leaks,
    licences,
    trim,
    wheels,
)
from bundling.layout import NAME, ROOT, Layout
from bundling.machos import slices
from bundling.tools import BuildError
from PIL import Image

from tests.packaging import toys
from tests.packaging.machofiles import ARM64, X86_64, macho, universal
from tests.toys.pdf_files import pdf, protected, written


@pytest.fixture
def bundle(tmp_path: Path) -> Layout:
    return toys.make_bundle(tmp_path, toys.make_source(tmp_path / "source"))


def fill(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


def files_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


# --- trimming -----------------------------------------------------------------------------------


def test_what_the_list_names_goes_and_what_it_keeps_stays(layout: Layout) -> None:
    qt, models = "PySide6/Qt/lib/QtGui.framework/Versions/A/QtGui", "transformers/models"
    kept = {
        *("PySide6/__init__.py", "PySide6/QtGui.abi3.so", qt, "PySide6/Qt/plugins/platforms/libqcocoa.dylib"),
        *(f"{models}/__init__.py", f"{models}/auto/auto_factory.py", "mlx_lm/models/llama.py", "mlx/lib/mlx.metallib"),
        *(f"{models}/encoder_decoder/configuration_encoder_decoder.py", "resources/prompts/a.json"),
        "resources/drafters/eagle3/model.safetensors",
    }
    gone = {
        *("PySide6/QtQuick.abi3.so", "PySide6/translations/qt_de.qm", "PySide6/Qt/qml/a/b.dylib", "mlx/include/mlx.h"),
        *(f"{models}/llama/modeling_llama.py", f"{models}/vit/configuration_vit.py", "numpy/a/tests/test_a.py"),
        *(f"{models}/bert/tokenization_bert.py", "mlx_lm/server.py", "mlx_lm/tool_parsers/glm47.py"),
        *("matplotlib/pyplot.py", "resources/drafters/draft/model.safetensors", "hf_xet/hf_xet.abi3.so"),
    }
    fill(layout.site_packages, *kept, *gone)
    taken = trim.trim(layout)
    assert files_in(layout.site_packages) == kept
    assert sum(taken.values()) == sum(map(len, gone)) and all(len(why) > 10 for why in taken)
    assert not (layout.site_packages / "PySide6" / "Qt" / "qml").exists()


def test_a_package_of_which_nothing_stays_loses_its_metadata(layout: Layout) -> None:
    fill(layout.site_packages, "hf_xet/hf_xet.abi3.so", "rich/__init__.py")
    for name, files in {"hf_xet": "hf_xet/hf_xet.abi3.so,,\n../../bin/a,,\n", "rich": "rich/__init__.py,,\n"}.items():
        info = layout.site_packages / f"{name}-1.dist-info"
        fill(info, "METADATA", "entry_points.txt", "licenses/LICENSE")
        (info / "RECORD").write_text(f"{files}{info.name}/METADATA,,\n")
    trim.trim(layout)
    trim.trim_metadata(layout)
    assert files_in(layout.site_packages) == {
        *("rich/__init__.py", "rich-1.dist-info/METADATA", "rich-1.dist-info/entry_points.txt")
    }


def test_the_standard_library_keeps_its_packages_and_loses_its_tests(layout: Layout) -> None:
    kept = {"json/__init__.py", "lib-dynload/_json.cpython-312-darwin.so", "site-packages/test/data.py"}
    fill(
        layout.stdlib, *kept, "test/test_json.py", "tkinter/__init__.py", "lib-dynload/_testcapi.so", "venv/__init__.py"
    )
    trim.trim(layout)
    assert files_in(layout.stdlib) == kept


# --- licences -----------------------------------------------------------------------------------


def package(layout: Layout, name: str, metadata: str, *texts: str) -> None:
    info = layout.site_packages / f"{name}-1.0.dist-info"
    fill(info, *texts)
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\n{metadata}\n")


def test_every_licence_is_collected_with_its_text(layout: Layout, tmp_path: Path) -> None:
    fill(tmp_path, "LICENSE.txt")
    package(layout, "new", "License-Expression: MIT\nProject-URL: Homepage, https://new.test", "licenses/LICENSE")
    package(layout, "old", "Classifier: License :: OSI Approved :: BSD License", "LICENSE.txt", "AUTHORS")
    package(layout, "qt", "License: LGPL-3.0-only")
    found = {each.name: each for each in licences.collect(layout, "3.12.1", tmp_path / "LICENSE.txt")}
    assert {name: each.licence for name, each in found.items()} == {
        "new": "MIT",
        "old": "BSD License",
        "qt": "LGPL-3.0-only",
        "Python": "PSF-2.0",
        "KaTeX with mhchem": "MIT and Apache-2.0",
    }
    assert found["new"].homepage == "https://new.test"
    assert (layout.licences / found["qt"].texts / "LGPL-3.0.txt").read_text().lstrip().startswith("GNU LESSER")
    assert files_in(layout.licences / "old-1.0") == {"LICENSE.txt", "AUTHORS"}
    listed = json.loads((layout.licences / licences.LIST).read_text())
    assert [row["name"] for row in listed] == ["KaTeX with mhchem", "new", "old", "Python", "qt"]


@pytest.mark.parametrize(
    ("metadata", "texts"),
    [
        ("License-Expression: MIT", {}),
        ("License-Expression: MIT", {"AUTHORS": "all of us", "licenses/NOTICE": "terms"}),
        ("License-Expression: MIT", {"LICENSE": ""}),
        ("", {"LICENSE": "terms"}),
    ],
)
def test_a_package_without_a_licence_stops_the_build(
    layout: Layout, tmp_path: Path, metadata: str, texts: dict[str, str]
) -> None:
    fill(tmp_path, "LICENSE.txt")
    package(layout, "odd", metadata, *texts)
    for name, text in texts.items():
        (layout.site_packages / "odd-1.0.dist-info" / name).write_text(text)
    with pytest.raises(BuildError, match="odd does not say under which licence"):
        licences.collect(layout, "3.12.1", tmp_path / "LICENSE.txt")


@pytest.mark.slow
def test_every_locked_package_that_is_installed_here_has_a_licence_with_its_text(
    layout: Layout, tmp_path: Path
) -> None:
    """From the metadata of the packages themselves: a new one that has none fails here, not when an app is built."""
    fill(tmp_path, "LICENSE.txt")
    locked = set(re.findall(r"^([a-z0-9.-]+)==", wheels.LOCK.read_text(), re.MULTILINE))
    for info in Path(sysconfig.get_path("purelib")).glob("*.dist-info"):
        if re.sub(r"[-_.]+", "-", info.stem.partition("-")[0]).lower() in locked:
            shutil.copytree(info, layout.site_packages / info.name)
    found = {each.name.lower(): each for each in licences.collect(layout, "3.12.1", tmp_path / "LICENSE.txt")}
    assert {"starlette", "uvicorn", "llguidance", "pypdf", "h11", "anyio", "mlx", "transformers"} <= set(found)
    assert len(found) > 0.6 * len(locked)
    texts = [file for each in found.values() for file in (layout.licences / each.texts).iterdir()]
    assert all(file.read_bytes().strip() for file in texts if not file.name.startswith("AUTHORS"))


# --- files of other builders --------------------------------------------------------------------


def test_slices_for_other_processors_go_and_the_rest_is_as_it_was(tmp_path: Path) -> None:
    path, arm = tmp_path / "lib.dylib", macho(toys.CORE)
    path.write_bytes(universal(macho(replace(toys.CORE, cpu=X86_64)), arm))
    binary_patches.thin(path)
    assert path.read_bytes()[: len(arm)] == arm and [part.cpu for part in slices(path)] == [ARM64]
    path.write_bytes(macho(replace(toys.CORE, cpu=X86_64)))
    with pytest.raises(BuildError, match="nothing for arm64"):
        binary_patches.thin(path)


def test_search_paths_of_builders_lead_nowhere_and_libraries_are_renamed(tmp_path: Path) -> None:
    path = tmp_path / "lib.dylib"
    rpaths = ("@loader_path/lib", "/builds/somebody/lib/python", "@loader_path/lib", "/usr/lib/swift")
    path.write_bytes(macho(replace(toys.MLX, identity="/install/lib/libmlx.dylib", rpaths=rpaths)))
    size = path.stat().st_size
    binary_patches.quiet_rpaths(path)
    binary_patches.rename(path, "@rpath/libmlx.dylib")
    part = slices(path)[0]
    assert (part.rpaths[0], part.rpaths[3], part.identity) == (rpaths[0], rpaths[3], "@rpath/libmlx.dylib")
    assert len(set(part.rpaths)) == 4 and all(rpath.startswith("@loader_path/-") for rpath in part.rpaths[1:3])
    assert path.stat().st_size == size
    with pytest.raises(BuildError, match="no room"):
        binary_patches.rename(path, "@rpath/" + "long" * 20)


def test_frameworks_get_the_links_that_wheels_cannot_hold(tmp_path: Path) -> None:
    framework = tmp_path / "QtGui.framework"
    fill(framework, "Versions/A/QtGui", "Versions/A/Resources/Info.plist", "Resources/Info.plist")
    binary_patches.link_up(framework)
    assert (framework / "Resources").readlink() == Path("Versions/Current/Resources")
    assert (framework / "QtGui").read_text() == "Versions/A/QtGui"


def test_compiled_files_are_the_same_wherever_they_are_compiled(tmp_path: Path) -> None:
    first, second = (
        toys.make_bundle(tmp_path / name, toys.make_source(tmp_path / f"{name} source")) for name in ("a", "b b")
    )
    assert image.contents(first.app) == image.contents(second.app)
    assert list(leaks.leaks(first, [str(tmp_path)])) == []


def test_a_source_that_is_no_python_stops_the_build(bundle: Layout) -> None:
    (bundle.stdlib / "broken.py").write_text("def (:\n")
    for old in bundle.python.rglob("*.pyc"):
        old.unlink()
    with pytest.raises(BuildError, match=r"broken\.py is not Python"):
        bytecode.compile_all(Path(sys.executable), bundle)


# --- pictures and images ------------------------------------------------------------------------


@pytest.mark.slow
def test_the_icon_has_every_size_and_is_drawn(tmp_path: Path) -> None:
    icons.write_icns(tmp_path / "a.icns")
    icons.write_icns(tmp_path / "b.icns")
    assert (tmp_path / "a.icns").read_bytes() == (tmp_path / "b.icns").read_bytes()
    with Image.open(tmp_path / "a.icns") as icon:
        assert {width * scale for width, _, scale in icon.info["sizes"]} >= set(icons.PICTURES) - {16}
    for size, kind in icons.PICTURES.items():
        picture = icons.drawn(f"icon-{kind}", size, size)
        assert picture.getpixel((0, 0))[3] == 0 and picture.getpixel((size // 2, size // 4))[3] == 255
        reds = sum(count for count, (r, g, b, a) in picture.getcolors(1 << 20) if a > 200 and r > 180 and g < 110)
        assert reds > size * size * 0.02, "where is the red line?"


def icns_entries(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """(kind, data) of each entry of an icon file, whose lengths must fit."""
    assert data[:4] == b"icns" and struct.unpack(">I", data[4:8]) == (len(data),)
    place = 8
    while place < len(data):
        kind, length = struct.unpack_from(">4sI", data, place)
        yield kind, data[place + 8 : place + length]
        place += length


def test_the_icon_has_sixteen_pixels_for_screens_of_one_pixel_a_point(tmp_path: Path) -> None:
    icons.write_icns(tmp_path / "a.icns")
    data = (tmp_path / "a.icns").read_bytes()
    (_, contents), *entries = icns_entries(data)
    assert [contents[at : at + 4] for at in range(0, len(contents), 8)] == [kind for kind, _ in entries]
    packed = dict(entries)[b"ic04"]
    assert packed[:4] == b"ARGB"
    channels, place = b"", 4
    while place < len(packed):
        assert packed[place] < 128, "a literal run"
        channels += packed[place + 1 : place + 2 + packed[place]]
        place += 2 + packed[place]
    alpha, red, green, blue = (channels[at : at + 256] for at in range(0, 1024, 256))
    found = Image.merge("RGBA", [Image.frombytes("L", (16, 16), one) for one in (red, green, blue, alpha)])
    assert found.tobytes() == icons.drawn("icon-small", 16, 16).tobytes()


@pytest.mark.parametrize(
    ("held", "expected"), [(3, [("detach",)] * 3), (99, [("detach",)] * 6 + [("detach", "-force")])]
)
def test_an_image_that_is_held_is_detached_a_moment_later_or_by_force(
    monkeypatch: pytest.MonkeyPatch, held: int, expected: list[tuple[str, ...]]
) -> None:
    commands: list[tuple[str, ...]] = []

    def run(*command: str) -> None:
        commands.append(command[1:-1])
        if "-force" not in command and len(commands) < held:
            raise BuildError("resource busy")

    monkeypatch.setattr(image, "run", run)
    monkeypatch.setattr(image.time, "sleep", lambda _: None)
    image._detach("/volume")
    assert commands == expected


def test_notarisation_finds_its_profile_in_the_keychain_that_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[str] = []

    def run(*command: str | Path) -> str:
        commands.append(" ".join(map(str, command)))
        return "status: Accepted"

    monkeypatch.setattr(code_signing, "run", run)
    code_signing.notarise(Path("a.dmg"), "redline", Path("b.keychain-db"))
    assert commands == [
        "xcrun notarytool submit a.dmg --keychain-profile redline --keychain b.keychain-db --wait",
        "xcrun stapler staple a.dmg",
        "xcrun stapler validate a.dmg",
    ]
    monkeypatch.setattr(code_signing, "run", lambda *_: "status: Invalid")
    with pytest.raises(BuildError, match="did not accept"):
        code_signing.notarise(Path("a.dmg"), "redline")


@pytest.mark.slow
def test_an_empty_identity_stops_the_build() -> None:
    command = [sys.executable, str(ROOT / "packaging" / "build.py"), "--identity", ""]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "--identity is empty" in done.stderr


def test_the_background_has_a_picture_for_plain_and_one_for_sharp_screens(tmp_path: Path) -> None:
    icons.write_background(tmp_path / "a.tiff", *image.WINDOW)
    with Image.open(tmp_path / "a.tiff") as picture:
        sizes = [(picture.seek(frame), picture.size)[1] for frame in range(picture.n_frames)]  # type: ignore[attr-defined]
    assert sizes == [(640, 400), (1280, 800)]


def test_every_difference_between_an_app_and_its_image_is_told(
    bundle: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bundle.resources / "link").symlink_to("Redline.icns")
    opened = tmp_path / "opened"
    shutil.copytree(bundle.app, opened / f"{NAME}.app", symlinks=True)
    (opened / image.APPLICATIONS).symlink_to("/Applications")
    for name in (image.BACKGROUND, image.VOLUME_ICON):
        (opened / name).touch()
    monkeypatch.setattr(image, "opened", lambda _: nullcontext(opened))
    assert image.differences(tmp_path, bundle) == []
    changes = {
        "Contents/Info.plist is another": lambda: bundle.info.write_text("?"),
        "Contents/MacOS/Redline is another": lambda: bundle.launcher.chmod(0o644),
        "more is missing": lambda: (bundle.app / "more").touch(),
        "Contents/Resources/link should not be there": lambda: (bundle.resources / "link").unlink(),
    }
    for change in changes.values():
        change()
    assert sorted(image.differences(tmp_path, bundle)) == sorted(f"{NAME}.app/{what}" for what in changes)


# --- lists --------------------------------------------------------------------------------------


def test_the_record_leaves_out_what_is_redlines_own_and_what_only_linux_has(tmp_path: Path) -> None:
    names = ["app.cli.main", "json", "_sysconfigdata__linux_x86_64-linux-gnu", "PySide6.support.feature", "mlx.core"]
    imports.write_record(names, tmp_path / "record")
    assert imports.recorded(tmp_path / "record") == ["json", "mlx.core"]
    names = ["json", "__main__", "__mp_main__", "app.host", "psutil._pslinux", "uvicorn.server"]
    assert imports.worth_recording(names) == ["json", "uvicorn.server"]
    assert {"PySide6.QtWidgets", "mlx.core", "mlx_lm.models.llama", "sqlite3"} <= set(imports.recorded())


@pytest.mark.slow
def test_what_recorded_modules_import_on_macos_alone_is_known() -> None:
    assert imports.imported_on_macos("import a\nif sys.platform == 'darwin':\n    import b.c\nelse:\n    import d") == {
        "b.c"
    }
    found = set()
    for name in imports.recorded():
        with suppress(ModuleNotFoundError):  # the bundle's Python is newer than the oldest that Redline supports
            spec = find_spec(name)
            if spec is not None and spec.origin is not None and spec.origin.endswith(".py"):
                found |= imports.imported_on_macos(Path(spec.origin).read_text(errors="replace"))
    assert "_scproxy" in found
    assert found - set(imports.ON_MACOS) <= set(imports.recorded())


def test_locked_packages_are_those_of_the_project() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {re.split(r"[^\w.-]", line)[0] for line in wanted if "linux" not in line}
    pinned = {line.split("==")[0] for line in wheels.LOCK.read_text().splitlines() if "==" in line}
    assert names <= pinned, "run `uv run packaging/build.py --lock`"
    assert not {"llm", "llama-cpp-python"} & pinned


def test_the_bundle_for_macos_reads_pdf_files_that_aes_protects(layout: Layout, tmp_path: Path) -> None:
    """With what trimming leaves of pycryptodome, and without cryptography, which only Linux has."""
    assert re.search(r"^pycryptodome==\S+ \\$", wheels.LOCK.read_text(), re.MULTILINE)
    assert re.search(r"^cryptography==.*sys_platform == 'linux'", wheels.LOCK.read_text(), re.MULTILINE)
    (installed,) = find_spec("Crypto").submodule_search_locations  # type: ignore[union-attr,misc]
    shutil.copytree(installed, layout.site_packages / "Crypto")
    trim.trim(layout)
    assert not (layout.site_packages / "Crypto/PublicKey").exists()
    document = written(tmp_path / "a.pdf", protected(pdf("open"), "", "AES-256"))
    program = (
        "import sys; sys.modules |= {'cryptography': None, '_cffi_backend': None, 'cffi': None}\n"
        f"sys.path.insert(0, {str(layout.site_packages)!r})\n"
        "import Crypto; from pathlib import Path; from app.pdf_text import page_texts\n"
        f"print(Crypto.__file__, page_texts(Path({str(document)!r})))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == f"{layout.site_packages / 'Crypto/__init__.py'} ['open']\n"


def test_workflows_run_what_is_here() -> None:
    folder = ROOT / ".github" / "workflows"
    text = "\n".join(path.read_text() for path in sorted(folder.glob("*.yml")))
    named = {word for word in text.replace('"', " ").split() if word.startswith(("packaging/", ".ci/", "./.github/"))}
    assert {"packaging/build.py", "packaging/verify.py", "packaging/try.py", ".ci/run"} <= named
    assert all((ROOT / name).exists() for name in named)
    assert "macos-15" in text and 'tags: ["v*"]' in text
