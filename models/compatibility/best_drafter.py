"""The best drafter on this machine for a target: what `--drafter auto` takes.

The built-in model has its own. For any other target, the first of these that is compatible:

    1. the head that the target's own folder brings
    2. a drafter that the catalogue knows for the target, in the catalogue's order
    3. one that was trained here for the target's tokens, as its config.json says (`redline fit`)
    4. a model with the same tokens and at most half the bytes, the one that promises most first
    5. such a model with other tokens, if it was named once and enough of its drafts were accepted in the trial

Prompt lookup always drafts too: it costs nothing where it has nothing to copy, and the policy takes whichever of the
two is worth more now. Folders are checked one after the other and no more than needed, as a large tokenizer takes a
quarter of a second.
"""

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.errors import ModelError
from models.builtin import SHIPPED, is_builtin, is_shipped, shipped_folder
from models.catalogue.entries import Catalogue
from models.compatibility.pair_check import check_compatibility
from models.drafters import LOOKUP, LOOKUP_LABEL, MODEL, kinds_in, own_head
from models.drafters.draft_model import MAX_TARGET_SHARE
from models.drafters.drafter_kind import LONGEST_CHAIN
from models.drafters.target_match import is_made_for
from models.drafters.variant_trial import best_rate
from models.durable_files import read_json_object
from models.model_config import first_count
from models.model_folder import ModelFolder
from models.paths import name_of

PAYING_RATE = 0.4  # of drafted tokens, for a model with other tokens: below it, prompt lookup is better
_FULL_SIZE, _A_DOUBLING = 0.9, 0.08  # the acceptance rate that is expected of a model of the target's own size, and how
# much less of one of half the size: about 0.6 at a 14th (Qwen2.5 0.5B for 7B, vLLM's pull request 38174) and 0.77 at a
# third (0.5B for 1.5B, by the speeds of fixed draft lengths, which were 1.46, 1.92 and 1.71 at 1, 3 and 5)
_MIN_RATE = 0.2  # expected of the smallest models
_PADDING = 4096  # how many padding rows two equal vocabularies may differ by


@dataclass(frozen=True)
class UsableModel:
    """A whole model or drafter on this machine. repository: on the hub, where it came from; None if unknown."""

    name: str
    path: Path
    size_bytes: int
    repository: str | None = None


@dataclass(frozen=True)
class DrafterChoice:
    """The drafter that was chosen, None if nothing fits, and why, in one line."""

    why: str
    drafter: UsableModel | None = None


@dataclass(frozen=True)
class AutoDrafter:
    """What auto takes. spec: as --drafter takes it. why: what was taken and what for, to follow "auto took"."""

    spec: str
    why: str


def auto_drafter(
    target: ModelFolder, models: Sequence[UsableModel], catalogue: Catalogue | None, cache_root: Path | None = None
) -> AutoDrafter:
    """Returns what `--drafter auto` takes for `target`, given the models on this machine. cache_root: of Redline's
    cache, with the results of trials; None for the user's."""
    if is_builtin(target.path):
        best = SHIPPED[0]
        if not is_shipped(best):
            return AutoDrafter(LOOKUP, f"{LOOKUP_LABEL}, because the shipped {best} is missing")
        return AutoDrafter(f"{LOOKUP}+{best}", f"{LOOKUP_LABEL} and {best}, which is shipped for this model")
    choice = best_drafter(target, models, catalogue, cache_root)
    if choice.drafter is None:
        return AutoDrafter(LOOKUP, f"{LOOKUP_LABEL}, because {choice.why}")
    path = str(choice.drafter.path)
    if "+" in path:  # a plus separates the names of several drafters
        return AutoDrafter(path, choice.why)
    return AutoDrafter(f"{LOOKUP}+{path}", f"{LOOKUP_LABEL} and {choice.why}")


def best_drafter(
    target: ModelFolder, models: Sequence[UsableModel], catalogue: Catalogue | None, cache_root: Path | None = None
) -> DrafterChoice:
    """Returns the best of `models` for `target`, which may be one of them. catalogue: None for none."""
    own = os.path.realpath(target.path)
    repository = next((model.repository for model in models if os.path.realpath(model.path) == own), None)
    others = [model for model in models if os.path.realpath(model.path) != own]
    refused = 0
    known = (*_own(target), *_known(repository, others, catalogue), *_trained(target, others))
    found = (*known, *_small_models(target, others), *_tried_models(target, others, cache_root))
    for model, reason in _each_once(found):
        verdict = check_compatibility(target, model.path)
        if verdict.fits and verdict.other_tokenizer:
            rate = best_rate(model.path, target.path, cache_root)
            if rate >= PAYING_RATE:
                return DrafterChoice(f"{model.name} ({rate:.0%} of its drafted tokens were accepted in a trial)", model)
        elif verdict.fits:
            return DrafterChoice(f"{model.name}, {reason}", model)
        refused += 1
    if refused:
        which = "the one drafter found" if refused == 1 else f"all {refused} drafters found"
        verb = "is" if refused == 1 else "are"
        return DrafterChoice(f"{which} for {name_of(target.path)} {verb} incompatible; `redline models pairs` says why")
    return DrafterChoice(f"there is no drafter for {name_of(target.path)} on this machine")


def shipped_drafters() -> list[UsableModel]:
    """Returns the drafters that come with Redline and are there."""
    folders = [(name, shipped_folder(name)) for name in SHIPPED if is_shipped(name)]
    return [UsableModel(name, path, sum(file.stat().st_size for file in path.iterdir())) for name, path in folders]


def _each_once(found: Iterable[tuple[UsableModel, str]]) -> Iterator[tuple[UsableModel, str]]:
    """Yields each model with the first reason to take it."""
    seen: set[Path] = set()
    for model, reason in found:
        if model.path not in seen:
            seen.add(model.path)
            yield model, reason


def _own(target: ModelFolder) -> Iterable[tuple[UsableModel, str]]:
    head = own_head(target.path)
    name = f"the {head.label} of {name_of(target.path)}" if head is not None else ""
    return [(UsableModel(name, target.path, 0), "which comes with it")] if head is not None else []


def _known(
    repository: str | None, models: Sequence[UsableModel], catalogue: Catalogue | None
) -> Iterable[tuple[UsableModel, str]]:
    entry = catalogue.target(repository) if catalogue else None
    if entry is None or catalogue is None:
        return []
    here = {model.repository: model for model in models}
    known = [drafter for drafter in catalogue.drafters_of(entry) if not drafter.trouble]
    return [(here[one.repository], "known for this target") for one in known if one.repository in here]


def _trained(target: ModelFolder, models: Sequence[UsableModel]) -> Iterable[tuple[UsableModel, str]]:
    return [(model, "trained for this target") for model in models if is_made_for(_config(model), target.vocabulary)]


def _small_models(target: ModelFolder, models: Sequence[UsableModel]) -> Iterable[tuple[UsableModel, str]]:
    """Smaller models whose vocabulary is about as large as the target's; only the check compares the tokens."""
    similar = [model for model in _smaller(target, models) if _is_similar(_config(model), target)]
    similar.sort(key=lambda model: -expected_speedup(model.size_bytes / target.weights_bytes))
    return [(model, "a small model with the same tokens") for model in similar]


def _tried_models(
    target: ModelFolder, models: Sequence[UsableModel], cache_root: Path | None
) -> Iterable[tuple[UsableModel, str]]:
    """Smaller models that were tried for this target, and pay."""
    rated = ((model, best_rate(model.path, target.path, cache_root)) for model in _smaller(target, models))
    return [(model, "which was tried") for model, rate in rated if rate >= PAYING_RATE]


def _smaller(target: ModelFolder, models: Sequence[UsableModel]) -> list[UsableModel]:
    return [model for model in models if 0 < model.size_bytes <= target.weights_bytes * MAX_TARGET_SHARE]


def expected_speedup(share: float) -> float:
    """Returns by how much a draft model with this share of the target's bytes is expected to speed up a reply, at the
    draft length that suits it, before anything is known of the two.

    A drafted token costs `share` of a plain step, as decoding reads all weights; acceptance is taken to fall by the
    same amount with every halving of the size. The rest is Leviathan 2023 (arXiv 2211.17192), theorem 3.8.
    """
    rate = max(_MIN_RATE, _FULL_SIZE + _A_DOUBLING * math.log2(share))
    return max((1 - rate ** (k + 1)) / ((1 - rate) * (1 + k * share)) for k in range(1, LONGEST_CHAIN + 1))


def _is_similar(config: dict[str, object], target: ModelFolder) -> bool:
    """Whether this is the config.json of an ordinary model with about as many rows as the target."""
    if kinds_in(config) != [MODEL]:
        return False
    rows = first_count(config, "vocab_size")
    return rows is not None and target.rows is not None and abs(rows - target.rows) <= _PADDING


def _config(model: UsableModel) -> dict[str, object]:
    """Its config.json; empty if it cannot be read, which the check will report."""
    try:
        return read_json_object(model.path / "config.json")
    except ModelError:
        return {}
