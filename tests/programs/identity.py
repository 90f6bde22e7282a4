"""Coupled sampling on the real target: one text per seed, whoever drafts and however far.

    python -m tests.programs.identity PROMPTS.jsonl [--limit 20] [--every 1] [--tokens 32] [--drafter NAME ...]
                                      [--tree NAME ...] [--exact]

For the first turns of the first prompts, greedy, at temperature 1 and at 0.7 with top-p 0.9: plain decoding, then
prompt lookup and every drafter named, each with chains of --lengths (default 0 to 8) and, for those named by --tree,
with trees of --sizes (default 4, 8, 16 and 32 nodes). Prints a line a prompt and, for each text that differs, its
receipt. Exit code 1 when a difference is no near-tie; with --exact, all in exact-verify, when one bit of one logit
after the text differs.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from app.inference.options import Options
from app.inference.pair_loader import NamedDrafter, open_drafter, open_session, open_target
from engine.audit.fingerprints import first_other_bits
from engine.audit.reply_check import compare_replies
from engine.events import Round
from engine.policy.fixed import FixedLength
from engine.sampling import Sampler
from engine.session import Prompt, Session
from engine.settings import SamplingSettings

SAMPLINGS = (SamplingSettings(), SamplingSettings(temperature=1), SamplingSettings(temperature=0.7, top_p=0.9))


def rounds_of(
    session: Session, prompt: list[int], settings: SamplingSettings, drafter: NamedDrafter, length: int
) -> list[Round]:
    events = session.continue_tokens(Prompt(prompt), settings, drafter.drafter, FixedLength(length))
    return [e for e in events if isinstance(e, Round)]


def ids_of(rounds: list[Round]) -> list[int]:
    return [token for r in rounds for token in r.tokens]


@dataclass
class Count:
    """Of texts held against plain decoding."""

    texts: int = 0
    same: int = 0
    near_ties: int = 0
    failures: int = 0


@dataclass
class Judge:
    """count: of all texts so far. exact: all is in exact-verify, where every bit counts and nothing is a near-tie."""

    session: Session
    tokens: int
    exact: bool
    count: Count = field(default_factory=Count)

    def hold(
        self, prompt: list[int], sampling: SamplingSettings, drafters: Sequence[tuple[NamedDrafter, Sequence[int]]]
    ) -> None:
        """Every drafter at each of its lengths against plain decoding; the first reply starts from nothing."""
        settings = replace(sampling, acceptance="coupled", max_tokens=self.tokens, exact=self.exact)
        self.session.forget()
        plain = rounds_of(self.session, prompt, settings, NamedDrafter("none", None), 0)
        for drafter, lengths in drafters:
            for length in lengths:
                rounds = rounds_of(self.session, prompt, settings, drafter, length)
                found = self._judged(prompt, settings, plain, rounds)
                if found:
                    mode = " (tree)" if drafter.branches else ""
                    print(f"{sampling}, {drafter.name}{mode}, draft length {length}: {found}", flush=True)

    def _judged(self, prompt: list[int], settings: SamplingSettings, plain: list[Round], rounds: list[Round]) -> str:
        """What is wrong, or ""."""
        self.count.texts += 1
        other = first_other_bits(plain, rounds) if self.exact else None
        if ids_of(rounds) == ids_of(plain) and other is None:
            self.count.same += 1
            return ""
        if self.exact:
            self.count.failures += 1
            return f"other bits from token {other} on"
        target = self.session.target
        sampler = Sampler(settings, target.vocabulary)
        receipt = compare_replies(target, sampler, prompt, ids_of(plain), rounds)
        self.session.forget()
        assert receipt is not None
        self.count.near_ties += receipt.near_tie
        self.count.failures += not receipt.near_tie
        return str(receipt)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompts", type=Path)
    parser.add_argument("--limit", type=int, default=20)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--drafter", action="append", default=["lookup"])
    parser.add_argument("--tree", action="append", default=[])
    parser.add_argument("--lengths", type=int, nargs="+", default=range(9))
    parser.add_argument("--sizes", type=int, nargs="+", default=(4, 8, 16, 32))
    parser.add_argument("--exact", action="store_true")
    args = parser.parse_args()
    target = open_target(Options())
    judge = Judge(open_session(target, Options())[0], args.tokens, args.exact)
    drafters = [(open_drafter(spec, target), args.lengths) for spec in args.drafter]
    drafters += [(open_drafter(spec, target, trees=True), args.sizes) for spec in args.tree]
    lines = args.prompts.read_text().splitlines()[:: args.every][: args.limit]
    same = "identical to the last bit" if args.exact else "identical"
    for number, line in enumerate(lines, 1):
        prompt = target.tokenizer.chat([{"role": "user", "content": json.loads(line)["turns"][0]}])
        for sampling in SAMPLINGS:
            judge.hold(prompt, sampling, drafters)
        print(f"{number}/{len(lines)}: {judge.count.same} of {judge.count.texts} texts {same} to plain", flush=True)
    count = judge.count
    print(f"{count.texts} texts: {count.same} {same}, {count.near_ties} near-ties, {count.failures} failures")
    return int(count.failures > 0)


if __name__ == "__main__":
    raise SystemExit(main())
