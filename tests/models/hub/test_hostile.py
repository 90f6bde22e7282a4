"""A hub that means harm: names that leave their folder, files that could run, sizes and digests that are none."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.errors import HubError, UsageError
from models.hub.client import Hub
from models.hub.download import pull
from models.hub.repo_cache import RepoCache, planned_repos, read_plans, write_plan
from models.hub.repo_files import HubFile, RepoListing, model_files
from models.hub.repo_names import check_repo, check_revision, check_wanted
from tests.models.hub.hub_contents import Repo
from tests.models.hub.loopback import Loopback
from tests.models.hub.tiny import NAME

BAD_REPOS = [
    *("", ".", "..", "../x", "a/../b", "/etc/passwd", "a/b/c", "a//b", "a/", "a\\b", "a b", "a\0b", "a\nb", "~/x"),
    *("-a/b", "a/-b", ".a/b", "a/.b", "a--b/c", "a..b/c", "a/b.git", "é/b", "a/b" * 99, "http://x/a", "a/b?x", "a/b#x"),
    *("a%2fb", "C:x", "datasets/a/b", "a/b\u202e", "a/b.", "CON:/x"),
]
BAD_REVISIONS = [
    *("", "..", "a/../b", "main/", "a//b", "-x", ".git", "a b", "a\0b", "a\nb", "a~1", "a^", "a:b", "a\\b", "é", "#x"),
    *("x.lock", "a/x.lock/b", "a@{1}", "x" * 300, "?x=1", "%2e%2e", "/main"),
]
BAD_FILES = [
    *("../config.json", "../../x.safetensors", "/etc/cron.d/x.json", "a/../../x.json", "./config.json", "a//x.json"),
    *("..\\x.json", "x\0.json", "x\n.json", "\u202ex.json", "a/../config.json", "..", "C:\\x.json", "~\x1b[31m.json"),
]
ODD_FILES = ["-rf.json", "a b.json", "modèle.json", "x:y.json", "$(id).json", "x" * 250 + ".json", "nul\uff0ejson.json"]


def test_names_that_none_can_have_are_not_even_asked_for(hub: Hub, server: Loopback, tmp_path: Path) -> None:
    for name in BAD_REPOS:
        with pytest.raises(UsageError, match="is not a repository"):
            list(pull(hub, name))
    for revision in BAD_REVISIONS:
        with pytest.raises(UsageError, match="is not a revision"):
            list(pull(hub, NAME, revision))
    assert not server.seen and not list(tmp_path.iterdir())


def test_real_names_are_let_through() -> None:
    for name in ("gpt2", "mlx-community/Qwen3-0.6B-4bit", "a/b_", "01-ai/Yi-1.5-6B", "a.b/c.d-e_f"):
        assert check_repo(name) == name
    for revision in ("main", "v1.0", "refs/pr/12", "feature/4bit+mtp", "0" * 40):
        assert check_revision(revision) == revision


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_listing_with_one_file_that_leaves_is_refused_whole(
    hub: Hub, server: Loopback, repo: Repo, tmp_path: Path, name: str
) -> None:
    repo.files[name] = b"{}"
    with pytest.raises(HubError, match="which would leave its folder; refused") as caught:
        list(pull(hub, NAME))
    assert caught.value.reason == "refused" and str(caught.value).isprintable()
    assert len(server.seen) == 1 and not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ODD_FILES)
def test_a_wanted_file_must_have_a_plain_name(hub: Hub, repo: Repo, tmp_path: Path, name: str) -> None:
    repo.files[name] = b"{}"
    with pytest.raises(HubError, match="which no disk should hold"):
        list(pull(hub, NAME))
    assert not list(tmp_path.iterdir())


def test_names_that_differ_in_case_alone_are_refused() -> None:
    names = ["config.json", "model.safetensors", "tokenizer.json", "Tokenizer.json"]
    with pytest.raises(HubError, match="one file on a Mac's disk"):
        check_wanted(model_files(names, NAME), NAME)


SIBLINGS: list[tuple[dict[str, Any], str]] = [
    ({"size": -1}, "with the size"),
    ({"size": "9"}, "with the size"),
    ({"size": True}, "with the size"),
    ({"blobId": "../../../x"}, "with the digest"),
    ({"blobId": "a" * 39}, "with the digest"),
    ({"blobId": "A" * 40}, "with the digest"),
    ({"lfs": {"sha256": "/" * 64, "size": 9, "pointerSize": 1}}, "with the digest"),
    ({"lfs": {"sha256": "a" * 64, "size": 60_000_000_000, "pointerSize": 1}}, "serves by Xet only"),
]


@pytest.mark.parametrize(("entry", "said"), SIBLINGS)
def test_a_size_or_digest_that_is_none_is_refused(
    hub: Hub, repo: Repo, tmp_path: Path, entry: dict[str, Any], said: str
) -> None:
    config = {"rfilename": "config.json", "size": 9, "blobId": "a" * 40} | entry
    weights = {"rfilename": "model.safetensors", "size": 9, "blobId": "b" * 40}
    repo.listed = {"siblings": [config, weights]}
    with pytest.raises(HubError, match=said):
        list(pull(hub, NAME))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("commit", ["", "../../x", "A" * 40, None])
def test_a_commit_that_is_none_is_refused(hub: Hub, repo: Repo, tmp_path: Path, commit: object) -> None:
    repo.listed = {"sha": commit}
    with pytest.raises(HubError, match="instead of a commit"):
        list(pull(hub, NAME))
    assert not list(tmp_path.iterdir())


def test_another_commit_than_the_one_asked_for_is_refused(hub: Hub, repo: Repo) -> None:
    repo.branches = ("main", "f" * 40)
    with pytest.raises(HubError, match="the hub answers with"):
        list(pull(hub, NAME, "f" * 40))


@pytest.mark.parametrize("said", ["../../evil", "evil/other"])
def test_the_hub_cannot_rename_the_folder(hub: Hub, repo: Repo, tmp_path: Path, said: str) -> None:
    repo.listed = {"id": said}
    list(pull(hub, NAME))
    assert RepoCache(hub.cache, NAME).snapshot(repo.commit).is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["hub"]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["config.json", "pytorch_model.bin"], "its weights are pickles, which can run code"),
        (["config.json", "model.gguf"], "holds GGUF files, no safetensors"),
        (["config.json", "README.md"], "there is no model in it"),
        (["model.safetensors"], "has no config.json"),
        (["config.json", "onnx/model.safetensors"], "there is no model in it"),
    ],
)
def test_what_holds_no_model_says_why(names: list[str], said: str) -> None:
    with pytest.raises(HubError, match=said) as caught:
        model_files(names, NAME)
    assert caught.value.reason == "unsuitable"


def test_only_data_is_wanted() -> None:
    code = ["modeling_x.py", "x.pt", "x.bin", "x.pkl", "x.so", "README.md", ".hidden.safetensors.py", "a/x.json"]
    data = ["config.json", "model.safetensors", "tokenizer.model", "merges.txt", "chat_template.jinja", "x.tiktoken"]
    template = "additional_chat_templates/tool_use.jinja"
    assert model_files([*code, *data, template], NAME) == sorted([*data, template])


def test_the_same_weights_in_a_second_layout_are_left() -> None:
    names = ["config.json", "consolidated.safetensors", "model-00001-of-00001.safetensors", "mtp.safetensors"]
    assert model_files(names, NAME) == ["config.json", "model-00001-of-00001.safetensors", "mtp.safetensors"]
    assert "consolidated.safetensors" in model_files(["config.json", "consolidated.safetensors"], NAME)


# --- what is on the disk already ----------------------------------------------------------------


def test_a_plan_comes_back_as_it_was_written(tmp_path: Path) -> None:
    cache = RepoCache(tmp_path, NAME)
    listing = RepoListing(NAME, "main", "c" * 40, (HubFile("config.json", 2, "git", "a" * 40),), 3)
    write_plan(cache, listing)
    assert read_plans(cache) == [listing]
    assert planned_repos(tmp_path) == [NAME]


@pytest.mark.parametrize(
    "spoil",
    [
        {"repo": "another/one"},
        {"repo": "../../x"},
        {"commit": "../x"},
        {"revision": "../x"},
        {"files": [{"name": "../x", "size_bytes": 1, "kind": "git", "digest": "a" * 40}]},
        {"files": [{"name": "x.json", "size_bytes": 1, "kind": "git", "digest": "../../x"}]},
        {"files": [{"name": "x.json", "size_bytes": -1, "kind": "git", "digest": "a" * 40}]},
        {"files": "none"},
    ],
)
def test_a_plan_that_was_tampered_with_is_none(tmp_path: Path, spoil: dict[str, Any]) -> None:
    cache = RepoCache(tmp_path, NAME)
    write_plan(cache, RepoListing(NAME, "main", "c" * 40, (HubFile("config.json", 2, "git", "a" * 40),), 3))
    path = cache.plans / f"{'c' * 40}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | spoil))
    assert read_plans(cache) == [] and planned_repos(tmp_path) == []
