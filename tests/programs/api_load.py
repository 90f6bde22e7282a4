"""Loads `redline serve` with the built-in model as unkind clients do, and prints a table: what came back, and memory.

    uv run python -m tests.programs.api_load [--mutated N] [--seed N]

Many at once: 50 requests, all of which must be answered. Vanishing: clients that leave within their stream; the server
must be free again soon. Slow: clients that take what they get a little at a time. Mutated: requests with pieces cut
out, doubled and replaced; none may be answered with a status of 500 or more. One that has lost its limit and writes for
long is left after 2 seconds. After each kind, a plain request must succeed.
"""

import argparse
import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

from tests.app.api.serve_process import Served, served

CHAT = {"messages": [{"role": "user", "content": "Name three colours."}], "max_tokens": 8, "seed": 1}
SEEDS = [
    ("/v1/chat/completions", {**CHAT, "max_tokens": 1, "temperature": 0.7, "stop": ["x"], "logit_bias": {"5": 1}}),
    ("/v1/completions", {"prompt": "a", "max_tokens": 1, "n": 2, "stream": True}),
    (
        "/v1/responses",
        {"max_output_tokens": 1, "input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}]}]},
    ),
    (
        "/v1/chat/completions",
        {
            "max_tokens": 1,
            "tools": [
                {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}, "strict": True}}
            ],
            "tool_choice": {"type": "function", "function": {"name": "f"}},
            "messages": [
                {"role": "user", "content": "a"},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": "abc", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
                },
                {"role": "tool", "tool_call_id": "abc", "content": "b"},
            ],
        },
    ),
    (
        "/v1/messages",
        {
            "model": "SmolLM2-135M-Instruct",
            "max_tokens": 1,
            "tools": [{"name": "f", "input_schema": {"type": "object"}}],
            "messages": [
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "abc", "name": "f", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "abc", "content": "b"}]},
            ],
        },
    ),
    ("/v1/messages", {"model": "SmolLM2-135M-Instruct", "max_tokens": 1, "messages": CHAT["messages"]}),
]
PIECES = [b'"', b"{", b"[", b"]", b"}", b",", b":", b"null", b"-1", b"1e999", b"\\ud800", b"\xff", b"\0", b"9" * 400]
AT_ONCE = 50


class Client:
    """Raw HTTP to a server."""

    def __init__(self, server: Served) -> None:
        self.server = server

    async def open(self, path: str, body: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Returns the streams of a request that has been sent."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port, limit=1 << 16)
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.server.port}\r\nAuthorization: Bearer {self.server.key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        writer.write(head.encode() + body)
        return reader, writer

    async def ask(self, path: str, body: bytes, pause_s: float = 0.0) -> tuple[int, bytes]:
        """Returns status and body. pause_s: before each 64 bytes that are read, 0 to read at once."""
        reader, writer = await self.open(path, body)
        try:
            answer = b""
            while piece := await reader.read(64 if pause_s else 1 << 16):
                answer += piece
                await asyncio.sleep(pause_s)
            return int(answer.split(b" ", 2)[1]), answer
        finally:
            writer.close()

    async def vanish(self, after: int) -> None:
        """Leaves a stream after so many bytes of it."""
        reader, writer = await self.open("/v1/chat/completions", body_of({**CHAT, "max_tokens": 2000, "stream": True}))
        if after:
            await reader.read(after)
        writer.transport.abort()


def body_of(value: object) -> bytes:
    return json.dumps(value).encode()


async def many(client: Client) -> str:
    """50 requests at once."""
    answers = await asyncio.gather(*(client.ask("/v1/chat/completions", body_of(CHAT)) for _ in range(AT_ONCE)))
    texts = {json.loads(body.split(b"\r\n\r\n", 1)[1])["choices"][0]["message"]["content"] for _, body in answers}
    return f"{dict(Counter(status for status, _ in answers))}, {len(texts)} different text for one seed"


async def vanishing(client: Client) -> str:
    """Clients that leave: at once, within the head, within the stream."""
    await asyncio.gather(*(client.vanish(after) for after in [0, 1, 300, 2000] * 10))
    return "40 left; replies of 2,000 tokens each were stopped"


async def slow(client: Client) -> str:
    """Clients that read 64 bytes at a time, while others want answers too."""
    asked = body_of({**CHAT, "stream": True})
    slow_ones = [asyncio.create_task(client.ask("/v1/chat/completions", asked, 0.02)) for _ in range(10)]
    status, _ = await client.ask("/v1/chat/completions", body_of(CHAT))
    before = sum(task.done() for task in slow_ones)
    whole = sum(b"[DONE]" in body for _, body in await asyncio.gather(*slow_ones))
    return f"{whole} of 10 streams whole; another client got {status} when {before} of them were through"


def mutated(random_: random.Random) -> tuple[str, bytes]:
    """Returns a request that something was done to."""
    path, value = random_.choice(SEEDS)
    body = bytearray(body_of(value))
    for _ in range(random_.randint(1, 4)):
        place, length = random_.randrange(len(body) + 1), random_.randint(0, 12)
        body[place : place + length] = random_.choice([b"", random_.choice(PIECES), bytes(body[place:][:20])])
    return path, bytes(body)


async def mutations(client: Client, count: int, seed: int) -> str:
    """Requests that are broken in all ways, eight at a time."""
    random_, statuses = random.Random(seed), Counter[int | str]()
    for start in range(0, count, 8):
        batch = [try_one(client, *mutated(random_)) for _ in range(min(8, count - start))]
        statuses.update(await asyncio.gather(*batch))
    if any(isinstance(status, int) and status >= 500 for status in statuses):
        raise AssertionError(f"the server failed: {dict(statuses)}")
    return f"{count} with seed {seed}: {dict(statuses)}"


async def try_one(client: Client, path: str, body: bytes) -> int | str:
    """Returns the status, or that the reply was left."""
    try:
        async with asyncio.timeout(2):
            return (await client.ask(path, body))[0]
    except TimeoutError:
        return "left"


async def load(server: Served, count: int, seed: int) -> int:
    """Prints a line for each kind of load; returns how many failed."""
    client, failed = Client(server), 0
    kinds: dict[str, Callable[[], Awaitable[str]]] = {
        "warm-up": lambda: many(client),
        "50 at once": lambda: many(client),
        "vanishing": lambda: vanishing(client),
        "slow readers": lambda: slow(client),
        "mutated": lambda: mutations(client, count, seed),
    }
    for name, run in kinds.items():
        try:
            line = await run()
            async with asyncio.timeout(60):
                status, _ = await client.ask("/v1/chat/completions", body_of(CHAT))
            line += f"; then {status}"
            failed += status != 200
        except Exception as error:  # noqa: BLE001  broad: whatever goes wrong is a line of the table
            failed, line = failed + 1, f"FAILS: {type(error).__name__}: {error}"
        memory = f"{server.megabytes:.0f} MB"
        print(f"| {name} | {line} | {memory} |", flush=True)
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutated", type=int, default=10_000, metavar="N", help="requests to mutate")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the mutations")
    args = parser.parse_args()
    with served() as server, suppress(KeyboardInterrupt):
        return asyncio.run(load(server, args.mutated, args.seed))
    return 1


if __name__ == "__main__":
    sys.exit(main())
