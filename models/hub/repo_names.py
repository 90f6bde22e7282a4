"""Checks names that come from outside, of repositories, revisions, commits and files, before they become paths.

The hub's own rules are narrower than these; a mirror or a man in the middle need not follow them.
"""

import re
import unicodedata
from collections.abc import Iterable

from engine.errors import HubError, UsageError

_PART = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?"
_REPO = re.compile(rf"(?:{_PART}/)?{_PART}")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+/-]{0,199}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")
_SHOWN = 80


def shown(name: object) -> str:
    """Returns a name from outside for a message: quoted, escaped and cut to 80 characters."""
    text = str(name)
    return ascii(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


def is_repo(name: str) -> bool:
    """Whether `name` can be a repository: `owner/name`, or the bare name of an old one."""
    return bool(_REPO.fullmatch(name)) and "--" not in name and ".." not in name and not name.endswith(".git")


def check_repo(name: str) -> str:
    """Returns the name of a repository. Raises UsageError for what cannot be one."""
    if not is_repo(name):
        raise UsageError(f"{shown(name)} is not a repository: give owner/name, such as mlx-community/Qwen3-0.6B-4bit")
    return name


def check_revision(name: str) -> str:
    """Returns a branch, a tag or a commit. Raises UsageError for what cannot be one."""
    parts = name.split("/")
    if not _REVISION.fullmatch(name) or ".." in name or any(not part or part.endswith(".lock") for part in parts):
        raise UsageError(f"{shown(name)} is not a revision: give a branch, a tag or the 40 digits of a commit")
    return name


def is_commit(revision: str) -> bool:
    """Whether a revision is a commit, which never changes."""
    return bool(_COMMIT.fullmatch(revision))


def check_commit(value: object, repo: str) -> str:
    """Returns the commit that the hub names. Raises HubError for anything but 40 hexadecimal digits."""
    if not isinstance(value, str) or not is_commit(value):
        raise HubError(f"{repo}: the hub gives {shown(value)} instead of a commit; check HF_ENDPOINT", "damaged")
    return value


def check_listed(names: Iterable[str], repo: str) -> None:
    """Checks every name of a listing: a hub that lists one which leaves its folder is not trusted with the others.
    Raises HubError."""
    for name in names:
        parts = name.split("/")
        if any(part in ("", ".", "..") for part in parts) or "\\" in name or not name.isprintable():
            raise HubError(f"{repo}: lists the file {shown(name)}, which would leave its folder; refused", "refused")


def check_wanted(names: Iterable[str], repo: str) -> None:
    """Checks the names of the files to download: plain letters, and no two alike where case does not matter.
    Raises HubError."""
    seen: dict[str, str] = {}
    for name in names:
        if not all(_FILE.fullmatch(part) for part in name.split("/")):
            raise HubError(f"{repo}: lists the file {shown(name)}, which no disk should hold; refused", "refused")
        plain_name = unicodedata.normalize("NFKC", name).casefold()
        if plain_name in seen:
            both = f"{shown(seen[plain_name])} and {shown(name)}"
            raise HubError(f"{repo}: lists {both}, which are one file on a Mac's disk; refused", "refused")
        seen[plain_name] = name
