"""An event loop whose time stands still until a test steps it, while sockets and processes are as real as ever."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tests import waiting

T = TypeVar("T")
TURNS = 200  # of the loop, in which all happens that waits for no time


class SteppedLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.time_s = 0.0
        super().__init__()

    def time(self) -> float:
        return self.time_s


def run(scenario: Coroutine[Any, Any, T]) -> T:
    """Runs a scenario in such a loop."""
    with asyncio.Runner(loop_factory=SteppedLoop) as runner:
        return runner.run(scenario)


async def advance(seconds: float) -> None:
    """Lets time go on, and all happen that is due."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SteppedLoop)
    await settle()
    loop.time_s += seconds
    await settle()


async def settle() -> None:
    """Has everything happen in this process that waits for no time."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def until(holds: Callable[[], object]) -> None:
    """Returns once `holds()`, whatever time another process takes for it."""
    await asyncio.to_thread(waiting.until, holds)
