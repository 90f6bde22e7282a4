"""A worker that plays a recording in place of a model: the answers of a real session. Imports no MLX.

A recording is a file of answers as the host wrote them (`--record`). Every Reply is given the next recorded reply,
whatever was asked, and the first again after the last; so with Load and Race. A Reply that continues one is given the
rest of the recorded reply that begins with the same tokens. Without a recorded Loaded, and for Count, answers are made
up. A Verify is answered if the same reply was checked in the recording, and refused otherwise.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from threading import Event as StopFlag

from msgspec import structs

from app import protocol
from engine.errors import UsageError
from engine.events import Finished
from engine.together import between_pieces

CONTEXT = 8192
CHARACTERS_A_TOKEN = 4
TOKENS_A_TURN = 5  # what a chat template puts around a message
TURN_S = 0.005  # that a reply waits for its next answer before the others may go on

# The kind of request that an answer belongs to; all others belong to replies.
_KINDS = {
    protocol.Loading: "load", protocol.Loaded: "load", protocol.VerifyProgress: "verify", protocol.VerifyDone: "verify",
    protocol.RaceProgress: "race", protocol.RaceDone: "race", protocol.Counted: "count",
}  # fmt: skip

Recorded = list[protocol.AnyAnswer]  # the answers to one request, to its end


class RecordingPlayer:
    """A worker that plays a recording. speed: times as fast as recorded; 0 is at once. The methods yield what those of
    `app.host.model_worker` yield."""

    def __init__(self, answers: Sequence[protocol.AnyAnswer], speed: float) -> None:
        if not 0 <= speed < math.inf:
            raise UsageError(f"speed is {speed}: give 1 for as recorded, 2 for twice as fast, 0 for at once")
        kinds = defaultdict[str, list[Recorded]](list)
        for one in by_request(answers):
            kinds[next((_KINDS[type(answer)] for answer in one if type(answer) in _KINDS), "reply")].append(one)
        self._checks, self._replies = kinds["verify"], kinds["reply"]
        self._next_load, self._next_race, self._next_reply = (cycle(kinds[kind]) for kind in ("load", "race", "reply"))
        self._speed = speed
        self.pair: protocol.Pair | None = None
        self.at_once: Callable[[], int] = lambda: 1  # nobody asks
        self._context = CONTEXT

    @classmethod
    def read(cls, path: Path, speed: float) -> RecordingPlayer:
        """Returns a player of the recording in a file. Raises UsageError for what is no recording."""
        try:
            lines = path.read_bytes().splitlines()
        except OSError as error:
            raise UsageError(f"{path} cannot be read ({error.strerror}): give a file that --record wrote") from error
        answers: list[protocol.AnyAnswer] = []
        for number, line in enumerate(lines, 1):
            try:
                answers.append(protocol.decode_answer(line))
            except protocol.MalformedError as error:
                raise UsageError(
                    f"{path}, line {number}: not an answer from a host ({error}): give a file that --record wrote"
                ) from error
        return cls(answers, speed)

    def load(self, request: protocol.Load) -> Iterator[protocol.AnyAnswer]:
        pair = request.pair
        made_up = protocol.Loaded(
            id=0, pair=pair, target="a recording", drafter=pair.drafter, speculation="on", note="", drafts_trees=False,
            context=CONTEXT,
        )  # fmt: skip
        for answer in next(self._next_load, [made_up]):
            if isinstance(answer, protocol.Loaded):
                self.pair, self._context = pair, pair.context or answer.context
                answer = structs.replace(answer, pair=pair, context=self._context)
                if pair.drafter == "none":
                    answer = structs.replace(answer, drafter="none", speculation="off", note="", drafts_trees=False)
            yield structs.replace(answer, id=request.id)

    def reply(self, request: protocol.Reply, stop: StopFlag) -> Iterator[protocol.AnyAnswer]:
        given = request.continuation_ids
        begun = (one for one in self._replies if given and tokens_of(one)[: len(given)] == given)
        recorded = next(begun, None) or next(self._next_reply, None)
        if recorded is None:
            raise UsageError("the recording holds no reply: give one that does")
        began_s = time.monotonic()
        played = yield from self._play(rest_of(recorded, len(given)), request.id, stop)
        if not any(isinstance(answer, protocol.ReplyDone | protocol.Failed) for answer in played):
            finished = Finished("cancelled", len(tokens_of(played)), time.monotonic() - began_s)
            yield protocol.ReplyDone(id=request.id, finished=finished, seed=request.sampling.seed or 0)

    def verify(self, request: protocol.Verify, stop: StopFlag) -> Iterator[protocol.AnyAnswer]:
        requested = tuple(token for kept in request.rounds for token in kept.tokens)
        known = any(tokens_of(reply) == requested for reply in self._replies)
        for recorded in self._checks if known else ():
            done = recorded[-1]
            if isinstance(done, protocol.VerifyDone) and done.receipt.tokens == len(requested):
                yield from (structs.replace(answer, id=request.id) for answer in recorded)
                return
        raise UsageError("a recording has no model to decode with: start Redline without --replay to verify replies")

    def race(self, request: protocol.Race, stop: StopFlag) -> Iterator[protocol.AnyAnswer]:
        recorded = next(self._next_race, None)
        if recorded is None:
            raise UsageError("the recording holds no race: give one that does, or open a race that was saved")
        played = yield from self._play(recorded, request.id, stop)
        if not any(isinstance(answer, protocol.RaceDone | protocol.Failed) for answer in played):
            pairs = sum(isinstance(answer, protocol.PairCompared) for answer in played)
            yield protocol.RaceDone(id=request.id, pairs=pairs, stopped=True)

    def count(self, request: protocol.Count, stop: StopFlag) -> Iterator[protocol.AnyAnswer]:
        tokens = sum(TOKENS_A_TURN + len(m.content) // CHARACTERS_A_TOKEN for m in request.messages)
        yield protocol.Counted(id=request.id, tokens=tokens, context=self._context)

    def unload(self, request: protocol.Unload) -> Iterator[protocol.AnyAnswer]:
        self.pair = None
        yield protocol.Unloaded(id=request.id)

    def prepare(self, wait: Callable[[float], bool]) -> None:
        """Does nothing: there is no model."""

    def give_back_memory(self) -> None:
        """Does nothing: there is no model."""

    def recover(self) -> None:
        """Does nothing: there is no state that could be broken."""

    def _play(self, recorded: Recorded, number: int, stop: StopFlag) -> Generator[protocol.AnyAnswer, None, Recorded]:
        """Yields answers at their recorded times until `stop` is set; returns those that were yielded."""
        began_s, played = time.monotonic(), list[protocol.AnyAnswer]()
        for answer in recorded:
            at_s = _time_of(answer)
            between_pieces()
            while at_s is not None and self._speed and not stop.is_set():
                left_s = began_s + at_s / self._speed - time.monotonic()
                if left_s <= 0:
                    break
                stop.wait(min(left_s, TURN_S))
                between_pieces()
            if stop.is_set() and not isinstance(answer, protocol.ReplyDone | protocol.RaceDone):
                break
            played.append(answer)
            yield structs.replace(answer, id=number)
        return played


def by_request(answers: Sequence[protocol.AnyAnswer]) -> list[Recorded]:
    """Returns the answers to each request, in the order of their first; where the host died before the end, they end
    with Failed."""
    open_: dict[int, Recorded] = {}
    found: list[Recorded] = []
    for answer in answers:
        if not isinstance(answer, protocol.RequestAnswer):
            continue
        if answer.id not in open_:
            found.append(open_.setdefault(answer.id, []))
        open_[answer.id].append(answer)
        if isinstance(answer, protocol.LastAnswer):
            del open_[answer.id]
    for number, cut in open_.items():
        cut.append(protocol.Failed(id=number, kind="RecordingEnds", message="the recording ends here"))
    return found


def tokens_of(reply: Recorded) -> tuple[int, ...]:
    """Returns every token id of a reply."""
    return tuple(token for answer in reply if isinstance(answer, protocol.RoundDone) for token in answer.round.tokens)


def rest_of(reply: Recorded, emitted: int) -> Recorded:
    """Returns a reply without its first `emitted` tokens, its times counted from there; all of it if it is shorter."""
    if not emitted or len(tokens_of(reply)) < emitted:
        return reply
    left, since_s, rest = emitted, 0.0, list[protocol.AnyAnswer]()
    for answer in reply:
        if isinstance(answer, protocol.RoundDone):
            round_, length = answer.round, len(answer.round.tokens)
            if left:
                since_s, left, cut = round_.time_s, max(0, left - length), min(left, length)
                if cut == length:
                    continue
                round_ = replace(round_, tokens=round_.tokens[cut:], p=round_.p[cut:], texts=round_.texts[cut:])
                round_ = replace(round_, drafted=(), q=(), accepted=0)
                answer = structs.replace(answer, drafted_texts=())
            answer = structs.replace(answer, round=replace(round_, time_s=round_.time_s - since_s))
        elif isinstance(answer, protocol.ReplyDone):
            end = answer.finished
            end = replace(end, time_s=end.time_s - since_s, tokens=end.tokens - emitted)
            answer = structs.replace(answer, finished=end)
        if not left and not isinstance(answer, protocol.PrefillProgress):
            rest.append(answer)
    return rest


def _time_of(answer: protocol.AnyAnswer) -> float | None:
    """Returns when an answer was sent, in seconds since its request; None means at once."""
    match answer:
        case protocol.RoundDone():
            return answer.round.time_s
        case protocol.PrefillProgress():
            return answer.progress.time_s
        case protocol.ReplyDone():
            return answer.finished.time_s
        case protocol.RaceProgress() | protocol.RunPart():
            return answer.time_s
    return None
