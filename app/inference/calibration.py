"""What passes cost here, measured once a (target, drafter, machine, context) and kept on disk.

Attention grows with the context, and for a pass of two rows by twice as much as for one: on 2 cores a drafted token
costs the built-in model 1.2 plain steps behind 64 tokens and 1.3 behind 1,024. So costs are measured behind the
`MILESTONES` around a context, and drawn along the straight line between them.

A file that cannot be read, or was written by another version, is measured again and replaced; one that cannot be
written costs a measurement the next time and nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import msgspec

from app.inference import pair_loader
from app.inference.machine import processor
from app.inference.pair_loader import NamedDrafter
from engine import backend
from engine.policy.costs import Costs, between
from models.loader import Loaded
from models.paths import cache_dir

FORMAT = 4
MOST = 200  # files kept; the oldest go
MILESTONES = (64, 1024, 4096)  # tokens of context that costs are measured behind
NEAR = 128  # up to here those behind the first will do
FAR = 2048  # up to here the line through the first two goes on: to measure behind more takes long
BEYOND = 2  # times the last milestone: behind more, costs are taken for what they are there
_ROWS = 64  # that a pass to measure may add behind a milestone


class _Kept(msgspec.Struct, frozen=True):
    """costs: as measured. key: in plain words, so that files can be distinguished."""

    format: int
    key: tuple[str, ...]
    costs: Costs


@dataclass
class Calibration:
    """Costs of one pair here: kept ones, or fresh ones. What was found once is remembered, so that nothing is measured
    twice where no disk keeps it. room: tokens that a context may have. root: of the cache, None for the user's."""

    target: Loaded
    drafter: NamedDrafter
    room: int = MILESTONES[-1] + _ROWS
    root: Path | None = None
    _found: dict[int, Costs] = field(default_factory=dict)

    def milestones(self, context: int) -> tuple[int, ...]:
        """What costs behind a context are drawn from: one or two. A prompt that leaves no room is not measured for."""
        within = tuple(milestone for milestone in MILESTONES if milestone + _ROWS <= self.room)
        if context <= NEAR or len(within) < 2 or context >= self.room:
            return MILESTONES[:1]
        return within[:2] if context <= FAR else within[-2:]

    def knows(self, context: int = 0) -> bool:
        """Whether `costs` would not have to measure."""
        return all(self.has(milestone) for milestone in self.milestones(context))

    def has(self, milestone: int) -> bool:
        """Whether it was measured behind it."""
        return self._kept(milestone) is not None

    def costs(self, context: int = 0, pause: Callable[[], None] = lambda: None) -> Costs:
        """Behind a context. Measuring empties both caches: forget the session first.

        pause: called between passes while measuring; may raise to break off.
        """
        return self.draw(context, lambda milestone: self.behind(milestone, pause))

    def draw(self, context: int, behind: Callable[[int], Costs]) -> Costs:
        """Costs behind a context, from those `behind` its milestones."""
        near, *far = self.milestones(context)
        if not far:
            return behind(near)
        share = (min(context, BEYOND * far[0]) - near) / (far[0] - near)
        return between(behind(near), behind(far[0]), share)

    def behind(self, milestone: int, pause: Callable[[], None] = lambda: None) -> Costs:
        """The same behind a milestone, as measured."""
        kept = self._kept(milestone)
        if kept is None:
            kept = self._found[milestone] = pair_loader.measure_costs(self.target, self.drafter, milestone, pause)
            key = key_of(self.target, self.drafter, milestone)
            _write(costs_file(key, self.root), _Kept(FORMAT, key, kept))
        return kept

    def forget(self) -> None:
        """Measure everything again: the machine was busy, or is another now."""
        self._found = {}
        for milestone in MILESTONES:
            costs_file(key_of(self.target, self.drafter, milestone), self.root).unlink(missing_ok=True)

    def _kept(self, milestone: int) -> Costs | None:
        if milestone not in self._found:
            key = key_of(self.target, self.drafter, milestone)
            kept = _read(costs_file(key, self.root), key, len(self.drafter.parts))
            if kept is None:
                return None
            self._found[milestone] = kept
        return self._found[milestone]


def costs_file(key: tuple[str, ...], root: Path | None = None) -> Path:
    """Where the costs of this key are kept."""
    return cache_dir(root) / "costs" / f"{hashlib.sha256(chr(0).join(key).encode()).hexdigest()[:24]}.json"


def key_of(target: Loaded, drafter: NamedDrafter, context: int) -> tuple[str, ...]:
    """What was measured: machine, library, weights, and the milestone."""
    found = backend.describe()
    machine = (processor(), str(os.cpu_count()), found.device, found.library, found.detail, found.dtype, version("mlx"))
    drafters = [_print(part) for part in drafter.parts]
    files = files_of(target.folder.path)
    weights = files if target.model.kv_bits is None else f"{files}, keys and values in {target.model.kv_bits} bits"
    return (*machine, weights, *drafters, "trees" if drafter.branches else "chains", str(context))


def _print(drafter: NamedDrafter) -> str:
    return f"{drafter.spec} {files_of(drafter.folder)}" if drafter.folder is not None else drafter.spec


def files_of(folder: Path) -> str:
    """A folder by its name and its weights' sizes and times: other weights are another model."""
    weights = sorted(folder.glob("*.safetensors"))
    facts = [f"{path.name}:{path.stat().st_size}:{path.stat().st_mtime_ns}" for path in weights]
    return " ".join([folder.name, *facts])


def _read(path: Path, key: tuple[str, ...], parts: int) -> Costs | None:
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=_Kept)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    known = (kept.format, kept.key) == (FORMAT, key) and is_sound(kept.costs, parts)
    return kept.costs if known else None


def is_sound(costs: Costs, parts: int) -> bool:
    """Whether these are costs of so many drafters, and every pass takes time, as a policy divides by it."""
    each = [costs, *costs.members]
    return len(costs.members) == (parts if parts > 1 else 0) and all(
        own.verify
        and own.draft
        and own.plain_s > 0
        and (own.eager is None or own.eager > 0)
        and min(s for _, s in own.verify) > 0
        and min(s for _, s in own.draft) >= 0
        for own in each
    )


def _write(path: Path, kept: _Kept) -> None:
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as part:
            part.write(msgspec.json.format(msgspec.json.encode(kept)))
        Path(part.name).replace(path)
        for old in sorted(path.parent.glob("*.json"), key=lambda file: file.stat().st_mtime)[:-MOST]:
            old.unlink()
