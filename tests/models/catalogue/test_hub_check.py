"""Whether the catalogue's entries still exist, asked of a hub on loopback."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from engine.errors import HubError
from models.catalogue.entries import Drafter
from models.catalogue.hub_check import EntryState, check_entries
from models.hub.client import Hub
from tests.models.hub.conftest import QUICK
from tests.models.hub.hub_contents import Repo
from tests.models.hub.loopback import TOKEN, Loopback, loopback
from tests.models.hub.tiny import tiny, tiny_files, wanted

FACTS: dict[str, Any] = {"name": "n", "kind": "eagle3", "licence": "MIT", "source": ("s",)}


def entry(repository: str, **more: Any) -> Drafter:
    return Drafter(repository=repository, **(FACTS | more))


def ask(server: Loopback, *entries: Drafter, token: str | None = None, attempts: int = 1) -> list[EntryState]:
    waits: list[float] = []
    hub = Hub(server.endpoint, Path("never-written"), token, dataclasses.replace(QUICK, attempts=attempts))
    return list(check_entries(hub, entries, waits.append))


def test_each_entry_is_there_gated_gone_or_unknown_in_order() -> None:
    pickles = Repo("o/pickles", {name: data for name, data in tiny_files().items() if "safetensors" not in name})
    with loopback(tiny("o/a"), tiny("o/asks", gated=True), pickles, tiny("o/private", private=True)) as server:
        server.trouble("o/sick", status=503, times=None)
        server.trouble("o/forbidden", status=403, times=None)
        names = ("o/a", "o/forbidden", "o/gone", "o/pickles", "o/private", "o/sick")
        found = ask(server, *map(entry, names))
        assert [one.repository for one in found] == list(names)
        assert [one.state for one in found] == ["there", "gated", "gone", "there", "gone", "unknown"]
        assert found[0].reason == "" and found[0].size_bytes == sum(map(len, wanted(tiny("o/a")).values()))
        assert all(one.reason and "\n" not in one.reason for one in found[1:])
        assert [one.state for one in ask(server, entry("o/private"), token=TOKEN)] == ["there"]
        assert [one.state for one in ask(server, entry("o/asks"))] == ["there"]  # gated, but it says what it holds


def test_a_pinned_revision_that_is_gone_is_told_and_one_that_is_there_is_asked_for() -> None:
    repo = tiny("o/a")
    with loopback(repo) as server:
        there, gone = ask(server, entry("o/a", revision=repo.commit), entry("o/a", revision="0" * 40))
        assert (there.state, gone.state) == ("there", "gone")
        assert "has no revision" in gone.reason
        assert server.requests(f"revision/{repo.commit}")


def test_a_size_that_is_not_the_catalogues_is_told() -> None:
    repo = tiny("o/a")
    size = sum(map(len, wanted(repo).values()))
    with loopback(repo) as server:
        sizes = [entry("o/a", size_bytes=round(size * share), size="stated") for share in (1.0, 1.04, 0.8, 30_000.0)]
        found = ask(server, *sizes)
        assert [bool(one.reason) for one in found] == [False, False, True, True]
        assert found[3].reason == f"is 0.00 GB to download, the catalogue says {size * 3e-5:.2f} (stated)"


def test_what_passes_is_asked_again_and_a_busy_hub_is_waited_for() -> None:
    with loopback(tiny("o/a")) as server:
        server.trouble("o/a", status=429, times=1)
        server.trouble("o/a", status=500, times=1)
        assert [one.state for one in ask(server, entry("o/a"), attempts=3)] == ["there"]
        assert len(server.requests("o/a")) == 3


def test_no_way_to_the_hub_is_told_once_and_ends_it() -> None:
    with loopback(tiny("o/a")) as server:
        pass
    with pytest.raises(HubError, match="no connection to http"):
        ask(server, *(entry(f"o/{name}") for name in "abcdefgh"))


def test_a_token_that_the_hub_does_not_know_is_no_entrys_fault() -> None:
    with loopback(tiny("o/a", private=True)) as server, pytest.raises(HubError, match="does not accept the token"):
        ask(server, entry("o/a"), token="hf_wrong")
