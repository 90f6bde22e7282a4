"""Redline.dmg: the app, a link to Applications, a picture behind them.

On a Mac dmgbuild makes it with the system's `hdiutil`. Elsewhere the same things go into an ISO 9660 image with Rock
Ridge, by pycdlib: for comparing what is in it, not for users. It lacks only the `.DS_Store` that places the icons, in
which Finder wants a reference to the mounted picture.
"""

from __future__ import annotations

import hashlib
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bundling import icons, iso
from bundling.layout import NAME, Layout
from bundling.tools import BuildError, run

APPLICATIONS = "Applications"
BACKGROUND = ".background.tiff"
VOLUME_ICON = ".VolumeIcon.icns"
WINDOW = (640, 400)
PLACES = {f"{NAME}.app": (170, 190), APPLICATIONS: (470, 190)}
_ICON = 128
_DETACH_TRIES, _DETACH_PAUSE_S = 6, 2.0


def make(layout: Layout, stem: Path) -> Path:
    """The image of an app, `stem`.dmg or, off macOS, `stem`.iso, in place of one that is there."""
    if sys.platform != "darwin":
        return make_elsewhere(layout, stem)
    with tempfile.TemporaryDirectory() as folder:
        background = Path(folder, BACKGROUND)
        icons.write_background(background, *WINDOW)
        return _disk_image(layout, background, stem.with_suffix(".dmg"))


def make_elsewhere(layout: Layout, stem: Path) -> Path:
    """`stem`.iso, which any system can make and list."""
    place = stem.with_suffix(".iso")
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        top = Path(folder)
        shutil.copytree(layout.app, top / layout.app.name, symlinks=True, copy_function=_linked)
        icons.write_background(top / BACKGROUND, *WINDOW)
        shutil.copy(layout.resources / f"{NAME}.icns", top / VOLUME_ICON)
        (top / APPLICATIONS).symlink_to("/Applications")
        iso.write(top, place, NAME)
    return place


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


def listed(image: Path) -> dict[str, str]:
    """`contents` of an image."""
    if image.suffix == ".iso":
        return iso.contents(image)
    with opened(image) as folder:
        return contents(folder)


def differences(image: Path, layout: Layout) -> list[str]:
    """Between what is in an image and what should be, one sentence each."""
    found = listed(image)
    wanted = {f"{NAME}.app/{name}": what for name, what in contents(layout.app).items()}
    wanted[APPLICATIONS] = "link to /Applications"
    extra = found.keys() - wanted.keys()
    faults = [f"{name} is missing" for name in sorted(wanted.keys() - found.keys())]
    faults += [f"{name} is another" for name in sorted(wanted.keys() & found.keys()) if wanted[name] != found[name]]
    faults += [f"{name} should not be there" for name in sorted(extra) if not name.startswith(".")]
    faults += [f"{name} is missing" for name in (BACKGROUND, VOLUME_ICON) if name not in found]
    return faults


def _disk_image(layout: Layout, background: Path, place: Path) -> Path:
    import dmgbuild  # only a Mac has it

    place.unlink(missing_ok=True)
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
    return place


def _linked(source: str, target: str) -> None:
    Path(target).hardlink_to(source)


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
