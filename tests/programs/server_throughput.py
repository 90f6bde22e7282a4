"""How long several requests at once take from servers that speak OpenAI's protocol, each asked in turn.

    uv run python -m tests.programs.server_throughput URL [URL ...] [--at-once 8] [--tokens 128] [--repeats 2]
                                                      [--model NAME ...] [--key-file FILE]

Each request is one of the shortest prompts of the benchmark, greedy, streamed, from a connection of its own. Printed
are, for each server, the medians over the repeats of the seconds until all replies are there, the seconds per hundred
tokens as its usage counts them, their share of the first server's, and the median request's time to its first text.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path

from tests.programs.throughput import PROMPTS


@dataclass(frozen=True)
class Answer:
    """first_s: until the first text. tokens: of the reply, as the server counts them."""

    first_s: float
    tokens: int


@dataclass(frozen=True)
class Turn:
    """All requests to one server at once."""

    answers: Sequence[Answer]
    total_s: float

    @property
    def per_hundred_s(self) -> float:
        return 100 * self.total_s / sum(answer.tokens for answer in self.answers)


@dataclass(frozen=True)
class Server:
    """key: that it asks for, "" for none."""

    url: str
    key: str

    def open(self, path: str, body: object = None) -> HTTPResponse:
        """Returns the answer to a request, which is a POST where it has a body."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.key}"}
        answer: HTTPResponse = urllib.request.urlopen(urllib.request.Request(f"{self.url}{path}", data, headers))
        return answer

    def model(self) -> str:
        with self.open("/v1/models") as answer:
            return str(json.load(answer)["data"][0]["id"])


def ask(server: Server, model: str, question: str, tokens: int) -> Answer:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": question}],
        "max_tokens": tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    began_s, first_s, usage = time.monotonic(), None, {"completion_tokens": 0}
    with server.open("/v1/chat/completions", body) as lines:
        for line in lines:
            if not line.startswith(b"data: {"):
                continue
            chunk = json.loads(line[6:])
            usage = chunk.get("usage") or usage
            if first_s is None and any(choice["delta"].get("content") for choice in chunk["choices"]):
                first_s = time.monotonic() - began_s
    assert first_s is not None, f"{server.url} sent no text"
    return Answer(first_s, usage["completion_tokens"])


def ask_all(server: Server, model: str, questions: Sequence[str], tokens: int) -> Turn:
    began_s = time.monotonic()
    with ThreadPoolExecutor(len(questions)) as pool:
        answers = list(pool.map(lambda question: ask(server, model, question, tokens), questions))
    return Turn(answers, time.monotonic() - began_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("urls", nargs="+", metavar="URL")
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--model", action="append", help="once for each URL (default: the first that it lists)")
    parser.add_argument("--key-file", type=Path, help="that `redline serve` was given")
    args = parser.parse_args()
    key = args.key_file.read_text().strip() if args.key_file else ""
    questions = sorted((json.loads(line)["turns"][0] for line in PROMPTS.read_text().splitlines()), key=len)
    servers = [Server(url, key) for url in args.urls]
    named = args.model or [""] * len(servers)
    models = {server: name or server.model() for server, name in zip(servers, named, strict=True)}
    for server, model in models.items():
        ask(server, model, questions[args.at_once], 16)
    turns: dict[str, list[Turn]] = {url: [] for url in args.urls}
    for _ in range(args.repeats):
        for server, model in models.items():
            turns[server.url].append(ask_all(server, model, questions[: args.at_once], args.tokens))
    for url, own in turns.items():
        seconds = [turn.per_hundred_s for turn in own]
        shares = [mine / first.per_hundred_s for mine, first in zip(seconds, turns[args.urls[0]], strict=True)]
        first_s = statistics.median(answer.first_s for turn in own for answer in turn.answers)
        total_s = statistics.median(turn.total_s for turn in own)
        print(f"{url}: {total_s:.1f} s, {statistics.median(seconds):.2f} s per 100 tokens,", end=" ")
        print(f"{statistics.median(shares):.2f} of the first", flush=True)
        print(f"    first text {first_s:.2f} s, tokens {[answer.tokens for answer in own[0].answers]}", flush=True)


if __name__ == "__main__":
    main()
