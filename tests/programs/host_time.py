"""What a token of plain decoding takes beside mlx-lm's, where the model itself takes next to nothing: the toy llama.

    python -m tests.programs.host_time [--turns 40]

Both in turns, greedy and at temperature 1, 48 tokens each: the quickest run of 12 tokens of all, as other work only
adds.
"""

import argparse
import time
from collections.abc import Callable, Sequence

import mlx.core as mx
from mlx_lm.generate import generate_step
from mlx_lm.sample_utils import make_sampler

from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from tests.engine.replies import PROMPT, reply
from tests.toys.architectures import build

TOKENS, RUN = 48, 12


def quickest(times_s: Sequence[float]) -> float:
    """Seconds a token of the quickest RUN of them, the first and last steps aside."""
    return min((times_s[i + RUN] - times_s[i]) / RUN for i in range(3, len(times_s) - RUN - 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=40)
    turns = parser.parse_args().turns
    network = build("llama")
    target = CachedModel(network)

    def theirs(temperature: float) -> list[float]:
        sampler = make_sampler(temp=temperature)
        steps = generate_step(mx.array(PROMPT), network, max_tokens=TOKENS, sampler=sampler)
        return [time.perf_counter() for _ in steps]

    def ours(temperature: float) -> list[float]:
        settings = SamplingSettings(temperature=temperature, seed=1)
        return [round_.time_s for round_ in reply(target, sampling=settings, tokens=TOKENS)[1]]

    sides: dict[str, Callable[[float], list[float]]] = {"mlx-lm": theirs, "Redline": ours}
    best = {(side, temperature): float("inf") for temperature in (0.0, 1.0) for side in sides}
    for _ in range(turns):
        for side, temperature in best:
            best[side, temperature] = min(best[side, temperature], quickest(sides[side](temperature)))
    for temperature in (0.0, 1.0):
        they, we = best["mlx-lm", temperature], best["Redline", temperature]
        print(f"temperature {temperature}: mlx-lm {1e6 * they:.0f} us, Redline {1e6 * we:.0f} us, {we / they:.2f}")


if __name__ == "__main__":
    main()
