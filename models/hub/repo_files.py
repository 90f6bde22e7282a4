"""The files of one revision of a repository: requested from the hub in one request, before a byte is downloaded.

Only data are downloaded: never Python, never a pickle, nothing that could run.
"""

import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Literal

from huggingface_hub import HfApi
from huggingface_hub.hf_api import ModelInfo, RepoSibling

from engine.errors import HubError
from models.hub.client import HTTP_ERRORS, Hub, Retries
from models.hub.download_events import Waiting
from models.hub.repo_names import check_commit, check_listed, check_repo, check_wanted, is_commit, is_repo, shown
from models.hub.request_bounds import within
from models.model_folder import PICKLES

WEIGHTS = ("*.safetensors",)
ALLOWED = (
    *WEIGHTS,
    "*.json",
    "*.jinja",
    "*.tiktoken",
    "tokenizer.model",
    "tiktoken.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "merges.txt",
    "vocab.txt",
    "additional_chat_templates/*.jinja",
)
_TWINS = "consolidated*.safetensors"  # Mistral's own layout of the same weights


def model_files(names: Iterable[str], repo: str) -> list[str]:
    """Returns those of `names` that make a model, sorted. Weights in a second layout are left out.

    Raises HubError: no config.json, or no safetensors.
    """
    listed = list(names)
    found = sorted(name for name in listed if any(_matches(name, pattern) for pattern in ALLOWED))
    if any(name.startswith("model") and _matches(name, WEIGHTS[0]) for name in found):
        found = [name for name in found if not _matches(name, _TWINS)]
    if not any(_matches(name, WEIGHTS[0]) for name in found):
        raise HubError(f"{repo}: {_lack(listed)}", "unsuitable")
    if "config.json" not in found:
        raise HubError(f"{repo}: has no config.json, so MLX cannot load it; choose another model", "unsuitable")
    return found


def _matches(name: str, pattern: str) -> bool:
    """Whether `name` matches `pattern`, whose stars match no slash."""
    return name.count("/") == pattern.count("/") and fnmatchcase(name, pattern)


def _lack(names: list[str]) -> str:
    """Returns why there is nothing to load, and what to choose instead."""
    if any(name.endswith(".gguf") for name in names):
        return (
            "holds GGUF files, no safetensors; choose an MLX version, or `redline models import` a GGUF file you have"
        )
    if any(name.endswith(PICKLES) for name in names):
        return "its weights are pickles, which can run code and are never fetched; choose a safetensors version"
    return "has no safetensors, so there is no model in it; choose another"


@dataclass(frozen=True)
class HubFile:
    """One file of a repository. digest: hexadecimal; sha256 of the bytes where the file is in LFS, else git's sha1 of
    them as a blob. It is also the file's ETag, and its name among the cache's blobs."""

    name: str
    size_bytes: int
    kind: Literal["sha256", "git"]
    digest: str


@dataclass(frozen=True)
class RepoListing:
    """The files that make the model, of one commit. left_out: how many files of the repository do not."""

    repo: str
    revision: str
    commit: str
    files: tuple[HubFile, ...]
    left_out: int

    @property
    def contents(self) -> tuple[HubFile, ...]:
        """One file for each content: files with the same content are downloaded and stored once."""
        return tuple({file.digest: file for file in self.files}.values())

    @property
    def total_bytes(self) -> int:
        return sum(file.size_bytes for file in self.contents)


LARGEST_BYTES = 50_000_000_000  # of one file: beyond, the hub serves Xet only
MAX_FILES = 10_000
_HEX = frozenset("0123456789abcdef")
# What huggingface_hub raises for an answer that is no hub's.
_NONSENSE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


def request_listing(
    hub: Hub, repo: str, revision: str, sleep: Callable[[float], None] = time.sleep
) -> Generator[Waiting, None, RepoListing]:
    """Requests the files of a revision from `hub`; yields an event for each wait, returns the listing.

    `repo` in the answer is spelled as the hub spells it. Raises HubError.
    """
    api = HfApi(endpoint=hub.endpoint, token=hub.token_or_false, headers=hub.headers)
    ask = partial(api.model_info, repo, revision=revision, files_metadata=True, timeout=hub.policy.silence_s)
    patient = Retries(hub, sleep, reached=False)
    while True:
        try:
            return _listing(within(hub.policy.answer_s, ask), repo, revision)
        except HTTP_ERRORS as error:
            try:
                yield from patient.wait(error)
            except HTTP_ERRORS as last:
                raise hub.explain(last, repo, revision) from last
        except _NONSENSE as error:
            raise hub.explain(error, repo, revision) from error


def _listing(info: ModelInfo, repo: str, revision: str) -> RepoListing:
    siblings = {sibling.rfilename: sibling for sibling in info.siblings or []}
    if len(siblings) > MAX_FILES:
        raise HubError(f"{repo}: lists {len(siblings)} files, which no model has; refused", "refused")
    check_listed(siblings, repo)
    names = model_files(siblings, repo)
    check_wanted(names, repo)
    files = tuple(_file(siblings[name], repo) for name in names)
    commit = check_commit(info.sha, repo)
    if is_commit(revision) and commit != revision:
        raise HubError(f"{repo}: asked for {revision}, the hub answers with {commit}; check HF_ENDPOINT", "damaged")
    return RepoListing(_spelled(info.id, repo), revision, commit, files, len(siblings) - len(files))


def _spelled(spelling: str, repo: str) -> str:
    """Returns the name as the hub spells it, so that one model has one folder; a repository that was renamed keeps the
    old name."""
    return check_repo(spelling) if is_repo(spelling) and spelling.casefold() == repo.casefold() else repo


def _file(sibling: RepoSibling, repo: str) -> HubFile:
    """Returns one file of the listing. Raises HubError if its size or digest is missing or malformed."""
    name = sibling.rfilename
    size: object = sibling.lfs.size if sibling.lfs is not None else sibling.size
    digest: object = sibling.lfs.sha256 if sibling.lfs is not None else sibling.blob_id
    length = 40 if sibling.lfs is None else 64
    if type(size) is not int or size < 0:
        raise HubError(f"{repo}: lists {shown(name)} with the size {shown(size)}; check HF_ENDPOINT", "damaged")
    if not isinstance(digest, str) or len(digest) != length or not _HEX.issuperset(digest):
        raise HubError(f"{repo}: lists {shown(name)} with the digest {shown(digest)}; check HF_ENDPOINT", "damaged")
    if size > LARGEST_BYTES:
        what = f"{repo}: {name} has {size / 1e9:.0f} GB in one file, which the hub serves by Xet only"
        raise HubError(
            f"{what}; choose a version in smaller files, or fetch it with `hf download {repo}`", "unsuitable"
        )
    return HubFile(name, size, "git" if sibling.lfs is None else "sha256", digest)
