"""A pull brings the model, all of it and nothing else, into the cache that other tools share."""

from pathlib import Path
from unittest.mock import patch

import pytest
from huggingface_hub import hf_hub_download, scan_cache_dir, snapshot_download

from engine.errors import HubError
from models.hub.client import Hub
from models.hub.download import pull
from models.hub.download_events import (
    AnyDownloadEvent,
    Done,
    DownloadEvent,
    DownloadProgress,
    Fetched,
    Planned,
    Resolving,
)
from models.hub.repo_cache import PARTIAL, RepoCache, discard
from tests.models.hub.hub_contents import Repo
from tests.models.hub.loopback import Loopback
from tests.models.hub.outcomes import FIRST, refuse_links
from tests.models.hub.tiny import NAME, NEVER, read_folder, tiny, wanted
from tests.waiting import HANG_S, until


def last_of_pull(hub: Hub, name: str = NAME, revision: str = "main") -> Done:
    last = list(pull(hub, name, revision))[-1]
    assert isinstance(last, Done)
    return last


def pull_some(hub: Hub, server: Loopback, file: tuple[str, int], repo: Repo) -> None:
    """Begin a pull and leave it when so many bytes of that file are on the disk and no more come."""
    name, held_at = file
    server.trouble(f"/blobs/{repo.etag(name)}", hold=held_at)
    part = hub.cache / "models--tiny-org--Tiny-4bit" / "blobs" / f"{repo.etag(name)}{PARTIAL}"
    events = pull(hub, NAME)
    assert any(isinstance(event, Fetched | DownloadProgress) for event in events)
    assert server.held.wait(HANG_S)
    until(lambda: part.stat().st_size == held_at)
    with patch("models.hub.download._LEAVE_S", 0.01):  # the thread is stuck in a read, on purpose
        events.close()
    server.go.set()


def test_everything_that_is_allowed_comes_and_nothing_else(hub: Hub, repo: Repo, cache: Path) -> None:
    done = last_of_pull(hub)
    assert read_folder(Path(done.path)) == wanted(repo)
    assert done.total_bytes == done.fetched_bytes == sum(map(len, wanted(repo).values()))
    everything = {path.name for path in cache.rglob("*")}
    assert not everything & {name.rpartition("/")[2] for name in NEVER}


def test_the_layout_is_that_of_huggingface_hub(hub: Hub, repo: Repo, cache: Path) -> None:
    folder = Path(last_of_pull(hub).path)
    assert folder == cache / "models--tiny-org--Tiny-4bit" / "snapshots" / repo.commit
    assert (folder.parents[1] / "refs" / "main").read_text() == repo.commit
    for name in wanted(repo):
        assert (folder / name).readlink() == Path("../../blobs") / repo.etag(name)
    found = scan_cache_dir(cache)
    assert not found.warnings and not found.incomplete_files
    assert [(one.repo_id, set(one.refs)) for one in found.repos] == [(NAME, {"main"})]


def test_other_tools_use_the_download(hub: Hub, server: Loopback, repo: Repo, cache: Path) -> None:
    done = last_of_pull(hub)
    assert snapshot_download(NAME, cache_dir=cache, local_files_only=True) == done.path
    before = server.sent_bytes, len(server.requests("/blobs/"))
    patterns = ["*.safetensors", "*.json", "*.jinja"]
    again = snapshot_download(NAME, cache_dir=cache, endpoint=server.endpoint, token=False, allow_patterns=patterns)
    assert again == done.path
    assert len(server.requests("/blobs/")) == before[1]
    assert len(server.requests("/tree/")) == 5  # fourteen files in pages of three


def test_what_other_tools_brought_is_not_fetched_again(hub: Hub, server: Loopback, repo: Repo, cache: Path) -> None:
    name = "model-00002-of-00003.safetensors"
    hf_hub_download(NAME, name, cache_dir=cache, endpoint=server.endpoint, token=False)
    fetched = len(server.requests(name))
    done = last_of_pull(hub)
    assert len(server.requests(name)) == fetched
    assert read_folder(Path(done.path)) == wanted(repo)
    assert done.fetched_bytes == done.total_bytes - len(repo.files[name])


def test_the_events_tell_the_whole_story(hub: Hub, repo: Repo) -> None:
    events: list[DownloadEvent] = list(pull(hub, NAME))
    assert all(isinstance(event, AnyDownloadEvent) for event in events)
    asking, planned, *middle, done = events
    assert asking == Resolving(NAME, "main")
    assert isinstance(planned, Planned) and isinstance(done, Done)
    assert planned.present_bytes == 0 and planned.left_out == len(NEVER)
    assert {file.name for file in planned.files} == set(wanted(repo))
    progress = [event for event in middle if isinstance(event, DownloadProgress)]
    assert {event.file for event in middle if isinstance(event, Fetched)} == set(wanted(repo))
    assert progress[-1].done_bytes == progress[-1].total_bytes == planned.total_bytes
    assert all(0 <= event.done_bytes <= event.total_bytes for event in progress)


def test_a_second_pull_fetches_nothing(hub: Hub, server: Loopback) -> None:
    first = last_of_pull(hub, NAME.lower())
    assert first.repo == NAME and NAME.replace("/", "--") in first.path  # as the hub spells it
    server.seen.clear()
    again = last_of_pull(hub)
    assert (again.path, again.fetched_bytes) == (first.path, 0)
    assert [seen.path.split("?")[0] for seen in server.seen] == [f"/api/models/{NAME}/revision/main"]


def test_a_stopped_pull_continues_where_it_was(hub: Hub, server: Loopback, repo: Repo) -> None:
    pull_some(hub, server, (FIRST, 96 * 1024), repo)
    own = RepoCache(hub.cache, NAME)
    assert own.plans.is_dir() and not (own.folder / "snapshots").exists() and not (own.folder / "refs").exists()
    left = {path.name: path.stat().st_size for path in (own.folder / "blobs").iterdir()}
    server.seen.clear()
    done = last_of_pull(hub)
    assert [seen.range for seen in server.requests(repo.etag(FIRST))] == [f"bytes={96 * 1024}-"]
    assert done.fetched_bytes == done.total_bytes - sum(left.values())
    assert read_folder(Path(done.path)) == wanted(repo)


def test_an_unfinished_pull_can_be_discarded(hub: Hub, server: Loopback, repo: Repo, cache: Path) -> None:
    pull_some(hub, server, (FIRST, 64 * 1024), repo)
    there = sum(path.stat().st_size for path in (RepoCache(cache, NAME).folder / "blobs").iterdir())
    assert discard(cache, NAME.lower()) == there > 0  # spelled as it may have been asked for
    assert not RepoCache(cache, NAME).folder.exists()
    assert discard(cache, NAME) == 0


def test_discarding_leaves_complete_models(hub: Hub, server: Loopback, repo: Repo, cache: Path) -> None:
    done = last_of_pull(hub)
    new = tiny()
    new.files["config.json"] += b" "
    new.files[FIRST] = b"\0" * 200_000
    server.add(new)
    pull_some(hub, server, (FIRST, 64 * 1024), new)
    assert discard(cache, NAME) > 0
    assert read_folder(Path(done.path)) == wanted(repo)
    assert not list(cache.rglob("*.incomplete"))


def test_two_pulls_of_one_model_do_not_run_at_once(hub: Hub, cache: Path) -> None:
    with RepoCache(cache, NAME).alone(), pytest.raises(HubError, match="pulled by another process") as caught:
        last_of_pull(hub)
    assert caught.value.reason == "busy"
    assert last_of_pull(hub)


@pytest.mark.parametrize("kind", ["branch", "commit"])
def test_a_revision_may_be_a_branch_or_a_commit(hub: Hub, repo: Repo, kind: str) -> None:
    repo.branches = ("main", "8bit/new")
    revision = "8bit/new" if kind == "branch" else repo.commit
    folder = Path(last_of_pull(hub, revision=revision).path)
    refs = folder.parents[1] / "refs"
    assert folder.name == repo.commit
    assert [path.relative_to(refs).as_posix() for path in refs.rglob("*") if path.is_file()] == (
        ["8bit/new"] if kind == "branch" else []
    )


def test_a_new_commit_shares_what_did_not_change(hub: Hub, server: Loopback, repo: Repo) -> None:
    first = last_of_pull(hub)
    new = tiny()
    new.files["config.json"] += b" "
    server.add(new)
    second = last_of_pull(hub)
    assert second.path != first.path
    assert second.fetched_bytes == len(new.files["config.json"])
    assert read_folder(Path(first.path)) == wanted(repo)
    assert read_folder(Path(second.path)) == wanted(new)


def test_twins_are_fetched_once(hub: Hub, server: Loopback, repo: Repo) -> None:
    repo.files["model-00002-of-00003.safetensors"] = repo.files[FIRST]
    done = last_of_pull(hub)
    assert len(server.requests(repo.etag(FIRST))) == 1
    assert read_folder(Path(done.path)) == wanted(repo)


def test_a_disk_without_links_holds_the_files_themselves(
    hub: Hub, server: Loopback, repo: Repo, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_links(monkeypatch)
    done = last_of_pull(hub)
    assert read_folder(Path(done.path)) == wanted(repo)
    assert not any(path.is_symlink() for path in Path(done.path).iterdir())
    assert not (RepoCache(cache, NAME).folder / "blobs").exists()
    assert last_of_pull(hub).fetched_bytes == 0
