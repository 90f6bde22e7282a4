"""What the app is called, what it runs on, and where things lie in it.

Redline.app/Contents/
    Info.plist  _CodeSignature/
    MacOS/Redline                                the launcher; also the `python` of its child processes
    Frameworks/libpython3.12.dylib               and what the standard library's own libraries need
    Resources/Redline.icns, licences/
    Resources/python/lib/python3.12/             the standard library, compiled
    Resources/python/lib/python3.12/site-packages/    wheels as they were installed, and Redline's own packages
"""

from dataclasses import dataclass
from pathlib import Path

NAME = "Redline"
IDENTIFIER = "app.redline.Redline"
MINIMUM_SYSTEM = (14, 0)
PYTHON = "3.12"
OWN_PACKAGES = ("app", "engine", "models", "resources")
LIBPYTHON = {"darwin": f"libpython{PYTHON}.dylib", "linux": f"libpython{PYTHON}.so.1.0"}
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Layout:
    """app: Redline.app, wherever it is."""

    app: Path

    @property
    def contents(self) -> Path:
        return self.app / "Contents"

    @property
    def info(self) -> Path:
        return self.contents / "Info.plist"

    @property
    def launcher(self) -> Path:
        return self.contents / "MacOS" / NAME

    @property
    def frameworks(self) -> Path:
        return self.contents / "Frameworks"

    @property
    def resources(self) -> Path:
        return self.contents / "Resources"

    @property
    def licences(self) -> Path:
        return self.resources / "licences"

    @property
    def python(self) -> Path:
        """Python's home."""
        return self.resources / "python"

    @property
    def stdlib(self) -> Path:
        return self.python / "lib" / f"python{PYTHON}"

    @property
    def site_packages(self) -> Path:
        return self.stdlib / "site-packages"

    def files(self) -> list[Path]:
        """All that is no folder, links included, in one order everywhere."""
        return sorted(path for path in self.app.rglob("*") if path.is_symlink() or not path.is_dir())

    def name_of(self, path: Path) -> str:
        """Returns a path relative to the app, as reports show it."""
        return path.relative_to(self.app).as_posix()


def dotted(version: tuple[int, int]) -> str:
    """ "14.0"."""
    return f"{version[0]}.{version[1]}"
