"""What leaves this machine: what was asked for and nothing else, and the token to the hub alone."""

import dataclasses
from pathlib import Path

import pytest
from huggingface_hub import constants

from engine.errors import HubError
from models.hub.client import Hub
from tests.models.hub.hub_contents import Repo
from tests.models.hub.loopback import TOKEN, Loopback
from tests.models.hub.outcomes import pull_whole
from tests.models.hub.tiny import NAME

API = "/api/models/"


@pytest.mark.usefixtures("not_installed")
def test_redline_that_is_not_installed_downloads(hub: Hub, repo: Repo) -> None:
    pull_whole(hub, repo)


def test_nothing_is_sent_that_nobody_asked_for(
    hub: Hub, server: Loopback, repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("hf_of_another_program")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setenv("AI_AGENT", "somebody")
    pull_whole(hub, repo)
    assert not [seen.path for seen in server.seen if not seen.path.startswith((f"{API}{NAME}", f"/{NAME}", "/blobs/"))]
    for seen in server.seen:
        names = [part.split("/")[0].strip() for part in seen.headers["user-agent"].split(";")]
        assert names == ["redline", "hf_hub", "python"]
        assert not seen.headers.keys() & {"authorization", "cookie", "x-hf-download-counter"}


def test_the_token_goes_to_the_hub_and_to_nobody_else(hub: Hub, server: Loopback, repo: Repo) -> None:
    repo.private = True
    pull_whole(dataclasses.replace(hub, token=TOKEN), repo)
    assert {seen.headers.get("authorization") for seen in server.seen if not seen.cdn} == {f"Bearer {TOKEN}"}
    assert {seen.headers.get("authorization") for seen in server.seen if seen.cdn} == {None}


def test_a_token_is_never_sent_in_the_open_nor_shown(cache: Path) -> None:
    with pytest.raises(HubError, match="never sent over http") as caught:
        Hub("http://mirror.example", cache, TOKEN)
    assert TOKEN not in str(caught.value)
    assert TOKEN not in repr(Hub("https://mirror.example", cache, TOKEN))
