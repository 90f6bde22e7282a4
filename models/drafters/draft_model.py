"""Draft models on disk: ordinary, smaller models, with the target's tokens or with their own.

A chat template, an end-of-text token or a context length of its own is no reason to refuse one: the target's are used,
and the drafter's tokens are only accepted less often.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from engine.backend.mlx_lm_imports import why_unsound_type
from engine.drafters.cross_tokenizer import CrossTokenizerModel, TextDrafter, TokenBytes
from engine.drafters.draft_model import DraftModel
from engine.errors import ModelError, PairError
from models.chat_templates import read_templates
from models.drafters.draft_vocabulary_file import apply_draft_vocabulary
from models.drafters.drafter_kind import Compatibility, DrafterFiles, LoadedDrafter, Variants
from models.drafters.head_files import usual_acceptance
from models.drafters.head_folder import Fields
from models.loader import Loaded
from models.loader import load as load_model
from models.memory.memory_verdict import Share
from models.memory.model_size import measure
from models.model_folder import ModelFolder, check_folder
from models.parameters import weights_bytes
from models.token_bytes import read_token_bytes
from models.token_map import match_tokens, vocabulary_size

_MIN_SHARED = 0.05  # of the target's tokens: with fewer in common hardly a word could be drafted
MAX_TARGET_SHARE = 0.5
"""How large a draft model may be, of its target's bytes, to be offered. The policy bounds what a drafter that does not
pay may cost, so this only leaves out what can hardly pay. A drafted token costs as much of a plain step as the model
has of the bytes. At half of them and one token a round, of which four in five are accepted, a round gives 1.8 tokens in
the time of 1.5 steps; at two thirds it would be 1.8 in 1.67, for memory that a larger target would use better."""


class DraftModelFiles(DrafterFiles):
    def check(self, target: ModelFolder, folder: Path, read: Callable[[Path], ModelFolder]) -> Compatibility:
        drafter = read(folder)
        if reason := why_unsound_type(drafter.model_type):
            raise ModelError(f"{folder}: {drafter.model_type} models cannot be decoded exactly ({reason})")
        notes = tuple(_notes(target, drafter))
        try:
            shared = match_tokens(target, drafter)
        except PairError:
            share = _shared_share(folder, read_token_bytes(target.path), read_token_bytes(folder))
            reason = f"different tokenizer; drafts the {share:.0%} of the target's tokens that both have"
            return Compatibility(True, reason, notes, other_tokenizer=True)
        _mask_id(drafter)
        count = vocabulary_size(target.vocabulary)
        same = f"same {count:,} tokens" if shared == count else f"same tokens up to {shared:,} of {count:,}"
        return Compatibility(True, same, notes)

    def load(self, folder: Path, target: Loaded, trees: bool) -> LoadedDrafter:
        loaded = load_model(folder)
        try:
            shared = match_tokens(target.folder, loaded.folder)
        except PairError:
            return _load_other_tokenizer(loaded, target)
        ids = apply_draft_vocabulary(loaded, shared)
        mask_id = _mask_id(loaded.folder)
        drafter = DraftModel(loaded.model, target.model.vocabulary, shared, loaded.name, ids, mask_id)
        return LoadedDrafter(drafter, usual_acceptance(folder), step_price=_step_price(loaded, target))

    def footprint(self, folder: Path, item_bytes: int) -> Callable[[int], Share]:
        return measure(check_folder(folder)).share


FILES = DraftModelFiles()


def _mask_id(folder: ModelFolder) -> int | None:
    """Returns the token that stands for tokens drafted in parallel, None for an ordinary model (vllm-project/vllm,
    `vllm/v1/spec_decode/llm_base_proposer.py`). Raises ModelError for one that the model does not have."""
    fields = Fields(folder.path, folder.config)
    named = [key for key in ("pard_token", "ptd_token_id") if fields.get(key) is not None]
    return fields.token(named[0], folder.rows or 0) if named else None


def _shared_share(path: Path, target: Sequence[bytes], drafter: Sequence[bytes]) -> float:
    """Returns which share of the target's tokens stands for bytes that a token of the drafter stands for too. Raises
    PairError for two tokenizers that have too little in common. path: of the drafter, for the message."""
    of_target, of_drafter = set(target) - {b""}, set(drafter)
    share = len(of_target & of_drafter) / max(len(of_target), 1)
    if share < _MIN_SHARED:
        raise PairError(
            f"{path}: different tokenizer (only {share:.1%} of the target's tokens are known to it); "
            "choose a drafter of the same family"
        )
    return share


def _load_other_tokenizer(loaded: Loaded, target: Loaded) -> LoadedDrafter:
    target_bytes = read_token_bytes(target.folder.path)[: target.model.vocabulary]
    own = read_token_bytes(loaded.folder.path)[: loaded.model.vocabulary]
    _shared_share(loaded.folder.path, target_bytes, own)
    tokens = TokenBytes(
        target=target_bytes,
        drafter=own,
        encode=loaded.tokenizer.pieces,
        start=tuple(loaded.tokenizer.encode("")),
        ends=tuple(pair for pair in _paired_ends(loaded, target) if pair[0] < len(target_bytes) and pair[1] < len(own)),
        encode_target=target.tokenizer.pieces,
    )

    def make(kind: type[CrossTokenizerModel]) -> CrossTokenizerModel:
        loaded.model.rewind(0)
        return kind(loaded.model, tokens, loaded.name)

    shared = partial(make, CrossTokenizerModel)
    variants: Variants = {"tokens that both have": shared, "its text": partial(make, TextDrafter)}
    note = "it has a different tokenizer; a short trial decides whether it drafts shared tokens or text"
    return LoadedDrafter(shared(), step_price=_step_price(loaded, target), note=note, variants=variants)


def _step_price(loaded: Loaded, target: Loaded) -> float:
    """Returns what a step is taken to cost, see `LoadedDrafter`: in each all weights are read."""
    return weights_bytes(loaded.network) / weights_bytes(target.network)


def _paired_ends(loaded: Loaded, target: Loaded) -> list[tuple[int, int]]:
    """Returns pairs (target, drafter) of the tokens that end a reply: those of one name, then others in order."""
    names = {number: name for name, number in target.folder.vocabulary.items()}
    ends, own_ends = sorted(target.tokenizer.eos), loaded.tokenizer.eos
    pairs = {end: loaded.folder.vocabulary.get(names.get(end, ""), -1) for end in ends}
    alike = {end: own for end, own in pairs.items() if own in own_ends}
    others = [end for end in ends if end not in alike]
    return [*alike.items(), *zip(others, sorted(own_ends.difference(alike.values())), strict=False)]


def _notes(target: ModelFolder, drafter: ModelFolder) -> Iterator[str]:
    """Differences that do not matter, or only for speed."""
    if target.rows and drafter.rows and target.rows != drafter.rows:
        yield f"padded to {drafter.rows:,} rows (target: {target.rows:,})"
    if _template(target) != _template(drafter):
        yield "different chat template (the target's is used)"
    if set(target.eos_token_ids) != set(drafter.eos_token_ids):
        yield "different end-of-text tokens (the target's are used)"
    if drafter.context_length and target.context_length and drafter.context_length < target.context_length:
        yield f"made for contexts of {drafter.context_length:,} tokens (target: {target.context_length:,})"
    if drafter.weights_bytes > target.weights_bytes * MAX_TARGET_SHARE:
        yield f"{drafter.weights_bytes / target.weights_bytes:.0%} of the target's size, too large to save time"


def _template(folder: ModelFolder) -> str | None:
    template = read_templates(folder.path).default
    return None if template is None else template.strip()
