"""Files are replaced whole or not at all."""

from __future__ import annotations

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
