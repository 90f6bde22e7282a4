"""A worker in place of `models.tokenizer_worker` that does what the text of a request says, and imports next to
nothing. Run by `python -m`."""

import json
import os
import sys


def main() -> None:
    say({"type": "Ready"})
    for line in sys.stdin:
        text = json.loads(line)["text"]
        if text == "loop":
            while True:
                pass
        elif text == "sleep":
            sys.stdin.readline()  # which nobody writes
        elif text == "grow":
            kept = []
            while True:
                kept.append(b"x" * (1 << 20))
        elif text == "flood":
            while True:
                os.write(1, b"x" * (1 << 16))
        elif text == "abort":
            os.abort()
        elif text == "leave":
            os._exit(3)
        say({"type": "Refused", "reason": text})


def say(answer: dict[str, str]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
