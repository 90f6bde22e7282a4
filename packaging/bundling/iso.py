"""An ISO 9660 image with Rock Ridge names, rights and links, written and read by pycdlib."""

from __future__ import annotations

import hashlib
import stat
from io import BytesIO
from pathlib import Path

import pycdlib

_LEVEL = 4  # folders of any depth
_FOLDER, _PROGRAM, _FILE = 0o040755, 0o100755, 0o100644


def write(folder: Path, image: Path, name: str) -> None:
    """All that is in `folder`, links as links. name: the volume's."""
    disc = pycdlib.PyCdlib()
    disc.new(interchange_level=_LEVEL, rock_ridge="1.09", vol_ident=name.upper())
    plain = {folder: ""}  # the names that those see who know no Rock Ridge: short, and no two the same
    for number, path in enumerate(sorted(folder.rglob("*"))):
        place = plain[path] = f"{plain[path.parent]}/{number:06d}"
        if path.is_symlink():
            disc.add_symlink(place, path.name, str(path.readlink()))
        elif path.is_dir():
            disc.add_directory(place, rr_name=path.name, file_mode=_FOLDER)
        else:
            mode = _PROGRAM if path.stat().st_mode & stat.S_IXUSR else _FILE
            disc.add_file(str(path), place, rr_name=path.name, file_mode=mode)
    disc.write(str(image))
    disc.close()


def contents(image: Path) -> dict[str, str]:
    """What is in an image, as `bundling.image.contents` has it of a folder."""
    disc = pycdlib.PyCdlib()
    disc.open(str(image))
    found = {}
    for folder, _, names in disc.walk(rr_path="/"):
        for name in names:
            place = f"{folder.rstrip('/')}/{name}"
            found[place.lstrip("/")] = _entry(disc, place)
    disc.close()
    return dict(sorted(found.items()))


def _entry(disc: pycdlib.PyCdlib, place: str) -> str:
    record = disc.get_record(rr_path=place).rock_ridge
    if record.is_symlink():
        return f"link to {record.symlink_path().decode()}"
    data = BytesIO()
    disc.get_file_from_iso_fp(data, rr_path=place)
    program = "program" if record.get_file_mode() & stat.S_IXUSR else "file"
    return f"{program} {hashlib.sha256(data.getvalue()).hexdigest()}"
