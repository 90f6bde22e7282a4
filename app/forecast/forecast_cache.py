"""Keeps on disk what a forecast needs every time: the target's plain replies, and what rounds cost under sampling.

The text has to be the target's own, sampled from the same distribution: acceptance depends on the positions that the
target gets to. No drafter takes part in it, so one set of replies serves all of them, and a second forecast writes
nothing. Costs at temperature 0 are those of the policy; sampling takes time of its own, noise over the whole
vocabulary for each row, so it is measured separately. For longer contexts see `app.inference.calibration`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
from engine.cost_measurement import measure
from engine.policy.costs import Costs

from app.inference import calibration, pair_loader
from app.inference.calibration import MILESTONES, Calibration
from engine import backend
from engine.events import Finished, Round
from engine.sampling import Sampler
from engine.session import Prompt, Session
from engine.settings import SamplingSettings
from models.forecast.teacher_forcing import TargetText
from models.loader import Loaded
from models.paths import cache_dir

FORMAT = 1
MAX_FILES = 100  # the oldest are removed
Value = TypeVar("Value")


class ValueCache(Generic[Value]):
    """Values on disk: a file of JSON lines, which only grows and is cheap to lose.

    Each value is one line, written at once, so Ctrl-C or a kill loses only the one being written. A damaged line is
    skipped; if the folder cannot be written, the work is done again next time.

    kind: of the values; key: what all of them depend on. root: of the cache, None for the user's.
    """

    def __init__(self, root: Path | None, key: Sequence[str], kind: type[Value]) -> None:
        name = hashlib.sha256(chr(0).join([str(FORMAT), *key]).encode()).hexdigest()[:24]
        self.path = cache_dir(root) / "predict" / f"{name}.jsonl"
        self._kind = kind
        self._values = dict(self._lines())

    def get(self, name: str) -> Value | None:
        return self._values.get(name)

    def put(self, name: str, value: Value) -> None:
        """Keeps a value in memory and, if the disk allows it, for the next time."""
        self._values[name] = value
        line = msgspec.json.encode((name, value)) + b"\n"
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            new = not self.path.exists()
            with self.path.open("ab") as file:
                # A line that a kill has cut must not spoil the next one, so each begins on a line of its own.
                os.write(file.fileno(), line if new else b"\n" + line)
            if new:
                self._remove_oldest()

    def _lines(self) -> list[tuple[str, Value]]:
        found: list[tuple[str, Value]] = []
        try:
            text = self.path.read_bytes()
        except OSError:
            return found
        for line in filter(None, text.split(b"\n")):
            with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
                found.append(msgspec.json.decode(line, type=tuple[str, self._kind]))  # type: ignore[name-defined]
        return found

    def _remove_oldest(self) -> None:
        files = sorted(self.path.parent.glob("*.jsonl"), key=lambda file: file.stat().st_mtime)
        for old in files[:-MAX_FILES]:
            old.unlink()


class _Reply(msgspec.Struct, frozen=True):
    """A plain reply. tokens: its ids, without the prompt. limit: the most tokens it could have had."""

    tokens: tuple[int, ...]
    limit: int


class PlainReplies:
    """The plain replies of one target with one set of sampling settings. root: of the cache, None for the user's."""

    def __init__(self, target: Loaded, session: Session, settings: SamplingSettings, root: Path | None = None) -> None:
        self._session = session
        self._settings = replace(settings, acceptance="coupled", stop=())  # plain decoding is the same under every rule
        found = backend.describe()
        weights = calibration.files_of(target.folder.path)
        facts = (found.device, found.library, found.dtype, weights, repr(self._settings), str(session.context))
        self._kept = ValueCache(root, ("replies", *facts), _Reply)

    def has(self, prompt: Sequence[int]) -> bool:
        """Returns whether the reply to `prompt` is there already."""
        return self._sound(prompt) is not None

    def text(self, prompt: Sequence[int]) -> TargetText:
        """Returns the reply to `prompt`, written now if it is not kept. Raises ContextError if there is no room."""
        reply = self._sound(prompt)
        if reply is None:
            reply = self._write(prompt)
            self._kept.put(_key(prompt), reply)
        return TargetText((*prompt, *reply.tokens), len(prompt), reply.limit)

    def _sound(self, prompt: Sequence[int]) -> _Reply | None:
        """Returns a kept reply if it is one that this target could have given."""
        reply, vocabulary = self._kept.get(_key(prompt)), self._session.target.vocabulary
        sound = reply is not None and 0 < len(reply.tokens) <= reply.limit
        return reply if sound and reply and all(0 <= token < vocabulary for token in reply.tokens) else None

    def _write(self, prompt: Sequence[int]) -> _Reply:
        self._session.forget()
        events = list(self._session.continue_tokens(Prompt(prompt), self._settings))
        assert isinstance(events[-1], Finished)
        tokens = tuple(token for event in events if isinstance(event, Round) for token in event.tokens)
        self._session.forget()
        return _Reply(tokens, min(self._settings.max_tokens, self._session.context - len(prompt)))


def _key(prompt: Sequence[int]) -> str:
    return hashlib.sha256(" ".join(map(str, prompt)).encode()).hexdigest()[:24]


class RoundCostCache:
    """The round costs of one pair with one set of sampling settings. Measuring empties the models' caches.

    calibration: of the pair at temperature 0. notice: called with a line of text before anything is measured.
    """

    def __init__(
        self, calibration: Calibration, settings: SamplingSettings, notice: Callable[[str], None] = lambda text: None
    ) -> None:
        self._calibration, self._settings, self._notice = calibration, settings, notice
        self._target, self._drafter = calibration.target, calibration.drafter
        self._found: dict[int, Costs] = {}

    def at(self, context: int) -> Costs:
        """Returns the costs of rounds after about `context` tokens."""
        return self._calibration.draw(context, self._costs_at)

    def forget(self) -> None:
        """Discards all costs, so that they are measured again."""
        self._found = {}
        self._calibration.forget()
        for milestone in MILESTONES:
            self._kept(milestone).path.unlink(missing_ok=True)

    def _kept(self, milestone: int) -> ValueCache[Costs]:
        sampling = f"{self._settings.acceptance} {replace(self._settings, seed=0)!r}"
        key = calibration.key_of(self._target, self._drafter, milestone)
        return ValueCache(self._calibration.root, ("prices", *key, sampling), Costs)

    def _costs_at(self, milestone: int) -> Costs:
        if milestone not in self._found:
            find = self._greedy_costs if self._settings.greedy else self._sampled_costs
            self._found[milestone] = find(milestone)
        return self._found[milestone]

    def _greedy_costs(self, milestone: int) -> Costs:
        """Returns the costs at temperature 0, which are those of the policy."""
        if not self._calibration.has(milestone):
            self._notify(milestone, "at temperature 0")
        return self._calibration.after(milestone)

    def _sampled_costs(self, milestone: int) -> Costs:
        """Returns the costs with these settings, measured unless they are kept."""
        kept = self._kept(milestone)
        found = kept.get("")
        if found is None or not calibration.is_sound(found, len(self._drafter.parts)):
            self._notify(milestone, f"with {self._settings.acceptance} sampling")
            target, widths = self._target.model, pair_loader.widths_of(self._drafter)
            sampler = Sampler(self._settings, target.vocabulary)
            found = measure(target, sampler, self._drafter.drafter, widths, milestone)
            kept.put("", found)
        return found

    def _notify(self, milestone: int, sampling: str) -> None:
        self._notice(f"measuring pass times after {milestone} tokens, {sampling} (once for this pair)")
