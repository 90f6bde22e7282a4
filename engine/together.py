"""Several replies at once, in one thread: each is a coroutine, and their passes of one model become one pass.

A reply hands over where it wants the device: for a pass (`run`), before it waits for the device (`before_waiting`),
between two pieces of a prompt (`between_pieces`) and between two rounds (`between_rounds`). `Together.turn` gathers
what all of them want, has the passes of one model run as one, and lets each reply go on with its own rows. The
coroutines are greenlets, so that a reply is written as if it were alone; outside of one, these functions hand over
nothing, and a pass runs at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from greenlet import GreenletExit, getcurrent, greenlet

if TYPE_CHECKING:  # replies that are played back need no MLX
    import mlx.core as mx

_WAITS, _READS, _PLANS = "waits for the device", "reads a prompt", "plans its next round"


class Pass(Protocol):
    """A pass that a reply wants. group: passes of one group are run as one. size_bytes: of the weights that it reads,
    as smaller models draft for larger ones. reads: whether it reads a prompt."""

    @property
    def group(self) -> Hashable: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def reads(self) -> bool: ...

    def run(self) -> mx.array:
        """Runs this pass alone; returns lazy logits (rows, vocabulary)."""

    def run_with(self, others: Sequence[Any]) -> list[mx.array]:
        """Runs this pass and `others` of its group as one; returns the logits of each."""


class _Reply(greenlet):
    """The coroutine of a reply. wanted: what it handed over for last; None before it began. shares_passes: whether its
    passes may be joined with those of others. failure: what it raised. driver: who resumes it."""

    wanted: Pass | str | None = None
    shares_passes = True
    failure: BaseException | None = None

    def __init__(self, work: Callable[[], None], driver: Together) -> None:
        super().__init__()
        self._work, self.driver = work, driver

    def run(self) -> None:
        """Writes the reply. What it raises is kept, so that the others have their turn first."""
        try:
            self._work()
        except GreenletExit:
            raise
        except BaseException as error:  # noqa: BLE001  broad: whoever drives it gets it
            self.failure = error

    @property
    def reads(self) -> bool:
        """Whether it begins, or reads its prompt."""
        wanted = self.wanted
        return wanted in (None, _READS) if wanted is None or isinstance(wanted, str) else wanted.reads

    def hand_over(self, wanted: Pass | str) -> Any:
        """Has the driver go on, until that resumes this reply; returns the logits of the pass that was wanted."""
        assert self.parent is not None
        return self.parent.switch(wanted)

    def resume(self, *logits: mx.array) -> None:
        """Lets the reply go on, with the logits that it wanted."""
        self.wanted = self.switch(*logits)

    def fail(self, error: Exception) -> None:
        """Lets the reply go on with the error that its pass raised."""
        self.wanted = self.throw(error)


def takes_part() -> bool:
    """Whether a driver runs the reply that asks, and may join its passes with those of others."""
    reply = getcurrent()
    return isinstance(reply, _Reply) and reply.shares_passes


def keep_passes_apart() -> None:
    """Has no pass of the reply that asks joined with those of others, as they would change how it is rounded."""
    reply = getcurrent()
    if isinstance(reply, _Reply):
        reply.shares_passes = False


def run(wanted: Pass) -> mx.array:
    """Returns the logits of a pass, once all replies that take part have said what they want."""
    logits: mx.array = cast(_Reply, getcurrent()).hand_over(wanted) if takes_part() else wanted.run()
    return logits


def before_waiting() -> None:
    """Lets every other reply submit its round to the device before this one waits for it."""
    _hand_over(_WAITS)


def between_pieces() -> None:
    """Lets the other replies do a round before this one reads more of its prompt."""
    _hand_over(_READS)


def between_rounds() -> None:
    """Lets every other reply end its round before this one plans another, so that each knows what came of all."""
    _hand_over(_PLANS)


def others_read() -> bool:
    """Whether another reply reads its prompt in the turns of the one that asks, which take longer by that."""
    reply = getcurrent()
    return isinstance(reply, _Reply) and reply.driver.reads()


def _hand_over(reason: str) -> None:
    reply = getcurrent()
    if isinstance(reply, _Reply):
        reply.hand_over(reason)


class Together:
    """Replies that are written at once, by the thread that calls `turn`."""

    def __init__(self) -> None:
        self._replies: list[_Reply] = []

    @property
    def running(self) -> int:
        """How many replies have begun and not ended."""
        return len(self._replies)

    def at_once(self) -> int:
        """Returns how many replies write in rounds now, the one that asks included; at least 1. The others begin, or
        read their prompts."""
        asking = getcurrent()
        return max(1, sum(reply is asking or not reply.reads for reply in self._replies))

    def reads(self) -> bool:
        """Whether a reply other than the one that asks begins, or reads its prompt."""
        asking = getcurrent()
        return any(reply is not asking and reply.reads and not reply.dead for reply in self._replies)

    def start(self, work: Callable[[], None]) -> None:
        """Begins a reply in the next turn. `work` writes all of it, and raises nothing."""
        self._replies.append(_Reply(work, self))

    def turn(self) -> None:
        """Has each reply that writes do one round, and each that reads its prompt one piece of it.

        First all replies plan. Then come the passes, those of smaller models before those of larger ones, so that what
        all drafted is verified at once. Then, with everything submitted, each reply waits for its own round. Raises in
        the end what a reply raised.
        """
        for reply in self._that(lambda wanted: wanted in (None, _READS, _PLANS)):
            reply.resume()
        while wanting := self._that(lambda wanted: not isinstance(wanted, str)):
            self._run_smallest(wanting)
        for reply in self._that(lambda wanted: wanted == _WAITS):
            reply.resume()
        ended = [reply for reply in self._replies if reply.dead]
        self._replies = self._that(lambda _: True)
        for reply in ended:
            if reply.failure is not None:
                raise reply.failure

    def close(self) -> None:
        """Ends all replies where they stand."""
        while self._replies:
            self._replies.pop().throw()

    def _that(self, fits: Callable[[Any], bool]) -> list[_Reply]:
        return [reply for reply in self._replies if not reply.dead and fits(reply.wanted)]

    def _run_smallest(self, wanting: Sequence[_Reply]) -> None:
        """Runs the passes of the smallest model as one, and has the replies that wanted them go on."""
        passes = {reply: cast(Pass, reply.wanted) for reply in wanting}
        first = min(passes.values(), key=lambda wanted: wanted.size_bytes)
        taking = [reply for reply, wanted in passes.items() if wanted.group == first.group]
        try:
            logits = _run_together([passes[reply] for reply in taking])
        except Exception as error:  # noqa: BLE001  broad: each reply meets the error where it wanted the pass
            for reply in taking:
                reply.fail(error)
        else:
            for reply, rows in zip(taking, logits, strict=True):
                reply.resume(rows)


def _run_together(passes: Sequence[Pass]) -> list[mx.array]:
    return [passes[0].run()] if len(passes) == 1 else passes[0].run_with(passes[1:])
