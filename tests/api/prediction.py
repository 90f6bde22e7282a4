"""Measures predicted outputs with the built-in pair: an edit of a file with one line changed, against plain decoding.

    python -m tests.api.prediction [--lines 200] [--runs 3]

The model is to repeat the file with one name changed, which the built-in model does not do by itself; so what it writes
is fixed by a grammar of one text, the changed file, as a model that follows the request would write it. Every token is
still decoded and verified by the target under that mask. The prediction is the file before the change. Plain decoding,
the built-in drafter without a prediction and with one alternate; texts must be the same to the letter. The first line
of the table says what the drafter does without the file in the prompt.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from statistics import median
from threading import Event

from app import protocol
from app.host.model_worker import ModelWorker
from engine.settings import Grammar, SamplingSettings

CHANGED = ("value_17", "amount_17")


def file_of(lines: int) -> str:
    """Returns a program of so many lines, every other one different from all before."""
    words = ["alpha", "beta", "gamma", "delta", "omega", "sigma", "theta", "kappa"]
    body = [f"value_{i} = {words[i % 8]}({i * 37 % 101}, {words[i * 5 % 8]!r})" for i in range(lines)]
    return "\n".join(body) + "\n"


def reply(worker: ModelWorker, prompt: str, settings: SamplingSettings, prediction: str) -> tuple[str, float, int, int]:
    """Returns the text, the seconds after the prompt, the passes, and the accepted tokens of the prediction."""
    messages = (protocol.Message(role="user", content=prompt),)
    request = protocol.Reply(id=1, messages=messages, sampling=settings, prediction=prediction)
    text, passes, began_s = "", 0, 0.0
    for answer in worker.reply(request, Event()):
        if isinstance(answer, protocol.PrefillProgress):
            began_s = time.monotonic()
        elif isinstance(answer, protocol.RoundDone):
            text, passes = text + answer.round.text_in("answer"), passes + 1
        elif isinstance(answer, protocol.ReplyDone):
            return text + answer.finished.text, time.monotonic() - began_s, passes, answer.predicted
    raise AssertionError("the reply did not end")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=200, metavar="N", help="of the file")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="of each way")
    parser.add_argument("--drafter", default="auto", metavar="NAME", help="as in `redline chat`")
    args = parser.parse_args()
    before = file_of(args.lines)
    after = before.replace(*CHANGED)
    worker = ModelWorker()
    list(worker.load(protocol.Load(id=1, pair=protocol.Pair(drafter=args.drafter))))
    prompt = f"Rename {CHANGED[0]} to {CHANGED[1]} in the file."
    base = SamplingSettings(max_tokens=20_000, grammar=Grammar("choice", json.dumps([after])))
    ways = {
        "plain": (replace(base, draft_length=0), ""),
        "without the prediction": (base, ""),
        "with the prediction": (base, before),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    told: dict[str, tuple[str, float, int, int]] = {}
    for _ in range(args.runs):
        for name, (settings, prediction) in ways.items():
            told[name] = reply(worker, prompt, settings, prediction)
            times[name].append(told[name][1])
    for name, (text, _, passes, predicted) in told.items():
        speedup = median(times["plain"]) / median(times[name])
        same = "the same text" if text == told["plain"][0] == after else "ANOTHER TEXT"
        print(
            f"| {name} | {median(times[name]):.1f} s | {speedup:.2f} | {passes} passes | {predicted} accepted | {same} |"
        )
    return sum(one[0] != after for one in told.values())


if __name__ == "__main__":
    sys.exit(main())
