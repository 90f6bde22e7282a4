"""Redline.dmg: the app, a link to Applications, a picture behind them, by dmgbuild and the system's `hdiutil`."""

import hashlib
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bundling import icons
from bundling.layout import NAME, Layout
from bundling.tools import BuildError, run

APPLICATIONS = "Applications"
BACKGROUND = ".background.tiff"
VOLUME_ICON = ".VolumeIcon.icns"
WINDOW = (640, 400)
PLACES = {f"{NAME}.app": (170, 190), APPLICATIONS: (470, 190)}
_ICON = 128
_DETACH_TRIES, _DETACH_PAUSE_S = 6, 2.0


def make(layout: Layout, place: Path) -> None:
    """Makes the image of an app, on a Mac, in place of one that is there."""
    import dmgbuild  # only a Mac has it

    place.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        background = Path(folder, BACKGROUND)
        icons.write_background(background, *WINDOW)
        settings = {
            "files": [str(layout.app)],
            "symlinks": {APPLICATIONS: "/Applications"},
            "icon": str(layout.resources / f"{NAME}.icns"),
            "background": str(background),
            "window_rect": ((200, 200), WINDOW),
            "icon_locations": PLACES,
            "icon_size": _ICON,
            # No "hide_extensions": Finder hides .app by itself, and the attribute would break the signature.
            "format": "ULFO",
            "filesystem": "APFS",
        }
        dmgbuild.build_dmg(str(place), NAME, settings=settings)


def contents(folder: Path) -> dict[str, str]:
    """By path, all that is in a folder: what a file holds and whether it is a program, where a link leads."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = f"link to {path.readlink()}"
        elif path.is_file():
            program = "program" if path.stat().st_mode & stat.S_IXUSR else "file"
            found[name] = f"{program} {hashlib.sha256(path.read_bytes()).hexdigest()}"
    return found


def differences(image: Path, layout: Layout) -> list[str]:
    """Between what is in an image and what should be, one sentence each."""
    with opened(image) as folder:
        found = contents(folder)
    wanted = {f"{NAME}.app/{name}": what for name, what in contents(layout.app).items()}
    wanted[APPLICATIONS] = "link to /Applications"
    extra = found.keys() - wanted.keys()
    faults = [f"{name} is missing" for name in sorted(wanted.keys() - found.keys())]
    faults += [f"{name} is another" for name in sorted(wanted.keys() & found.keys()) if wanted[name] != found[name]]
    faults += [f"{name} should not be there" for name in sorted(extra) if not name.startswith(".")]
    faults += [f"{name} is missing" for name in (BACKGROUND, VOLUME_ICON) if name not in found]
    return faults


@contextmanager
def opened(image: Path) -> Iterator[Path]:
    """The folder in which the system shows an image, on a Mac, for as long as it is needed. Raises BuildError."""
    with tempfile.TemporaryDirectory() as folder:
        run("/usr/bin/hdiutil", "attach", "-readonly", "-nobrowse", "-mountpoint", folder, image)
        try:
            yield Path(folder)
        finally:
            _detach(folder)


def _detach(folder: str) -> None:
    """Unmounts an image. Spotlight or an ending process may hold it for a moment, so it is tried again, then forced."""
    for _ in range(_DETACH_TRIES):
        try:
            run("/usr/bin/hdiutil", "detach", folder)
            return
        except BuildError:
            time.sleep(_DETACH_PAUSE_S)
    run("/usr/bin/hdiutil", "detach", "-force", folder)
