"""The three kinds of drafter, by name."""

from __future__ import annotations

from collections.abc import Sequence

from engine.anatomy import layers_of
from models.fit import eagle3
from models.fit.draft import DraftTrainee, default_layers
from models.fit.eagle3 import Eagle3Trainee
from models.fit.medusa import MedusaTrainee
from models.fit.plan import DRAFT_VOCABULARY, LEAST_SHORTLIST, SHORTLIST_SHARE, Kind, Wish
from models.fit.reading import Reader
from models.fit.trainee import Trainee
from models.fit.vocabulary import as_array
from models.load import Loaded


def make_reader(target: Loaded, kind: Kind) -> Reader:
    """Reads what a drafter of this kind learns from. Raises ModelError for a target whose states cannot be read."""
    points = eagle3.points(len(layers_of(target.network))) if kind == "eagle3" else ()
    return Reader(target.network, points, target.folder.config)


def make_trainee(
    target: Loaded, kind: Kind, shape: tuple[int, int], reader: Reader, ids: Sequence[int], seed: int
) -> Trainee:
    """shape: (depths, layers), of which each kind takes its own. ids: the draft vocabulary. Raises FitError."""
    depths, layers = shape
    if kind == "eagle3":
        return Eagle3Trainee(target, as_array(ids), depths, reader.width, seed)
    if kind == "medusa":
        return MedusaTrainee(target, as_array(ids), depths, reader.hidden, seed)
    return DraftTrainee(target, layers, as_array(ids))


def vocabulary_size(target: Loaded, wish: Wish) -> int:
    """Tokens that the drafter drafts."""
    whole = target.model.vocabulary
    usual = max(LEAST_SHORTLIST, whole // SHORTLIST_SHARE) if wish.kind == "draft" else DRAFT_VOCABULARY
    return min(wish.vocabulary or usual, whole)


def layers_wanted(target: Loaded, wish: Wish) -> int:
    """Of a draft model; 0 for the other kinds."""
    return (wish.layers or default_layers(len(layers_of(target.network)))) if wish.kind == "draft" else 0
