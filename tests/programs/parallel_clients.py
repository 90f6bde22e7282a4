"""Has 64 clients ask `redline serve` with the built-in model for minutes, and prints how it fared.

    uv run python -m tests.programs.parallel_clients [--clients N] [--seconds N] [--parallel N]
    uv run python -m tests.programs.parallel_clients --each-alone 200 [--parallel N]

Each client asks again and again for a stream of 16 to 64 tokens; one request in eight leaves in the middle of it, and
one in eight has a long prompt. The table has, every tenth of the time, the memory of the server; at the end the longest
gaps between the chunks of a stream that has begun, the longest waits for the first, how many requests each client got,
and the text of one seed asked alone and asked in the crowd, which must be the same.

With `--each-alone` so many requests of all kinds (lengths, sampling settings, grammars, predictions, long prompts)
arrive at random, some of which leave; then each is asked again alone, and the texts are compared.
"""

import argparse
import asyncio
import json
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.app.api.serve_process import Served, served
from tests.programs.api_load import Client, body_of
from tests.programs.throughput import PROMPTS

LONG = "The river runs to the sea, and the sea is wide. " * 60
FIRST = "Name three colors."
ATTEMPTS = 200  # of a request that is refused
QUESTIONS = [json.loads(line)["turns"][0] for line in PROMPTS.read_text().splitlines()]


@dataclass
class Counts:
    """first_s, gaps_s: seconds to the first text of each stream, and between two. whole: by client. refused: answers
    that were no stream. vanished: clients that left. differing: texts of FIRST that were not the one asked alone."""

    first_s: list[float] = field(default_factory=list)
    gaps_s: list[float] = field(default_factory=list)
    whole: dict[int, int] = field(default_factory=dict)
    refused: int = 0
    vanished: int = 0
    differing: int = 0


def request(question: str, tokens: int) -> bytes:
    messages = [{"role": "user", "content": question}]
    return body_of({"messages": messages, "max_tokens": tokens, "seed": 1, "stream": True})


async def stream(client: Client, body: bytes, counts: Counts, leave_after: int = 0) -> str | None:
    """Reads a stream; returns its text, None where the client left after so many chunks or got none."""
    reader, writer = await client.open("/v1/chat/completions", body)
    try:
        began_s = last_s = time.monotonic()
        text, chunks = "", 0
        while line := await reader.readline():
            if not line.startswith(b"data: {"):
                continue
            delta = (json.loads(line[6:])["choices"] or [{}])[0].get("delta", {})
            if "content" not in delta:
                continue
            now_s = time.monotonic()
            (counts.gaps_s if chunks else counts.first_s).append(now_s - (last_s if chunks else began_s))
            text, chunks, last_s = text + delta["content"], chunks + 1, now_s
            if chunks == leave_after:
                counts.vanished += 1
                return None
        counts.refused += not chunks
        return text if chunks else None
    finally:
        writer.transport.abort()


async def client_of(number: int, server: Served, until_s: float, alone: str, counts: Counts) -> None:
    """Asks until the time is over."""
    chance, client = random.Random(number), Client(server)
    counts.whole[number] = 0
    while time.monotonic() < until_s:
        kind = chance.randrange(8)
        if kind == 0:
            await stream(client, request(f"Count on from {number}.", 64), counts, leave_after=chance.randint(1, 8))
            continue
        if kind == 1:
            text = await stream(client, request(f"{LONG} Question {number}: where does it run?", 16), counts)
        else:
            text = await stream(client, request(FIRST, 32), counts)
            counts.differing += text is not None and text != alone
        counts.whole[number] += text is not None


async def load(server: Served, clients: int, seconds: float) -> Counts:
    """Prints the memory meanwhile."""
    alone = await stream(Client(server), request(FIRST, 32), Counts())
    assert alone
    counts, began_s = Counts(), time.monotonic()
    tasks = [
        asyncio.create_task(client_of(number, server, began_s + seconds, alone, counts)) for number in range(clients)
    ]
    print("| seconds | MB | streams |\n| --- | --- | --- |")
    for _ in range(10):
        await asyncio.sleep(seconds / 10)
        print(
            f"| {time.monotonic() - began_s:.0f} | {server.megabytes:.0f} | {sum(counts.whole.values())} |", flush=True
        )
    await asyncio.gather(*tasks)
    assert await stream(Client(server), request(FIRST, 32), Counts()) == alone
    return counts


def mixed_request(number: int) -> tuple[bytes, int]:
    """Returns one of many kinds of requests, and after how many chunks its client leaves, 0 for never."""
    chance = random.Random(number)
    question = chance.choice([*QUESTIONS, FIRST, f"{LONG} Question {number}: where does it run?"])
    body = {
        "messages": [{"role": "user", "content": question}],
        "stream": True,
        "max_tokens": chance.randint(8, 96),
        "temperature": chance.choice([0, 0.7, 1]),
        "top_p": chance.choice([1, 0.9]),
        "frequency_penalty": chance.choice([0, 0, 0.5]),
        "seed": number,
    }
    if chance.randrange(6) == 0:
        body["response_format"] = {"type": "json_object"}
    elif chance.randrange(6) == 0:
        body["prediction"] = {"type": "content", "content": question}
    return body_of(body), chance.randint(1, 8) if chance.randrange(8) == 0 else 0


async def each_alone(server: Served, replies: int) -> None:
    """Prints how many texts are the same as when asked alone."""
    client, chance, counts = Client(server), random.Random(0), Counts()
    requests = [mixed_request(number) for number in range(replies)]
    arrivals_s = [chance.uniform(0, 0.8 * replies) for _ in requests]

    async def ask(arrival_s: float, body: bytes, leave_after: int) -> str | None:
        await asyncio.sleep(arrival_s)
        for _ in range(ATTEMPTS):
            text = await stream(client, body, counts, leave_after)
            if text is not None or leave_after:
                return text
            await asyncio.sleep(chance.uniform(1, 4))  # too many wait already
        return None

    crowd = [ask(arrival_s, *one) for arrival_s, one in zip(arrivals_s, requests, strict=True)]
    texts, same = await asyncio.gather(*crowd), 0
    whole = {number: text for number, text in enumerate(texts) if text is not None}
    for number, text in whole.items():
        alone = await stream(client, requests[number][0], Counts())
        if text != alone:
            print(f"request {number} differs: {text!r} and alone {alone!r}", flush=True)
        same += text == alone
    print(f"{same} of {len(whole)} whole texts the same; left: {counts.vanished}; refused: {counts.refused}")


def table(counts: Counts) -> str:
    """Returns what the clients saw."""
    rows = ["| | median | 99 of 100 | longest |", "| --- | --- | --- | --- |"]
    for name, values in (("to the first text, s", counts.first_s), ("between two chunks, s", counts.gaps_s)):
        ordered = sorted(values)
        most = ordered[int(0.99 * (len(ordered) - 1))]
        rows.append(f"| {name} | {statistics.median(ordered):.2f} | {most:.2f} | {ordered[-1]:.2f} |")
    least, most_ = min(counts.whole.values()), max(counts.whole.values())
    rows.append(f"\nwhole streams of a client: {least} to {most_}; left: {counts.vanished}; refused: {counts.refused}")
    rows.append(f"texts that differ from the one asked alone: {counts.differing}")
    return "\n".join(rows)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--parallel", type=int, default=4)
    parser.add_argument("--each-alone", type=int, metavar="N", help="ask N requests in a crowd, and each again alone")
    args = parser.parse_args(words)
    with served("--parallel", str(args.parallel)) as server:
        if args.each_alone:
            asyncio.run(each_alone(server, args.each_alone))
        else:
            print(table(asyncio.run(load(server, args.clients, args.seconds))))


if __name__ == "__main__":
    main()
