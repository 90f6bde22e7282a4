"""How long a prompt takes to its first token, beside mlx-lm's, with the built-in pair and empty caches.

    python -m tests.programs.first_token [--tokens 4000] [--drafter auto] [--turns 5]

Both read the same prompt in turns, and each is the first every second time. Printed are the seconds of each turn, what
share of Redline's the drafter's reading is, and the median of Redline's seconds over mlx-lm's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

from app.inference.loaded_pair import LoadedPair, open_target
from app.inference.measured_reply import begin_reply
from app.inference.options import Options
from engine.events import Round
from engine.settings import SamplingSettings
from tests.programs.throughput import PROMPTS


class ReadingTime:
    """The seconds that a drafter takes to read prompts."""

    def __init__(self, pair: LoadedPair) -> None:
        self.seconds = 0.0
        drafter = pair.drafter.drafter
        if drafter is not None:
            self._sync = drafter.sync
            drafter.sync = self._timed  # type: ignore[method-assign]

    def _timed(self, *given: Any) -> None:
        began_s = time.perf_counter()
        self._sync(*given)
        self.seconds += time.perf_counter() - began_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=4000)
    parser.add_argument("--drafter", default="auto")
    parser.add_argument("--turns", type=int, default=5)
    args = parser.parse_args()
    pair = open_target(Options()).open_drafter(args.drafter, trees=False)
    reading = ReadingTime(pair)
    import mlx.core as mx  # for which the engine must ready the backend first
    from mlx_lm.generate import generate_step

    text = " ".join(json.loads(line)["turns"][0] for line in PROMPTS.read_text().splitlines())
    words = pair.target.tokenizer.encode(text)
    prompt = (words * (1 + args.tokens // len(words)))[: args.tokens]
    settings = SamplingSettings(temperature=0.0, max_tokens=4)

    def ours() -> None:
        next(event for event in begin_reply(pair, prompt, settings) if isinstance(event, Round))

    def theirs() -> None:
        next(generate_step(mx.array(prompt), pair.target.model.model, max_tokens=4))

    shares = []
    for turn in range(args.turns):
        seconds = {}
        reading.seconds = 0.0
        for way in (ours, theirs) if turn % 2 else (theirs, ours):
            began_s = time.perf_counter()
            way()
            seconds[way.__name__] = time.perf_counter() - began_s
            mx.synchronize()  # both have submitted the next step
        shares.append(seconds["ours"] / seconds["theirs"])
        drafter = f"{reading.seconds / seconds['ours']:.3f} of it the drafter's"
        print(f"Redline {seconds['ours']:.2f} s, {drafter}; mlx-lm {seconds['theirs']:.2f} s", flush=True)
    print(f"{len(prompt)} tokens: {statistics.median(shares):.3f} of mlx-lm's time to the first token")


if __name__ == "__main__":
    main()
