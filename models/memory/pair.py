"""What a target and its drafters take together, from their folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from models.folder import ModelFolder, check_folder
from models.heads.kinds import kind_of
from models.memory.footprint import Footprint, Share
from models.memory.heads import share_of_head
from models.memory.network import Measured, measure
from models.memory.verdict import Footprints

_REMEMBERED = 8


def footprints(target: ModelFolder, drafters: Sequence[Path] = (), kv_bits: int | None = None) -> Footprints:
    """Bytes by context, for a target with all these drafters loaded. kv_bits: of the target's keys and values.

    Raises ModelError where a folder would not load."""
    measured = _measured(target, kv_bits)
    models = [_measured(check_folder(path), None) for path in drafters if kind_of(path) == "model"]
    heads = [path for path in drafters if kind_of(path) != "model"]

    def at(context: int) -> Footprint:
        shares = [one.share(context) for one in models]
        shares += [share_of_head(path, measured.item_bytes, context) for path in heads]
        return Footprint(context, measured.share(context), _together(shares))

    at(1)  # a damaged head is found here
    return at


def _together(shares: Sequence[Share]) -> Share:
    """Of drafters that are loaded one after the other, and work one at a time."""
    return Share(
        weights=sum(share.weights for share in shares),
        loading=max((share.loading for share in shares), default=0),
        cache=sum(share.cache for share in shares),
        working=max((share.working for share in shares), default=0),
        tokenizer=sum(share.tokenizer for share in shares),
    )


def _measured(folder: ModelFolder, kv_bits: int | None) -> Measured:
    files = [*sorted(folder.path.glob("*.safetensors")), folder.path / "config.json"]
    facts = tuple((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files)
    key = (facts, kv_bits)
    if key not in _known:
        while len(_known) >= _REMEMBERED:
            del _known[next(iter(_known))]
        _known[key] = measure(folder, kv_bits)
    return _known[key]


_known: dict[tuple[tuple[tuple[str, int, int], ...], int | None], Measured] = {}
