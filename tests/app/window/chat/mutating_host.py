"""The fake host behind a pipe that damages: `python -m tests.app.window.chat.mutating_host SEED COPIES SAME_ID JSON`.

Behind every line that it passes on come COPIES damaged ones. Those that are still answers get an id that nobody knows,
unless SAME_ID is 1.
"""

import random
import subprocess
import sys
from typing import Any

import msgspec

from app.protocol import MalformedError, Ready, decode_answer, encode_line
from tests.app.host.mutation import mutated
from tests.app.window.chat import fake_host

UNKNOWN = 2**62


def command(seed: int, copies: int, same_id: bool, **behaviour: Any) -> list[str]:
    """Returns the command that starts such a host."""
    json = msgspec.json.encode(behaviour).decode()
    return [sys.executable, "-m", __name__, str(seed), str(copies), str(int(same_id)), json]


def damaged(line: bytes, before: list[bytes], dice: random.Random, same_id: bool) -> bytes:
    """Returns a damaged copy of a line, with its end."""
    spoiled = mutated(line, before, dice)
    try:
        answer = decode_answer(spoiled)
    except MalformedError:
        return spoiled + b"\n"
    if isinstance(answer, Ready) or not hasattr(answer, "id"):
        return b"\n"
    return spoiled + b"\n" if same_id else encode_line(msgspec.structs.replace(answer, id=UNKNOWN))


def main(seed: int, copies: int, same_id: bool, behaviour: str) -> None:
    words = [sys.executable, "-m", fake_host.__name__, behaviour]
    dice, before = random.Random(seed), [b'{"type":"Counted","id":1,"tokens":1,"context":1}']
    with subprocess.Popen(words, stdout=subprocess.PIPE) as host:
        assert host.stdout is not None
        for line in host.stdout:
            before = [*before[-20:], line[:-1]]
            spoiled = b"".join(damaged(line[:-1], before, dice, same_id) for _ in range(copies))
            sys.stdout.buffer.write(line + spoiled)
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "1", sys.argv[4])
