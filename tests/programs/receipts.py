"""Receipts of real replies, from what is kept of them.

    python -m tests.programs.receipts PROMPTS.jsonl [--limit 40] [--tokens 128] [--every 1] [--out FOLDER]

For the first turns of the prompts, greedy and coupled at temperature 1: the shipped default pair writes replies with
draft length auto, in a store on disk, as the window does. Their export is read back, and every reply in it decoded
plainly again by a target that is loaded anew. Prints a table of the receipts and the totals; exit code 1 when a
difference is no near-tie. --out: keep the export and the report.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import engine  # noqa: F401  (readies the backend before MLX is imported)
from app.cli.terminal.output import output_console
from app.cli.verify import document, show, summary
from app.host.model_worker import ModelWorker
from app.protocol import (
    AnyAnswer,
    FellBack,
    Load,
    Message,
    Pair,
    Reply,
    ReplyDone,
    RoundDone,
    SamplingSettings,
)
from app.receipts.checker import results_of
from app.receipts.exported_replies import Result, chosen, read_export, write_receipts
from app.store import Store
from app.store.records import ChatSettings, Ending, Statistics
from engine.metrics import Metrics

SAMPLINGS = {"greedy": SamplingSettings(), "coupled": SamplingSettings(temperature=1.0, acceptance="coupled")}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def write_reply(store: Store, room: ModelWorker, question: str, sampling: SamplingSettings) -> Metrics:
    """A conversation of one question and its reply, kept as it streams."""
    conversation = store.create(ChatSettings(pair=Pair(), sampling=sampling))
    store.rename(conversation.id, question)
    asked = store.add_question(conversation.id, None, question)
    reply = store.begin_reply(conversation.id, asked.id, Pair(), sampling, "")
    metrics = Metrics()
    for answer in answers_to(room, question, sampling):
        if isinstance(answer, RoundDone):
            metrics.add(answer.round)
            store.append(reply.id, [answer])
        elif isinstance(answer, FellBack):
            raise SystemExit(f"the reply fell back to plain decoding: {answer.reason}")
        elif isinstance(answer, ReplyDone):
            tail, prompt = answer.finished.text, answer.prompt_digest
            store.end_reply(reply.id, Ending("complete", Statistics.of(metrics), tail=tail, prompt=prompt))
    return metrics


def answers_to(room: ModelWorker, question: str, sampling: SamplingSettings) -> Iterator[AnyAnswer]:
    messages = (Message(role="user", content=question),)
    yield from room.reply(Reply(id=1, messages=messages, sampling=sampling), Event())


def write_all(args: argparse.Namespace, folder: Path) -> list[Path]:
    """Every reply, then an export of each conversation."""
    lines = args.prompts.read_text().splitlines()[:: args.every][: args.limit]
    questions = [json.loads(line)["turns"][0] for line in lines]
    store, room = Store.open(folder / "conversations.sqlite").store, ModelWorker()
    for answer in room.load(Load(id=1, pair=Pair())):
        say(getattr(answer, "message", ""))
    began_s, number = time.monotonic(), 0
    for seed, question in enumerate(questions):
        for name, sampling in SAMPLINGS.items():
            number += 1
            wanted = SamplingSettings(
                temperature=sampling.temperature,
                acceptance=sampling.acceptance,
                seed=1000 + seed,
                max_tokens=args.tokens,
            )
            found = write_reply(store, room, question, wanted)
            spent_s = time.monotonic() - began_s
            total = len(questions) * len(SAMPLINGS)
            say(
                f"written {number}/{total} ({name}): {found.tokens} tokens in {found.rounds} passes, "
                f"{found.accepted}/{found.drafted} accepted, {spent_s / number * (total - number) / 60:.0f} min left"
            )
    paths = []
    for record in reversed(store.conversations()):
        paths.append(folder / f"{record.id:03}.json")
        paths[-1].write_text(store.export_json(record.id))
    store.close()
    return paths


def verify_all(paths: list[Path]) -> list[Result]:
    """Each reply of the exports, by a target that has seen none of them."""
    cases, results, began_s = chosen([read_export(path) for path in paths], None), list[Result](), time.monotonic()
    for result in results_of(cases, None, lambda *_: None, lambda: False):
        results.append(result)
        spent_s = time.monotonic() - began_s
        left = spent_s / len(results) * (len(cases) - len(results)) / 60
        say(f"verified {len(results)}/{len(cases)}, {left:.0f} min left: {summary(results)}")
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompts", type=Path)
    parser.add_argument("--limit", type=int, default=40)
    parser.add_argument("--every", type=int, default=1, help="take every n-th prompt, so that all kinds are among them")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="redline-receipts-") as made:
        folder = args.out or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        results = verify_all(write_all(args, folder))
        for result in results:
            write_receipts(result.case.export, [result])
        if args.out:
            (folder / "report.json").write_text(document(results, False))
    show(output_console(wide=True), results)
    for sampling in SAMPLINGS:
        mine = [
            r
            for r in results
            if r.case.message.sampling and bool(r.case.message.sampling.temperature) == (sampling == "coupled")
        ]
        print(f"{sampling}: {summary(mine)}")
    return int(not all(result.sound for result in results))


if __name__ == "__main__":
    raise SystemExit(main())
