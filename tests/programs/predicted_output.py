"""Measures predicted outputs with the built-in pair: an edit of a file with one line changed, against plain decoding.

    python -m tests.programs.predicted_output [--lines 200] [--runs 1] [--drafter NAME]

The built-in model is too small to edit a file of 200 lines when it is told to; left with the lines before, it goes on
with them. So what it writes, greedily, is taken for the file after the edit: `--lines` lines that follow an example.
The file before the edit is the same with one line changed, and that is the prediction. Plain decoding, the drafter
without a prediction and with it alternate; the texts must be the same to the letter.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from statistics import median
from threading import Event

from app import protocol
from app.host.model_worker import ModelWorker
from engine.settings import SamplingSettings

EXAMPLE = "".join(f"a{i} = {i * 7 % 50}\n" for i in range(1, 9))
TOKENS_A_LINE = 10


def reply(
    worker: ModelWorker, prompt: str, settings: SamplingSettings, prediction: str
) -> tuple[str, float, float, int]:
    """Returns the text, the seconds after the prompt, tokens a pass, and the accepted tokens of the prediction."""
    request = protocol.Reply(id=1, messages=(), prompt=prompt, sampling=settings, prediction=prediction)
    text, passes, tokens, began_s = "", 0, 0, 0.0
    for answer in worker.reply(request, Event()):
        if isinstance(answer, protocol.PrefillProgress):
            began_s = time.monotonic()
        elif isinstance(answer, protocol.RoundDone):
            text += answer.round.text_in("answer")
            passes, tokens = passes + 1, tokens + len(answer.round.tokens)
        elif isinstance(answer, protocol.ReplyDone):
            return text + answer.finished.text, time.monotonic() - began_s, tokens / passes, answer.predicted
    raise AssertionError("the reply did not end")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=200, metavar="N", help="of the file")
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="of each way")
    parser.add_argument("--drafter", default="auto", metavar="NAME", help="as in `redline chat`")
    args = parser.parse_args()
    worker = ModelWorker()
    list(worker.load(protocol.Load(id=1, pair=protocol.Pair(drafter=args.drafter))))
    drafted = SamplingSettings(max_tokens=args.lines * TOKENS_A_LINE, stop=(f"a{args.lines + 9} ",))
    plain = replace(drafted, draft_length=0)
    text, took_s, _, _ = reply(worker, EXAMPLE, plain, "")
    lines = text.splitlines(keepends=True)
    middle = len(lines) // 2
    before = "".join([*lines[:middle], f"b = {middle}  # to be replaced\n", *lines[middle + 1 :]])
    print(
        f"a file of {len(lines)} lines, {len(set(lines))} of them different; line {middle + 1} is changed", flush=True
    )
    print(f"| plain, to have the text | {took_s:.1f} s |", flush=True)
    ways = {"prediction": (drafted, before), "plain": (plain, ""), "no prediction": (drafted, "")}
    times: dict[str, list[float]] = {name: [] for name in ways}
    different = 0
    for _ in range(args.runs):
        for name, (settings, prediction) in ways.items():
            told, took_s, per_pass, predicted = reply(worker, EXAMPLE, settings, prediction)
            times[name].append(took_s)
            different += told != text
            same = "the same text" if told == text else "ANOTHER TEXT"
            counts = f"{per_pass:.2f} tokens a pass | {predicted} of the prediction accepted"
            print(f"| {name} | {took_s:.1f} s | {counts} | {same} |", flush=True)
    for name, taken in times.items():
        print(f"{name}: {median(times['plain']) / median(taken):.2f} times as fast as plain decoding")
    return different


if __name__ == "__main__":
    sys.exit(main())
