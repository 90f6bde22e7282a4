"""The best drafter present for a target: what `--drafter auto` takes.

In this order, the first that fits:

    1. a drafter that the catalogue knows for the target, in the catalogue's order
    2. one that was trained here for the target's tokens, as its config.json says (`redline fit`)
    3. a small model of the same tokens, the smallest first

else none. Folders are judged one after the other, and no more than needed: a large tokenizer takes a quarter second.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.errors import ModelError
from models.catalogue import Catalogue
from models.disk import read_json_object
from models.folder import ModelFolder
from models.heads import is_made_for
from models.pairing.judging import judge, unknown_kind
from models.pairing.present import Present
from models.pairing.verdict import Verdict

SMALL_ENOUGH = 0.25  # of the target's bytes: a draft of four then costs no more than a pass of the target
_PADDING = 4096  # rows by which the padding of two vocabularies that are the same may differ


@dataclass(frozen=True)
class Choice:
    """What was chosen: present and verdict are None where nothing fits. why: in one line."""

    why: str
    present: Present | None = None
    verdict: Verdict | None = None


def choose(target: ModelFolder, present: Sequence[Present], catalogue: Catalogue | None) -> Choice:
    """The best of `present`, of which the target may be one, for `target`. catalogue: None for none."""
    own = os.path.realpath(target.path)
    repository = next((one.repository for one in present if os.path.realpath(one.path) == own), None)
    others = [one for one in present if os.path.realpath(one.path) != own]
    refused = 0
    for one, reason in _candidates(target, repository, others, catalogue):
        verdict = judge(target, one.path)
        if verdict.fits:
            return Choice(f"{one.name}, {reason}", one, verdict)
        refused += 1
    if refused:
        return Choice(f"none of the {refused} that might fit {target.path.name} does; `redline models pairs` says why")
    return Choice(f"no drafter for {target.path.name} is here")


def _candidates(
    target: ModelFolder, repository: str | None, present: Sequence[Present], catalogue: Catalogue | None
) -> Iterator[tuple[Present, str]]:
    """Those worth judging, the best first, each once, and what speaks for it."""
    told: set[Path] = set()
    for one, reason in (
        *_known(repository, present, catalogue),
        *_trained(target, present),
        *_siblings(target, present),
    ):
        if one.path not in told:
            told.add(one.path)
            yield one, reason


def _known(
    repository: str | None, present: Sequence[Present], catalogue: Catalogue | None
) -> Iterable[tuple[Present, str]]:
    entry = catalogue.target(repository) if catalogue else None
    if entry is None or catalogue is None:
        return []
    here = {one.repository: one for one in present}
    known = [drafter for drafter in catalogue.drafters_of(entry) if not drafter.trouble]
    return [(here[one.repository], "known for this target") for one in known if one.repository in here]


def _trained(target: ModelFolder, present: Sequence[Present]) -> Iterable[tuple[Present, str]]:
    return [(one, "trained for this target") for one in present if is_made_for(_config(one), target.vocabulary)]


def _siblings(target: ModelFolder, present: Sequence[Present]) -> Iterable[tuple[Present, str]]:
    """Small models whose vocabulary may be the target's, by its rows; only the tokens tell."""
    small = [one for one in present if 0 < one.size_bytes <= target.weights_bytes * SMALL_ENOUGH]
    alike = [one for one in small if _rows_alike(_config(one), target) and not unknown_kind(_config(one))]
    return [(one, "a small model of the same tokens") for one in sorted(alike, key=lambda one: one.size_bytes)]


def _rows_alike(config: dict[str, object], target: ModelFolder) -> bool:
    text = config.get("text_config")
    parts = [config, text if isinstance(text, dict) else {}]
    rows = next((part["vocab_size"] for part in parts if type(part.get("vocab_size")) is int), None)
    heads = {"draft_vocab_size", "eagle_config", "speculators_config", "medusa_num_heads"} & config.keys()
    return isinstance(rows, int) and target.rows is not None and abs(rows - target.rows) <= _PADDING and not heads


def _config(one: Present) -> dict[str, object]:
    """Its config.json; empty where there is none to read, which its verdict will say."""
    try:
        return read_json_object(one.path / "config.json")
    except ModelError:
        return {}
