"""Files that are not what the hub lists, and disks that are full: found, said, and no model of it."""

import errno
import io
from pathlib import Path
from typing import Any

import pytest

from engine.errors import HubError
from models.hub.client import Hub
from models.hub.download import SPARE_BYTES, pull
from models.hub.download_events import Done, DownloadProgress, Verifying
from models.hub.repo_cache import PARTIAL, RepoCache
from models.local.inventory import installed
from models.local.locations import ModelLocations
from tests.models.hub.hub_contents import Repo
from tests.models.hub.loopback import Loopback
from tests.models.hub.outcomes import FIRST, part_of, pull_whole, refusal_of, refuse_links
from tests.models.hub.tiny import NAME, read_folder, wanted


@pytest.mark.parametrize("name", [FIRST, "config.json"])
def test_a_wrong_byte_is_found(hub: Hub, server: Loopback, repo: Repo, name: str) -> None:
    server.trouble(repo.etag(name) if name == FIRST else f"/{name}", flip=20)
    error = refusal_of(hub)
    assert error.reason == "damaged"
    assert f"{name} arrived damaged: its digest is not the one that the hub lists; pull again" in str(error)
    assert not part_of(hub, repo, name).exists()
    pull_whole(hub, repo)


def test_a_damaged_leftover_is_fetched_anew(hub: Hub, server: Loopback, repo: Repo) -> None:
    part = part_of(hub, repo)
    part.parent.mkdir(parents=True)
    part.write_bytes(b"\0" * 100_000)
    events = pull_whole(hub, repo)
    assert Verifying(FIRST, 100_000) in events
    assert [seen.range for seen in server.requests(f"/blobs/{repo.etag(FIRST)}")] == ["bytes=100000-", ""]


@pytest.mark.parametrize("size", [160_080, 200_000])
def test_a_leftover_as_long_as_the_file_or_longer_is_judged_too(hub: Hub, repo: Repo, size: int) -> None:
    part = part_of(hub, repo)
    part.parent.mkdir(parents=True)
    part.write_bytes(b"\0" * size)
    pull_whole(hub, repo)


def test_more_than_is_listed_never_reaches_the_disk(hub: Hub, server: Loopback, repo: Repo) -> None:
    server.trouble(repo.etag(FIRST), extra=1_000_000)
    error = refusal_of(hub)
    assert error.reason == "damaged" and "more came than the 160080 bytes" in str(error)
    assert not part_of(hub, repo).exists()


# --- damage after the download ------------------------------------------------------------------


def spoil(hub: Hub, repo: Repo) -> None:
    """Turn one bit of a file that is here."""
    path = RepoCache(hub.cache, NAME).snapshot(repo.commit) / FIRST
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)  # through the link, if it is one


@pytest.mark.slow_for("False")
@pytest.mark.parametrize("links", [True, False])
def test_a_flipped_bit_is_found_by_verify_and_fetched_again(
    hub: Hub, repo: Repo, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    if not links:
        refuse_links(monkeypatch)
    pull_whole(hub, repo)
    spoil(hub, repo)
    *_, unread = pull(hub, NAME)
    assert isinstance(unread, Done) and (unread.fetched_bytes, unread.verified_bytes) == (0, 0)
    events = list(pull(hub, NAME, verify=True))
    done = events[-1]
    assert isinstance(done, Done) and read_folder(Path(done.path)) == wanted(repo)
    assert (done.fetched_bytes, done.verified_bytes) == (len(repo.files[FIRST]), done.total_bytes)
    assert {event.file for event in events if isinstance(event, Verifying)} == set(wanted(repo))
    progress = [event.done_bytes for event in events if isinstance(event, DownloadProgress)]
    assert max(progress) == progress[-1] == done.total_bytes


def test_a_damaged_model_is_incomplete_until_it_is_repaired(hub: Hub, server: Loopback, repo: Repo) -> None:
    pull_whole(hub, repo)
    spoil(hub, repo)
    places = ModelLocations(hub.cache, (), hub.cache, None)
    assert [model.complete for model in installed(places)] == [True]
    server.trouble("/blobs/", status=404, times=None)
    with pytest.raises(HubError):
        list(pull(hub, NAME, verify=True))
    assert [model.complete for model in installed(places)] == [False]
    server.troubles.clear()
    pull_whole(hub, repo)
    assert [model.complete for model in installed(places)] == [True]


# --- the disk -----------------------------------------------------------------------------------


class Full(io.FileIO):
    """A file on a disk with so many bytes left."""

    room = 0

    def write(self, data: Any) -> int:
        if len(data) > self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.room -= len(data)
        return super().write(data)


def test_a_disk_that_fills_up(hub: Hub, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    plain_open = Path.open

    def open_full(path: Path, *args: Any, **more: Any) -> Any:
        if not path.name.endswith(PARTIAL) or args != ("ab",):
            return plain_open(path, *args, **more)
        full = Full(path, "ab")
        full.room = 100_000
        return full

    monkeypatch.setattr(Path, "open", open_full)
    error = refusal_of(hub)
    assert error.reason == "disk" and "no space left on the disk; free some, or point HF_HOME" in str(error)
    monkeypatch.undo()
    pull_whole(hub, repo)
    monkeypatch.setattr("models.durable_files.shutil.disk_usage", lambda _: type("Usage", (), {"free": 0}))
    pull_whole(hub, repo)  # what is present needs no space


def test_too_little_disk_space_is_an_error_before_anything_is_fetched(
    hub: Hub, server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": SPARE_BYTES + 480_000})
    monkeypatch.setattr("models.durable_files.shutil.disk_usage", lambda _: usage)
    error = refusal_of(hub)
    assert error.reason == "disk"
    assert f"{NAME} needs 481 kB more and 67 MB to spare, but only 68 MB is free on" in str(error)
    assert "free 556 bytes, or point HF_HOME to another disk" in str(error)
    assert len(server.seen) == 1
    assert not hub.cache.joinpath("models--tiny-org--Tiny-4bit").exists()


def test_a_cache_that_cannot_be_written(hub: Hub, repo: Repo) -> None:
    hub.cache.mkdir()
    RepoCache(hub.cache, NAME).folder.write_bytes(b"in the way")
    error = refusal_of(hub)
    assert error.reason == "disk" and "cannot be written" in str(error)
