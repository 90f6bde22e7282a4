"""What each architecture was compared with: the implementation of its makers, and how far the logits were apart.

`references.json` holds the results, written by `python -m tests.models.references --write` from tiny networks that
transformers made and ran. An architecture without one was compared with mlx-lm's own network alone.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

ReferenceVerdict = Literal["right", "corrected", "renamed", "refused"]
FILE = Path(str(resources.files("models"))) / "references.json"
NO_REFERENCE = "no independent reference; it computes what mlx-lm computes"


@dataclass(frozen=True)
class Reference:
    """A comparison of one tiny network.

    name: of the network's folder. architecture: its model_type. implementation: with its version. before, after: the
    largest differences of logits whose spread is about 1, before and after windows and original contexts are passed;
    pieces: the same where a text is read in pieces. verdict: right as mlx-lm has it, corrected, renamed (tensors have
    other names), or refused. since: the date of that verdict.
    """

    name: str
    architecture: str
    implementation: str
    before: float
    after: float
    pieces: float
    verdict: ReferenceVerdict
    since: str

    @property
    def largest(self) -> float:
        return max(self.before, self.after, self.pieces)


@cache
def _table() -> tuple[tuple[Reference, ...], dict[str, str]]:
    """Returns all comparisons, and what mlx-lm computes with the network of another architecture."""
    found = json.loads(FILE.read_text())
    return tuple(Reference(**one) for one in found["references"]), found["networks"]


def references() -> tuple[Reference, ...]:
    """Returns all comparisons, by the names of their networks."""
    return _table()[0]


def references_of(model_type: str) -> tuple[Reference, ...]:
    """Returns the comparisons of an architecture, or else of those that mlx-lm computes with the same network."""
    network = _network_of(model_type)
    alike = tuple(one for one in references() if _network_of(one.architecture) == network)
    return tuple(one for one in alike if one.architecture == model_type) or alike


def reference_line(config: Mapping[str, object]) -> str:
    """Returns in one line what the architecture of a config.json was compared with, and how far it is from that."""
    model_type = str(config.get("model_type"))[:40]
    computed = [one for one in references_of(model_type) if one.verdict != "refused"]
    if not computed:
        return f"{model_type}: {NO_REFERENCE}"
    largest, first = max(one.largest for one in computed), computed[0]
    named = model_type if first.architecture == model_type else f"{model_type}, as {first.architecture}"
    some = [one for one in computed if one.verdict == "corrected"]
    where = "" if len(some) == len(computed) else " in some variants"
    corrected = f",{where} with Redline's corrections" if some else ""
    return f"{named}: logits within {largest:.0e} of {first.implementation}{corrected}"


def _network_of(model_type: str) -> str:
    """Returns the file of mlx_lm.models that computes an architecture."""
    return _table()[1].get(model_type, model_type).removesuffix("_text").replace("-", "_")
