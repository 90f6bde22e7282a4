"""How long several requests take: one after another, at once, and in mlx-lm's batches, with the built-in pair.

    uv run python -m tests.programs.throughput [--at-once 4 8] [--tokens 128] [--repeats 3] [--drafter auto]
                                               [--plain] [--temperature 0 1] [--without-mlx-lm]

Each repeat takes all ways in turn, with the same weights and the shortest prompts of the benchmark. "One after another"
is Redline drafting, "at once" is `engine.together`, and mlx-lm is the `BatchGenerator` of its server, which drafts
nothing. Printed are, for each number of requests, the medians over the repeats: seconds a hundred tokens of all
requests together (a reply may end early), what share that is of each way's seconds, the median request's time to its
first token, and how many texts are the ones that the same requests get one after another.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from app.inference.loaded_pair import LoadedPair, open_target
from app.inference.measured_reply import begin_reply
from app.inference.options import Options
from engine.events import Event, Round
from engine.settings import SamplingSettings
from engine.together import Together

PROMPTS = Path(__file__).parents[2] / "resources/prompts/bench.jsonl"


@dataclass
class Answers:
    """What one way to answer all requests gave. texts: ids by request. first_s: when each had its first token."""

    texts: dict[int, list[int]] = field(default_factory=dict)
    first_s: dict[int, float] = field(default_factory=dict)
    began_s: float = field(default_factory=time.monotonic)
    total_s: float = 0.0

    def add(self, request: int, tokens: Sequence[int]) -> None:
        self.first_s.setdefault(request, time.monotonic() - self.began_s)
        self.texts.setdefault(request, []).extend(tokens)

    def end(self) -> Answers:
        self.total_s = time.monotonic() - self.began_s
        return self

    @property
    def per_hundred_s(self) -> float:
        return 100 * self.total_s / sum(map(len, self.texts.values()))


def write(seat: LoadedPair, request: int, prompt: list[int], settings: SamplingSettings, answers: Answers) -> None:
    event: Event
    for event in begin_reply(seat, prompt, settings, learns=True):
        if isinstance(event, Round):
            answers.add(request, event.tokens)


def one_after_another(seats: Sequence[LoadedPair], prompts: Sequence[list[int]], settings: SamplingSettings) -> Answers:
    answers = Answers()
    for request, prompt in enumerate(prompts):
        write(seats[0], request, prompt, settings, answers)
    return answers.end()


def at_once(
    driver: Together, seats: Sequence[LoadedPair], prompts: Sequence[list[int]], settings: SamplingSettings
) -> Answers:
    answers = Answers()
    for request, (seat, prompt) in enumerate(zip(seats, prompts, strict=False)):
        driver.start(partial(write, seat, request, prompt, settings, answers))
    while driver.running:
        driver.turn()
    return answers.end()


def batches_of_mlx_lm(pair: LoadedPair, prompts: Sequence[list[int]], settings: SamplingSettings) -> Answers:
    from mlx_lm.generate import BatchGenerator  # it imports MLX, for which the engine must ready the backend first
    from mlx_lm.sample_utils import make_sampler

    stops = [[token] for token in pair.session.tokenizer.eos]
    generator = BatchGenerator(pair.target.model.model, stop_tokens=stops, sampler=make_sampler(settings.temperature))
    answers, limits = Answers(), [settings.max_tokens] * len(prompts)
    requests = {uid: request for request, uid in enumerate(generator.insert(prompts, limits))}
    open_ = set(requests)
    while open_:
        for found in generator.next()[1]:
            answers.add(requests[found.uid], [found.token])
            if found.finish_reason is not None:
                open_.discard(found.uid)
    generator.close()
    return answers.end()


def compare(ways: dict[str, Callable[[], Answers]], repeats: int) -> None:
    """Takes the ways in turn and prints a line for each."""
    found: dict[str, list[Answers]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            found[name].append(way())
    reference = found["one after another"][0].texts
    for name, answers in found.items():
        seconds = [one.per_hundred_s for one in answers]
        others = [[one.per_hundred_s for one in made] for made in found.values()]
        shares = [statistics.median(mine / theirs for mine, theirs in zip(seconds, of, strict=True)) for of in others]
        first_s = statistics.median(time_s for one in answers for time_s in one.first_s.values())
        same = [one.texts[request] == reference[request] for one in answers for request in one.texts]
        print(
            f"  {name:17} {statistics.median(seconds):6.2f} s per 100 tokens, of each way",
            " ".join(f"{share:.2f}" for share in shares),
            f"first token {first_s:.2f} s, {sum(same)} of {len(same)} texts the same",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--at-once", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--drafter", default="auto")
    parser.add_argument("--plain", action="store_true", help="at once without drafts")
    parser.add_argument("--temperature", type=float, nargs="+", default=[0.0, 1.0])
    parser.add_argument("--without-mlx-lm", action="store_true")
    args = parser.parse_args()
    pair = open_target(Options()).open_drafter(args.drafter, trees=False)
    driver = Together()
    pair.at_once = driver.at_once
    seats = [pair, *(pair.for_another_reply() for _ in range(max(args.at_once) - 1))]
    turns = sorted((json.loads(line)["turns"][0] for line in PROMPTS.read_text().splitlines()), key=len)
    for temperature in args.temperature:
        settings = SamplingSettings(temperature=temperature, seed=1, max_tokens=args.tokens, acceptance="coupled")
        prompts = [pair.prompt_ids([{"role": "user", "content": turn}], settings) for turn in turns]
        write(pair, 0, prompts[max(args.at_once)], settings, Answers())  # teaches what rounds take here
        for number in args.at_once:
            ways: dict[str, Callable[[], Answers]] = {
                "one after another": partial(one_after_another, seats, prompts[:number], settings),
                "at once": partial(at_once, driver, seats, prompts[:number], settings),
            }
            if args.plain:
                plain = SamplingSettings(**{**vars(settings), "draft_length": 0})
                ways["at once, plain"] = partial(at_once, driver, seats, prompts[:number], plain)
            if not args.without_mlx_lm:
                ways["mlx-lm"] = partial(batches_of_mlx_lm, pair, prompts[:number], settings)
            print(f"{number} requests, temperature {temperature:g}: {', '.join(ways)}", flush=True)
            compare(ways, args.repeats)


if __name__ == "__main__":
    main()
