"""Coupled sampling on the real target: one text per seed, whoever drafts and however far.

    python -m tests.identity PROMPTS.jsonl [--limit 20] [--tokens 32] [--drafter NAME ...] [--tree NAME ...]

For the first turns of the first prompts, greedy, at temperature 1 and at 0.7 with top-p 0.9: plain decoding, then
prompt lookup and every drafter named, each with chains of --lengths (default 0 to 8) and, for those named by --tree,
with trees of --sizes (default 4, 8, 16 and 32 nodes). Prints a line a prompt and, for each text that differs, its
receipt. Exit code 1 when a difference is no near-tie.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import engine  # noqa: F401  (readies the backend before MLX is imported)
from app.options import Options
from app.pair import NamedDrafter, open_drafter, open_session, open_target
from engine.choice import Chooser
from engine.events import Round
from engine.policy import FixedLength
from engine.receipt import compare
from engine.sampling import Sampling
from engine.session import Session
from engine.settings import Settings

LAWS = {
    "greedy": Sampling(),
    "temperature 1": Sampling(temperature=1),
    "temperature 0.7, top-p 0.9": Sampling(temperature=0.7, top_p=0.9),
}


def rounds_of(
    session: Session, prompt: list[int], settings: Settings, drafter: NamedDrafter, length: int
) -> list[Round]:
    events = session.continue_tokens(prompt, settings, drafter.drafter, FixedLength(length))
    return [e for e in events if isinstance(e, Round)]


def ids_of(rounds: list[Round]) -> list[int]:
    return [token for r in rounds for token in r.tokens]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompts", type=Path)
    parser.add_argument("--limit", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--drafter", action="append", default=["lookup"])
    parser.add_argument("--tree", action="append", default=[])
    parser.add_argument("--lengths", type=int, nargs="+", default=range(9))
    parser.add_argument("--sizes", type=int, nargs="+", default=(4, 8, 16, 32))
    args = parser.parse_args()
    target = open_target(Options())
    session = open_session(target, Options())
    drafters = [(open_drafter(spec, target), spec, args.lengths) for spec in args.drafter]
    drafters += [(open_drafter(spec, target, trees=True), f"{spec} (tree)", args.sizes) for spec in args.tree]
    plain = open_drafter("none", target)
    lines = args.prompts.read_text().splitlines()[: args.limit]
    texts = same = near_ties = failures = 0
    for number, line in enumerate(lines):
        prompt = target.tokenizer.chat([{"role": "user", "content": json.loads(line)["turns"][0]}])
        for name, sampling in LAWS.items():
            settings = Settings(sampling, "coupled", args.tokens)
            truth = ids_of(rounds_of(session, prompt, settings, plain, 0))
            for drafter, called, lengths in drafters:
                for length in lengths:
                    rounds = rounds_of(session, prompt, settings, drafter, length)
                    texts += 1
                    if ids_of(rounds) == truth:
                        same += 1
                        continue
                    chooser = Chooser(sampling, "coupled", target.model.vocabulary)
                    receipt = compare(session.target, chooser, prompt, truth, rounds)
                    session.forget()
                    assert receipt is not None
                    near_ties, failures = near_ties + receipt.near_tie, failures + (not receipt.near_tie)
                    print(f"prompt {number}, {name}, {called}, draft length {length}: {receipt}", flush=True)
        print(f"{number + 1}/{len(lines)}: {same} of {texts} texts identical to plain", flush=True)
    print(f"{texts} texts: {same} identical, {near_ties} near-ties, {failures} failures")
    return int(failures > 0)


if __name__ == "__main__":
    raise SystemExit(main())
