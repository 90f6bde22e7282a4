"""Files are replaced whole or not at all."""

import os
import stat
from pathlib import Path

import pytest

from models import durable_files


def test_a_file_is_replaced_whole_and_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "file"
    durable_files.replace_file(path, b"old")
    path.chmod(0o640)
    durable_files.replace_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    durable_files.replace_file(path, b"old")

    def write_until_full(draft: Path) -> None:
        draft.write_bytes(b"n")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        durable_files.replace_with(path, write_until_full)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_name_may_be_as_long_as_names_go(tmp_path: Path) -> None:
    path = tmp_path / ("\N{CAT FACE}" * 63)
    durable_files.replace_file(path, b"content")
    assert path.read_bytes() == b"content"


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        ({}, "abcd"),
        ({"most": 2}, "ab"),
        ({"most_bytes": 35}, "abc"),
        ({"most": 2, "most_bytes": 19}, "a"),
        ({"most_bytes": 5}, "a"),  # the newest stays, however large
    ],
)
def test_the_files_that_were_written_last_are_kept(tmp_path: Path, limits: dict[str, int], left: str) -> None:
    for age, name in enumerate("abcd"):
        path = tmp_path / name
        path.write_bytes(bytes(10))
        os.utime(path, (1000 - age, 1000 - age))
    durable_files.keep_newest(tmp_path.iterdir(), **limits)
    assert "".join(sorted(path.name for path in tmp_path.iterdir())) == left
