"""Agents that share a system prompt: tokens of each prompt that were not read again, beside mlx_lm.server.

    uv run python -m tests.programs.prompt_cache [--turns N] [--words N] [--drafter NAME] [--folder FOLDER]

Both servers run the built-in model's weights in float32 and the same BLAS, one request at a time, in turns. Three
scenarios: two agents and four that take turns; and an agent between two of whose turns a title is asked for and a
subagent runs. "possible" is the longest beginning that a prompt shares with any prompt and reply before it. Times are
to the first text of the reply. FOLDER: a model of another kind, such as a hybrid, tried with both servers as it is.
"""

import argparse
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.error import URLError
from urllib.request import Request, urlopen

from engine.kept_conversations import common_prefix
from models.builtin import builtin_folder
from models.tokenizer import FolderTokenizer
from tests.app.api.serve_process import served
from tests.waiting import HANG_S

REPLY_TOKENS = 24
_PEER = "from engine import backend; backend.prepare(); from mlx_lm.server import main; main()"
Turns = list[dict[str, str]]


class Answer(NamedTuple):
    """cached: tokens of the prompt that were not read again. first_s: to the first text."""

    text: str
    prompt: int
    cached: int
    first_s: float


@dataclass
class Server:
    """A server that is asked, and what it has been asked. url: its OpenAI endpoint."""

    name: str
    url: str
    key: str
    model: str
    tokenizer: FolderTokenizer
    seen: list[list[int]] = field(default_factory=list)
    rows: list[tuple[Answer, int]] = field(default_factory=list)  # with how many tokens could have been reused

    def ask(self, turns: Turns) -> str:
        """Returns the reply, and notes what was reused for it."""
        prompt = self.tokenizer.chat(turns)
        possible = max((common_prefix(one, prompt) for one in self.seen), default=0)
        answer = self._answer(turns)
        assert answer.prompt == len(prompt), f"{self.name} counts {answer.prompt} tokens, not {len(prompt)}"
        self.rows.append((answer, min(possible, len(prompt) - 1)))
        self.seen.append([*prompt, *self.tokenizer.pieces(answer.text)])
        return answer.text

    def _answer(self, turns: Turns) -> Answer:
        body = {"model": self.model, "messages": turns, "max_tokens": REPLY_TOKENS, "temperature": 0, "stream": True}
        data = json.dumps(body | {"stream_options": {"include_usage": True}}).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.key}"}
        text, usage, first_s, began_s = "", {}, 0.0, time.monotonic()
        with urlopen(Request(f"{self.url}/chat/completions", data, headers), timeout=600) as stream:
            for part in events(stream):
                usage = part.get("usage") or usage
                new = "".join(choice["delta"].get("content") or "" for choice in part["choices"])
                if new and not text:
                    first_s = time.monotonic() - began_s
                text += new
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        return Answer(text, usage["prompt_tokens"], cached, first_s)


def events(stream: Any) -> Iterator[dict[str, Any]]:
    """Yields the objects of a stream of server-sent events."""
    for line in stream:
        if line.startswith(b"data: ") and line.strip() != b"data: [DONE]":
            yield json.loads(line.removeprefix(b"data: "))


def system(words: int) -> dict[str, str]:
    """Returns a system prompt of about so many tokens."""
    rules = (f"Rule {number}: name the file, quote the line, then say what is wrong." for number in range(words // 16))
    return {"role": "system", "content": "You are a careful reviewer. " + " ".join(rules)}


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def agents_in_turn(server: Server, count: int, turns: int, words: int) -> Iterator[None]:
    """Agents with one system prompt, and their own questions and results; yields after each request."""
    agents: list[Turns] = [
        [system(words), user(f"Agent {name}: look at module {name}.")]
        for name in ("one", "two", "three", "four")[:count]
    ]
    for turn in range(turns):
        for number, agent in enumerate(agents):
            agent.append({"role": "assistant", "content": server.ask(agent)})
            agent.append(user(f"Result {turn} of {number}: " + f"line {turn} has a name that {number} reads. " * 15))
            yield


def main_and_others(server: Server, turns: int, words: int) -> Iterator[None]:
    """An agent; after each of its turns a title with a system prompt of its own, and a subagent with the agent's."""
    agent = [system(words), user("Look at the parser, then at the printer.")]
    for turn in range(turns):
        agent.append({"role": "assistant", "content": server.ask(agent)})
        agent.append(user(f"Result {turn}: " + f"line {turn} has a name that nobody reads. " * 15))
        yield
        title = {"role": "system", "content": "Name this conversation in three words. " * 4}
        server.ask([title, user(f"Look at the parser, {turn}.")])
        yield
        server.ask([system(words), user(f"Subagent {turn}: count the files of the parser.")])
        yield


SCENARIOS = {
    "two agents": lambda server, turns, words: agents_in_turn(server, 2, turns, words),
    "four agents": lambda server, turns, words: agents_in_turn(server, 4, turns, words),
    "main, title, subagent": main_and_others,
}


@contextmanager
def peer(folder: Path) -> Iterator[str]:
    """Runs mlx_lm.server; yields its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", _PEER, "--model", str(folder), "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}/v1"
    try:
        until_s = time.monotonic() + HANG_S
        while True:
            try:
                urlopen(f"{url}/models", timeout=HANG_S).close()
                break
            except URLError:
                if process.poll() is not None or time.monotonic() > until_s:
                    raise
                time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait(HANG_S)


def compare(ours: Server, theirs: Server, turns: int, words: int) -> bool:
    """Prints a line for each scenario; returns whether each reuses 98 of 100 tokens that it could."""
    enough = True
    print("| scenario | requests | possible | redline | mlx_lm.server | first text: redline, mlx_lm.server | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, scenario in SCENARIOS.items():
        for server in (ours, theirs):
            server.rows.clear()
            server.seen.clear()
        waiting = [scenario(server, turns, words) for server in (ours, theirs)]
        while all(next(one, True) is None for one in waiting):
            waiting.reverse()  # whatever else the machine does, neither is always first
        possible, cached = (sum(row[1] for row in ours.rows), [_cached(one.rows) for one in (ours, theirs)])
        firsts = [[answer.first_s for answer, _ in one.rows] for one in (ours, theirs)]
        ratio = statistics.median(mine / other for mine, other in zip(*firsts, strict=True))
        medians = ", ".join(f"{statistics.median(one):.2f} s" for one in firsts)
        print(
            f"| {name} | {len(ours.rows)} | {possible:,} | {cached[0]:,} ({cached[0] / possible:.3f}) | {cached[1]:,} "
            f"({cached[1] / sum(row[1] for row in theirs.rows):.3f}) | {medians} | {ratio:.2f} |",
            flush=True,
        )
        enough = enough and cached[0] >= 0.98 * possible
    return enough


def _cached(rows: Sequence[tuple[Answer, int]]) -> int:
    return sum(min(answer.cached, possible) for answer, possible in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5, metavar="N", help="of each agent")
    parser.add_argument("--words", type=int, default=1000, metavar="N", help="tokens of the system prompt, about")
    parser.add_argument("--drafter", default="auto", metavar="NAME", help="redline's")
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args()
    folder = (args.folder or builtin_folder()).resolve()
    with TemporaryDirectory() as made:
        float32 = Path(made) / "float32"
        convert = [sys.executable, "-m", "mlx_lm", "convert", "--hf-path", str(folder), "--mlx-path", str(float32)]
        subprocess.run([*convert, "-d", "--dtype", "float32"], check=True, stdout=subprocess.DEVNULL)
        named = [] if args.folder is None else [str(folder)]
        with served(*named, "--drafter", args.drafter) as server, peer(float32) as url:
            tokenizer = FolderTokenizer(folder)
            ours = Server("redline", server.url, server.key, "SmolLM2-135M-Instruct", tokenizer)
            theirs = Server("mlx_lm.server", url, "", str(float32), tokenizer)
            return 0 if compare(ours, theirs, args.turns, args.words) else 1


if __name__ == "__main__":
    sys.exit(main())
