"""A recording in the engine's place: the answers of a real session, played to whoever asks. Imports no MLX.

A recording is a file of answers as the host wrote them (`--record`). The first Reply is given the first recorded reply,
the next the next, and the first again after the last, whatever was asked; so with Loads. A Reply that goes on from what
was said goes on with the recorded reply that began so. Without a recorded Loaded, and for Counts, answers are made up;
for Verify they never are: what was checked in the recording is played, and nothing else can be checked without a model.
A Race is given the first recorded race, the next the next.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event

from msgspec import structs

from app.protocol import (
    AnyAnswer,
    Count,
    Counted,
    Failed,
    Load,
    Loaded,
    Loading,
    Malformed,
    MalformedError,
    Pair,
    PairCompared,
    PrefillProgress,
    Race,
    RaceDone,
    RaceProgress,
    Ready,
    Reply,
    ReplyDone,
    RoundDone,
    RunPart,
    Unload,
    Unloaded,
    Verify,
    VerifyDone,
    VerifyProgress,
    decode_answer,
)
from engine.errors import UsageError
from engine.events import Finished

CONTEXT = 8192
CHARACTERS_A_TOKEN = 4
TOKENS_A_TURN = 5  # what a chat template puts around a message

Numbered = list[AnyAnswer]  # of one id, to its end


class Replay:
    """A worker that plays. speed: times as fast as recorded; 0 is at once."""

    def __init__(self, answers: Sequence[AnyAnswer], speed: float) -> None:
        if not 0 <= speed < math.inf:
            raise UsageError(f"speed is {speed}: give 1 for as recorded, 2 for twice as fast, 0 for at once")
        whole = by_request(answers)
        self._loads = [one for one in whole if any(isinstance(answer, Loading | Loaded) for answer in one)]
        self._checks = [one for one in whole if any(isinstance(answer, VerifyProgress | VerifyDone) for answer in one)]
        self._races = [one for one in whole if any(isinstance(answer, RaceProgress | RaceDone) for answer in one)]
        others = [*self._loads, *self._checks, *self._races]
        self._replies = [one for one in whole if one not in others and not isinstance(one[-1], Counted)]
        self._speed = speed
        self._reply_count = self._loaded = self._raced = 0
        self.pair: Pair | None = None
        self._context = CONTEXT

    @classmethod
    def read(cls, path: Path, speed: float) -> Replay:
        """From a file. Raises UsageError for one that is no recording."""
        try:
            lines = path.read_bytes().splitlines()
        except OSError as error:
            raise UsageError(f"{path} cannot be read ({error.strerror}): give a file that --record wrote") from error
        answers: list[AnyAnswer] = []
        for number, line in enumerate(lines, 1):
            try:
                answers.append(decode_answer(line))
            except MalformedError as error:
                raise UsageError(
                    f"{path}, line {number}: no answer of a host ({error}): give a file that --record wrote"
                ) from error
        return cls(answers, speed)

    def prepare(self) -> None:
        """Nothing to do."""

    def recover(self) -> None:
        """Nothing to do."""

    def load(self, request: Load) -> Iterator[AnyAnswer]:
        pair = request.pair
        made_up = Loaded(
            id=0, pair=pair, target="a recording", drafter=pair.drafter, speculation="on", note="", drafts_trees=False,
            context=CONTEXT,
        )  # fmt: skip
        played = self._loads[self._loaded % len(self._loads)] if self._loads else [made_up]
        self._loaded += 1
        for answer in played:
            if isinstance(answer, Loaded):
                self.pair, self._context = pair, pair.context or answer.context
                answer = structs.replace(answer, pair=pair, context=self._context)
                if pair.drafter == "none":
                    answer = structs.replace(answer, drafter="none", speculation="off", note="", drafts_trees=False)
            yield _for(answer, request.id)

    def unload(self, request: Unload) -> Iterator[AnyAnswer]:
        self.pair = None
        yield Unloaded(id=request.id)

    def count(self, request: Count) -> Iterator[AnyAnswer]:
        tokens = sum(TOKENS_A_TURN + len(m.content) // CHARACTERS_A_TOKEN for m in request.messages)
        yield Counted(id=request.id, tokens=tokens, context=self._context)

    def verify(self, request: Verify, stop: Event) -> Iterator[AnyAnswer]:
        requested = tuple(token for emitted in request.rounds for token in emitted.tokens)
        known = any(tokens_of(reply) == requested for reply in self._replies)
        for played in self._checks if known else ():
            found = played[-1]
            if isinstance(found, VerifyDone) and found.receipt.tokens == len(requested):
                yield from (_for(answer, request.id) for answer in played)
                return
        raise UsageError("a recording has no model to decode with: start Redline without --replay to verify replies")

    def race(self, request: Race, stop: Event) -> Iterator[AnyAnswer]:
        if not self._races:
            raise UsageError("the recording holds no race: give one that does, or open a race that was saved")
        played = self._races[self._raced % len(self._races)]
        self._raced += 1
        began_s, whole = time.monotonic(), 0
        for answer in played:
            if isinstance(answer, RaceProgress | RunPart) and self._speed:
                stop.wait(max(0.0, began_s + answer.time_s / self._speed - time.monotonic()))
            if stop.is_set() and not isinstance(answer, RaceDone):
                yield RaceDone(id=request.id, pairs=whole, stopped=True)
                return
            whole += isinstance(answer, PairCompared)
            yield _for(answer, request.id)

    def reply(self, request: Reply, stop: Event) -> Iterator[AnyAnswer]:
        played = rest_of(self._choose(request.continuation_ids), len(request.continuation_ids))
        began_s, tokens, seed = time.monotonic(), 0, request.sampling.seed or 0
        for answer in played:
            at_s = _time_of(answer)
            if at_s is not None and self._speed:
                stop.wait(max(0.0, began_s + at_s / self._speed - time.monotonic()))
            if stop.is_set() and not isinstance(answer, ReplyDone):
                finished = Finished("cancelled", tokens, time.monotonic() - began_s)
                yield ReplyDone(id=request.id, finished=finished, seed=seed)
                return
            if isinstance(answer, RoundDone):
                tokens += len(answer.round.tokens)
            yield _for(answer, request.id)

    def _choose(self, emitted: Sequence[int]) -> Numbered:
        """The recorded reply to play."""
        if not self._replies:
            raise UsageError("the recording holds no reply: give one that does")
        begun = [one for one in self._replies if emitted and tokens_of(one)[: len(emitted)] == tuple(emitted)]
        if begun:
            return begun[0]
        self._reply_count += 1
        return self._replies[(self._reply_count - 1) % len(self._replies)]


def by_request(answers: Sequence[AnyAnswer]) -> list[Numbered]:
    """Answers of each request, in the order of its first; one that has no end, as the host died, fails at its end."""
    open_: dict[int, Numbered] = {}
    whole: list[Numbered] = []
    for answer in answers:
        if isinstance(answer, Ready | Malformed):
            continue
        if answer.id not in open_:
            open_[answer.id] = []
            whole.append(open_[answer.id])
        open_[answer.id].append(answer)
        if isinstance(answer, Loaded | Counted | ReplyDone | VerifyDone | RaceDone | Failed):
            del open_[answer.id]
    for number, cut in open_.items():
        cut.append(Failed(id=number, kind="RecordingEnds", message="the recording ends here"))
    return whole


def tokens_of(reply: Numbered) -> tuple[int, ...]:
    """Returns every token id of a reply."""
    return tuple(token for answer in reply if isinstance(answer, RoundDone) for token in answer.round.tokens)


def rest_of(reply: Numbered, emitted: int) -> Numbered:
    """Returns a reply without its first `emitted` tokens, its times counted from there; all of it if it is shorter."""
    if not emitted or len(tokens_of(reply)) < emitted:
        return reply
    left, since_s, rest = emitted, 0.0, list[AnyAnswer]()
    for answer in reply:
        if isinstance(answer, RoundDone) and left:
            round_ = answer.round
            skipped, left = min(left, len(round_.tokens)), max(0, left - len(round_.tokens))
            since_s = round_.time_s
            if skipped == len(round_.tokens):
                continue
            tail = replace(round_, tokens=round_.tokens[skipped:], p=round_.p[skipped:], texts=round_.texts[skipped:])
            answer = structs.replace(answer, round=replace(tail, drafted=(), q=(), accepted=0), drafted_texts=())
        if not left and not isinstance(answer, PrefillProgress):
            rest.append(_sooner(answer, since_s, emitted))
    return rest


def _sooner(answer: AnyAnswer, by_s: float, emitted: int) -> AnyAnswer:
    """Returns an answer `by_s` seconds earlier, and the end of a reply without its first `emitted` tokens."""
    if isinstance(answer, RoundDone):
        return structs.replace(answer, round=replace(answer.round, time_s=answer.round.time_s - by_s))
    if isinstance(answer, ReplyDone):
        end = answer.finished
        return structs.replace(answer, finished=replace(end, time_s=end.time_s - by_s, tokens=end.tokens - emitted))
    return answer


def _time_of(answer: AnyAnswer) -> float | None:
    """Returns when an answer was sent, in seconds since its request; None means at once."""
    if isinstance(answer, RoundDone):
        return answer.round.time_s
    if isinstance(answer, PrefillProgress):
        return answer.progress.time_s
    return answer.finished.time_s if isinstance(answer, ReplyDone) else None


def _for(answer: AnyAnswer, number: int) -> AnyAnswer:
    return answer if isinstance(answer, Ready | Malformed) else structs.replace(answer, id=number)
