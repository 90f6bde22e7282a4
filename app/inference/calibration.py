"""The costs of passes on this machine, measured once per (target, drafter, machine, context) and kept on disk.

Attention grows with the context, and for a pass of two rows by twice as much as for one: on 2 cores a drafted token
costs the built-in model 1.2 plain steps after 64 tokens and 1.3 after 1,024. So costs are measured after the
`MILESTONES` around a context, and taken from the straight line between them. Measuring takes seconds, for a large
model half a minute, so it is done ahead, while the model is idle. A reply that comes before that uses an estimate
(`pair_loader.estimate_costs`).

If a file cannot be read, its costs are measured again and it is replaced; if one cannot be written, they are only
measured again the next time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
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
from models.durable_files import replace_file
from models.loader import Loaded
from models.paths import cache_dir

FORMAT = 8
MOST = 200  # files kept; the oldest go
MILESTONES = (64, 1024, 4096)  # tokens of context that costs are measured after
NEAR = 128  # up to here the costs after the first will do
FAR = 2048  # up to here the line through the first two is extended: measuring after more takes long
BEYOND = 2  # times the last milestone: after more, costs are assumed to stay the same
_ROWS = 64  # that a measured pass may add after a milestone


@dataclass
class Calibration:
    """The costs of one pair on this machine, kept in memory too, so that nothing is measured twice where no disk keeps
    it. room: tokens that a context may have. root: of the
    cache, None for the user's. estimate: of the costs, where a reply needed one before anything was measured."""

    target: Loaded
    drafter: NamedDrafter
    room: int = MILESTONES[-1] + _ROWS
    root: Path | None = None
    estimate: Costs | None = field(init=False, default=None)
    _found: dict[int, Costs] = field(default_factory=dict)

    def milestones(self, context: int) -> tuple[int, ...]:
        """Returns the one or two milestones that costs after a context are taken from. Nothing is measured for a
        prompt that leaves no room for a reply."""
        within = tuple(milestone for milestone in MILESTONES if milestone + _ROWS <= self.room)
        if context <= NEAR or len(within) < 2 or context >= self.room:
            return MILESTONES[:1]
        return within[:2] if context <= FAR else within[-2:]

    def knows(self, context: int = 0) -> bool:
        """Returns whether `costs` need not measure anything."""
        return all(self.has(milestone) for milestone in self.milestones(context))

    def at_hand(self, context: int = 0) -> Costs | None:
        """Returns the costs after a context as far as they are known: from its milestones, else from the last one that
        has been measured before them. None if there is none."""
        if self.knows(context):
            return self.costs(context)
        known = [one for one in MILESTONES if one <= max(self.milestones(context)) and self.has(one)]
        return self._kept(known[-1]) if known else None

    def missing(self) -> tuple[int, ...]:
        """Returns the milestones that have not been measured, the nearest first."""
        within = (one for one in MILESTONES if one == MILESTONES[0] or one + _ROWS <= self.room)
        return tuple(one for one in within if not self.has(one))

    def has(self, milestone: int) -> bool:
        """Returns whether costs after this milestone have been measured."""
        return self._kept(milestone) is not None

    def costs(self, context: int = 0, pause: Callable[[], None] = lambda: None) -> Costs:
        """Returns the costs after a context. Measuring empties both caches: forget the session first.

        pause: called between passes while measuring; may raise to break off.
        """
        return self.draw(context, lambda milestone: self.after(milestone, pause))

    def draw(self, context: int, after: Callable[[int], Costs]) -> Costs:
        """Returns the costs after a context, from those `after` its milestones."""
        near, *far = self.milestones(context)
        if not far:
            return after(near)
        share = (min(context, BEYOND * far[0]) - near) / (far[0] - near)
        return between(after(near), after(far[0]), share)

    def after(self, milestone: int, pause: Callable[[], None] = lambda: None) -> Costs:
        """Returns the costs after a milestone, measured now if they are not known."""
        kept = self._kept(milestone)
        if kept is None:
            kept = self._found[milestone] = pair_loader.measure_costs(self.target, self.drafter, milestone, pause)
            self._write(self._file(milestone), kept)
        return kept

    def make_estimate(self, pause: Callable[[], None] = lambda: None) -> None:
        """Estimates the costs after a short context, for this process only. Empties both caches: forget the session
        first. pause: as in `costs`."""
        self.estimate = pair_loader.estimate_costs(self.target, self.drafter, pause)

    def forget(self) -> None:
        """Discards all costs, so that they are measured again: the machine was busy, or has changed."""
        self._found, self.estimate = {}, None
        self.discard_files()

    def discard_files(self) -> None:
        """Discards what is on disk; this process goes on with what it knows."""
        with contextlib.suppress(OSError):
            for milestone in MILESTONES:
                self._file(milestone).unlink(missing_ok=True)

    def _kept(self, milestone: int) -> Costs | None:
        if milestone not in self._found:
            with contextlib.suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
                kept = msgspec.json.decode(self._file(milestone).read_bytes(), type=Costs)
                if is_sound(kept, len(self.drafter.parts)):
                    self._found[milestone] = kept
        return self._found.get(milestone)

    def _file(self, milestone: int) -> Path:
        key = chr(0).join((str(FORMAT), *key_of(self.target, self.drafter, milestone)))
        return cache_dir(self.root) / "costs" / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"

    def _write(self, path: Path, costs: Costs) -> None:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, msgspec.json.encode(costs))
            for old in sorted(path.parent.glob("*.json"), key=lambda file: file.stat().st_mtime)[:-MOST]:
                old.unlink()


def key_of(target: Loaded, drafter: NamedDrafter, context: int) -> tuple[str, ...]:
    """Returns what costs depend on: machine, library, weights, and the milestone."""
    found = backend.describe()
    machine = (processor(), str(os.cpu_count()), found.device, found.library, found.detail, found.dtype, version("mlx"))
    drafters = [part.spec if part.folder is None else f"{part.spec} {files_of(part.folder)}" for part in drafter.parts]
    files = files_of(target.folder.path)
    weights = files if target.model.kv_bits is None else f"{files}, keys and values in {target.model.kv_bits} bits"
    if target.model.leader is not None:
        weights = f"{weights}, shared by {target.model.leader.ranks}"
    return (*machine, weights, *drafters, "trees" if drafter.branches else "chains", str(context))


def files_of(folder: Path) -> str:
    """Returns a folder's name and its weights' names, sizes and times: other weights are another model."""
    weights = sorted(folder.glob("*.safetensors"))
    facts = [f"{path.name}:{path.stat().st_size}:{path.stat().st_mtime_ns}" for path in weights]
    return " ".join([folder.name, *facts])


def is_sound(costs: Costs, parts: int) -> bool:
    """Returns whether these are costs of `parts` drafters, and target passes take time, as a policy divides by it."""
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
