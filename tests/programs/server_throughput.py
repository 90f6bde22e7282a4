"""How long several requests at once take from servers that speak OpenAI's protocol, each asked in turn.

    uv run python -m tests.programs.server_throughput URL [URL ...] [--at-once 8] [--tokens 128] [--repeats 2]
                                                      [--model NAME]... [--key-env VAR]...

Each request is one of the shortest prompts of the benchmark, greedy, streamed, from a connection of its own. Printed
are, for each server, the medians over the repeats of the seconds until all replies are there, the seconds per hundred
tokens as its usage counts them, their share of the first server's, and the median request's time to its first text.
"""

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from app.protocol.race_messages import Server
from app.remote.openai_client import ServerClient
from app.remote.server_reply import ServerReply
from engine.metrics import Metrics
from engine.settings import SamplingSettings
from tests.programs.throughput import PROMPTS

Answer = tuple[float, int]
"""Seconds until the first text, and the tokens of the reply as the server counts them."""


@dataclass(frozen=True)
class Turn:
    """All requests to one server at once."""

    answers: Sequence[Answer]
    total_s: float

    @property
    def per_hundred_s(self) -> float:
        return 100 * self.total_s / sum(tokens for _, tokens in self.answers)


def ask(client: ServerClient, settings: SamplingSettings, question: str) -> Answer:
    reply = ServerReply(client.name, client.product, settings)
    arrivals = client.chat([{"role": "user", "content": question}], settings, lambda: False)
    metrics = Metrics.of(list(reply.events(arrivals)))
    tokens = reply.report(metrics.prompt_tokens, metrics).tokens
    assert metrics.ttft_s is not None and tokens is not None, f"{client.name} does not count its tokens"
    return metrics.ttft_s, tokens


def ask_all(client: ServerClient, settings: SamplingSettings, questions: Sequence[str]) -> Turn:
    began_s = time.monotonic()
    with ThreadPoolExecutor(len(questions)) as pool:
        answers = list(pool.map(partial(ask, client, settings), questions))
    return Turn(answers, time.monotonic() - began_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("urls", nargs="+", metavar="URL")
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--model", action="append", help="once for each URL (default: the first that it lists)")
    parser.add_argument("--key-env", action="append", help="variable that holds its key, once for each URL")
    args = parser.parse_args()
    questions = sorted((json.loads(line)["turns"][0] for line in PROMPTS.read_text().splitlines()), key=len)
    nothing = [""] * len(args.urls)
    named = zip(args.urls, args.model or nothing, args.key_env or nothing, strict=True)
    clients = [ServerClient(Server(url=url, model=model, key_env=key)) for url, model, key in named]
    for client in clients:
        ask(client, SamplingSettings(max_tokens=16), questions[args.at_once])
    turns: list[list[Turn]] = [[] for _ in clients]
    for _ in range(args.repeats):
        for own, client in zip(turns, clients, strict=True):
            own.append(ask_all(client, SamplingSettings(max_tokens=args.tokens), questions[: args.at_once]))
    for own, client in zip(turns, clients, strict=True):
        seconds = [turn.per_hundred_s for turn in own]
        shares = [mine / first.per_hundred_s for mine, first in zip(seconds, turns[0], strict=True)]
        first_s = statistics.median(first_s for turn in own for first_s, _ in turn.answers)
        total_s = statistics.median(turn.total_s for turn in own)
        print(f"{client.name}: {total_s:.1f} s, {statistics.median(seconds):.2f} s per 100 tokens,", end=" ")
        print(f"{statistics.median(shares):.2f} of the first")
        print(f"    first text {first_s:.2f} s, tokens {[tokens for _, tokens in own[0].answers]}", flush=True)


if __name__ == "__main__":
    main()
