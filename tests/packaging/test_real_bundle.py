"""The app itself, put together from registry packages: for macOS it is verified, and a second has the same files; for
Linux it answers. Minutes, and some hundred megabytes of downloads on a fresh machine."""

import shutil
import sys
from pathlib import Path

import pytest
from bundling import checks, image, imports
from bundling.assembly import assemble
from bundling.launch_check import tried_out
from bundling.layout import ROOT, Layout
from bundling.leaks import machine_paths
from bundling.runtime import find_python
from bundling.tools import BuildError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="puts together for another system; on a Mac build.py does it"),
]


@pytest.fixture(scope="module", autouse=True)
def _python() -> None:
    """A machine whose only Python is another, and that can fetch none, cannot build the app."""
    try:
        find_python()
    except BuildError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    return assemble(tmp_path_factory.mktemp("app"), "darwin")


def test_the_app_for_macos_has_no_fault(app: Layout) -> None:
    bundle = checks.Bundle(app.app, imports.recorded(), machine_paths(), ROOT)
    faults = [f"{name}: {place} {what}" for name, check in checks.CHECKS.items() for place, what in check(bundle)]
    assert faults == []
    assert len(bundle.machos) > 80 and len(bundle.record) > 600


def test_every_exception_is_still_needed(app: Layout) -> None:
    for pattern in imports.OPTIONAL:
        assert not list(app.site_packages.glob(pattern.split("(")[0])), f"{pattern} is in the bundle"


def test_a_second_app_has_the_same_files(app: Layout, tmp_path: Path) -> None:
    again = assemble(tmp_path, "darwin")
    first, second = image.contents(app.app), image.contents(again.app)
    assert sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name)) == []


def test_the_app_answers_read_only_from_any_folder_with_an_empty_environment(tmp_path: Path) -> None:
    linux = assemble(tmp_path / "linux", "linux")
    told = tried_out(linux.app, tmp_path)
    assert told["tokens"] == 5
    new = set(imports.worth_recording(told["modules"])) - set(imports.recorded())
    assert not new, "imported, and not recorded: run packaging/try.py --record (see there)"
    shutil.rmtree(tmp_path, ignore_errors=True)  # a gigabyte
