"""Creates the trainee, and the reader of target states, for each kind of drafter."""

from collections.abc import Sequence

import mlx.core as mx

from engine.target.model_layout import layers_of
from models.loader import Loaded
from models.training.dflash_trainee import DFlashTrainee
from models.training.draft_model_trainee import DraftTrainee, default_layers
from models.training.eagle3_trainee import Eagle3Trainee
from models.training.medusa_trainee import MedusaTrainee
from models.training.mtp_trainee import MtpTrainee
from models.training.target_layer import points
from models.training.target_states import TargetStateReader
from models.training.trainee import Trainee
from models.training.training_plan import (
    BLOCK_LAYERS,
    DRAFT_VOCABULARY,
    MIN_SHORTLIST,
    SHORTLIST_SHARE,
    TrainingKind,
    TrainingOptions,
)


def make_reader(target: Loaded, kind: TrainingKind) -> TargetStateReader:
    """Returns the reader of what this kind learns from. Raises ModelError if the target's states cannot be read."""
    read = points(len(layers_of(target.network))) if kind in ("eagle3", "dflash") else ()
    return TargetStateReader(target.network, read, target.folder.config)


def make_trainee(
    target: Loaded, kind: TrainingKind, shape: tuple[int, int], reader: TargetStateReader, ids: Sequence[int], seed: int
) -> Trainee:
    """Returns a new trainee. shape: (depths, layers). ids: the draft vocabulary. Raises FitError."""
    depths, layers = shape
    vocabulary = mx.array(list(ids), mx.int32)
    if kind == "eagle3":
        return Eagle3Trainee(target, vocabulary, depths, reader.width, seed)
    if kind == "medusa":
        return MedusaTrainee(target, vocabulary, depths, reader.hidden, seed)
    if kind == "mtp":
        return MtpTrainee(target, vocabulary, depths, reader.hidden, seed)
    if kind == "dflash":
        return DFlashTrainee(target, vocabulary, (depths, layers), reader.width, seed)
    return DraftTrainee(target, layers, vocabulary)


def draft_vocabulary_size(target: Loaded, options: TrainingOptions) -> int:
    """Returns the size of the draft vocabulary."""
    whole = target.model.vocabulary
    usual = max(MIN_SHORTLIST, whole // SHORTLIST_SHARE) if options.kind == "draft" else DRAFT_VOCABULARY
    return min(options.vocabulary or usual, whole)


def drafter_layers(target: Loaded, options: TrainingOptions) -> int:
    """Returns the number of layers of a draft model or a block drafter; 0 for kinds that have their own number."""
    if options.kind == "dflash":
        return options.layers or BLOCK_LAYERS
    return (options.layers or default_layers(len(layers_of(target.network)))) if options.kind == "draft" else 0
