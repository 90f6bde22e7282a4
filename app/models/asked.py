"""What somebody who asks for a model means: a name, or the address of its page; and what they may have meant."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from engine.errors import HubError, UsageError

MAIN = "main"
_LIKE = 0.8


@dataclass(frozen=True)
class Asked:
    """A repository of the hub and a revision of it, neither checked yet."""

    repo: str
    revision: str


def asked_for(said: str, revision: str | None, endpoint: str) -> Asked:
    """`owner/name`, or what a browser shows at `endpoint`: its address, with /tree/REVISION where there is one.

    Raises UsageError for two revisions.
    """
    text = said.strip()
    if not text.startswith(f"{endpoint}/"):
        return Asked(text, revision or MAIN)
    parts = text.removeprefix(f"{endpoint}/").partition("?")[0].strip("/").split("/")
    shown = "/".join(parts[3:]) if parts[2:3] == ["tree"] else ""
    if shown and revision not in (None, shown):
        raise UsageError(f"the address names the revision {shown!r}, --revision another: give one of them")
    return Asked("/".join(parts[:2]), revision or shown or MAIN)


def known_trouble(repo: str) -> str:
    """Why Redline cannot load this model, as the catalogue says; "" where it does not."""
    from models.catalogue import read_catalogue

    entry = read_catalogue().entries.get(repo)
    return entry.trouble if entry is not None else ""


def with_a_guess(error: HubError, repo: str) -> HubError:
    """`error`, with the model of the catalogue that may have been meant where there is none of this name."""
    if error.reason not in ("missing", "token"):
        return error
    from models.catalogue import read_catalogue

    known = read_catalogue().entries
    names = {name.rpartition("/")[2].casefold(): name for name in known}
    close = get_close_matches(repo.rpartition("/")[2].casefold(), names, n=1, cutoff=_LIKE)
    if repo in known or not close:
        return error
    return HubError(f"{error}; did you mean {names[close[0]]}?", error.reason)
