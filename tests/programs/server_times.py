"""Are the times of a race against a server those that another client sees?

    uv run --with openai python -m tests.programs.server_times [--pairs 25]

A server on loopback sends 64 tokens at fixed times. Redline's client and the `openai` package in a plain loop ask it in
turns, in an order that changes. Printed are the medians of the seconds to the first text and of the tokens a second
after it, and how far Redline's are from the others.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

from app.protocol.race_messages import Server
from app.remote.openai_client import ServerClient
from app.remote.server_reply import ServerReply
from engine.events import Round
from engine.settings import SamplingSettings
from tests.app.remote.toy_servers import END, USAGE, Handler, ToyServer, delta, event

TOKENS, FIRST_S, EACH_S = 64, 0.3, 0.02
QUESTION = [{"role": "user", "content": "Hi"}]
Times = tuple[float, float]
"""Seconds to the first text, and tokens a second after it."""


def paced(handler: Handler) -> None:
    began_s = time.monotonic()
    handler.stream()
    for number in range(TOKENS):
        time.sleep(max(0.0, began_s + FIRST_S + number * EACH_S - time.monotonic()))
        handler.wfile.write(delta(" and"))
    handler.wfile.write(event(USAGE) + END)


def serve() -> None:
    """Prints the address, then serves until it is ended."""
    server = ToyServer(paced)
    print(server.url, flush=True)
    server.serve_forever()


def ask_with_openai(url: str) -> None:
    """Asks once for each line of standard input, and prints the times."""
    import openai

    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none")
    for _ in sys.stdin:
        began_s, times_s = time.perf_counter(), list[float]()
        for chunk in client.chat.completions.create(model="toy", messages=QUESTION, max_tokens=TOKENS, stream=True):
            if chunk.choices and chunk.choices[0].delta.content:
                times_s.append(time.perf_counter() - began_s)
        print(*times_of(times_s), flush=True)


def times_of(times_s: list[float]) -> Times:
    return times_s[0], (len(times_s) - 1) / (times_s[-1] - times_s[0])


def asked_by_redline(client: ServerClient) -> Times:
    settings = SamplingSettings(max_tokens=TOKENS)
    reply = ServerReply(client.name, client.product, settings)
    rounds = reply.events(client.chat(QUESTION, settings, lambda: False))
    return times_of([one.time_s for one in rounds if isinstance(one, Round)])


def child(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.programs.server_times", *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def asked_by_openai(process: subprocess.Popen[str]) -> Times:
    assert process.stdin is not None and process.stdout is not None
    print(file=process.stdin, flush=True)
    first_s, speed = map(float, process.stdout.readline().split())
    return first_s, speed


def compare(redline: Callable[[], Times], openai: Callable[[], Times], pairs: int) -> None:
    found: dict[str, list[Times]] = {"redline": [], "openai": []}
    asked = {"redline": redline, "openai": openai}
    for number in range(-1, pairs):
        for name in asked if number % 2 else reversed(asked):
            times = asked[name]()
            found[name] += [times] if number >= 0 else []  # the first pair warms up
    for place, what in enumerate(("seconds to the first text", "tokens a second after it")):
        ours, theirs = (median(times[place] for times in found[name]) for name in ("redline", "openai"))
        print(f"{what}: Redline {ours:.4f}, openai {theirs:.4f}, {abs(ours / theirs - 1):.2%} apart")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=25)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--ask", metavar="URL", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        return serve()
    if args.ask:
        return ask_with_openai(args.ask)
    server = child("--serve")
    assert server.stdout is not None
    url = server.stdout.readline().strip()
    openai, client = child("--ask", url), ServerClient(Server(url=url))
    try:
        compare(lambda: asked_by_redline(client), lambda: asked_by_openai(openai), args.pairs)
    finally:
        openai.kill()
        server.kill()


if __name__ == "__main__":
    main()
