"""Every architecture of the installed mlx-lm, tiny and random: is speculative decoding exact?

    python -m tests.programs.sweep [NAME ...] [--tokens N]    the table
    python -m tests.programs.sweep --write    the same, into models/architectures.md between its markers
    python -m tests.programs.sweep --json     a line of JSON for each architecture, as soon as it is known
    python -m tests.programs.sweep --names    the architectures

Some are swept in bfloat16 and 4 bits too, by the names of `QUANTIZED`.

For each file of `mlx_lm/models`: 200 greedy tokens by mlx-lm's own cache classes, one token at a time;
the same by Redline plain; the same by Redline speculative, with drafts of every length from 0 to 8 that
go wrong after every possible number of tokens, so that every rewind from 0 to 8 happens before, at and
past every window. All three texts must be equal, but for near-ties where a pass of another width rounds differently
(`engine.audit.reply_check`). Then trees: whether the target can verify one in one pass, and why
not; and where it can, 100 tokens by trees that hide the right way among wrong ones.
"""

import argparse
import itertools
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import mlx.core as mx
from mlx_lm.models.cache import make_prompt_cache

from app.diagnostics.architecture_sweep import QUANTIZED
from engine.audit.reply_check import compare_replies
from engine.drafters import Drafter
from engine.errors import RedlineError
from engine.events import Round
from engine.policy import Plan
from engine.sampling import Sampler
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from engine.target.tree_trial import why_no_trees
from tests.engine.replies import PROMPT, Scripted, reply
from tests.engine.trees import Hidden
from tests.programs.architecture_page import write_part
from tests.toys.architectures import NOT_BUILT, NOT_MODELS, architecture_names, build
from tests.toys.quantized_targets import build_quantized

TOKENS, TREE_TOKENS = 200, 100
LONGEST = 8
PART = "speculation"  # of models/architectures.md


@dataclass(frozen=True)
class Row:
    """What is known of one architecture. verdict: exact, near-tie, refused, differs, or not built. trees: why it drafts
    chains only, empty for one that takes trees."""

    name: str
    verdict: str
    caches: str = ""
    reason: str = ""
    trees: str = ""


class EveryLength:
    """Draft lengths 0 to 8 in turn."""

    def __init__(self) -> None:
        self._lengths = itertools.cycle(range(LONGEST + 1))

    def plan(self, hints: object = ()) -> Plan:
        return Plan(next(self._lengths), "every length in turn")

    def observe(self, round_: Round) -> None:
        pass

    def begin(self, tokens: int) -> None:
        pass

    def next_is_plain(self, hints: Sequence[float | None] = ()) -> bool:
        return False


def mistakes(tokens: int) -> frozenset[int]:
    """Places that a drafter gets wrong, the gaps between them running through 1 to 9 again and again."""
    gaps = itertools.cycle([9, 1, 4, 8, 2, 6, 3, 7, 5])
    return frozenset(itertools.takewhile(lambda place: place < tokens, itertools.accumulate(gaps)))


def by_mlx_lm(network: object, tokens: int) -> list[int]:
    """Greedy text from mlx-lm's own caches, one token per pass."""
    cache = make_prompt_cache(network)
    ids: list[int] = []
    for token in PROMPT[:-1]:
        network(mx.array([[token]]), cache=cache)  # type: ignore[operator]
    last = PROMPT[-1]
    for _ in range(tokens):
        last = int(mx.argmax(network(mx.array([[last]]), cache=cache)[0, -1]))  # type: ignore[operator]
        ids.append(last)
    return ids


def examine(name: str, tokens: int = TOKENS) -> Row:
    if name in NOT_BUILT:
        return Row(name, "not built", reason=NOT_BUILT[name])
    network = build_quantized(QUANTIZED[name]) if name in QUANTIZED else build(name)
    try:
        target = CachedModel(network)
    except RedlineError as error:
        return Row(name, "refused", reason=str(error))
    caches = ", ".join(sorted({type(leaf).__name__ for leaf in target.cache._leaves()})) or "none"
    trouble, found = why_no_trees(target), list[tuple[bool, str]]()
    reference, wrong = by_mlx_lm(network, tokens), mistakes(tokens)
    chains = Scripted(len(PROMPT), reference, wrong, target.vocabulary)
    trees = None if trouble else Hidden(len(PROMPT), reference, wrong, target.vocabulary)
    found += differences(target, reference, None, "plain leaves mlx-lm's text")
    found += differences(target, reference, chains, "speculative leaves plain")
    if trees is not None:
        found += differences(target, reference[:TREE_TOKENS], trees, "trees leave plain")
    reason = "; ".join(reason for _, reason in found)
    verdict = "exact" if not found else "near-tie" if all(near for near, _ in found) else "differs"
    return Row(name, verdict, caches, reason, trees=trouble or "")


def differences(
    target: CachedModel, reference: list[int], drafter: Drafter | None, difference: str
) -> list[tuple[bool, str]]:
    """Whether a difference to the reference is a near-tie, and what it is; empty if there is none."""
    ids, rounds, _ = reply(target, drafter, draft=EveryLength() if drafter else 0, tokens=len(reference))
    if ids == reference:
        return []
    receipt = compare_replies(target, Sampler(SamplingSettings(), target.vocabulary), PROMPT, reference, rounds)
    assert receipt is not None
    return [(receipt.near_tie, f"{difference} at {first_difference(ids, reference)}: {receipt}")]


def first_difference(a: list[int], b: list[int]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def names() -> list[str]:
    return [name for name in architecture_names() if name not in NOT_MODELS]


def table(rows: list[Row]) -> str:
    """Markdown: the counts, the exact ones by cache kind, and the others with their reasons."""
    counts = Counter(row.verdict for row in rows)
    lines = [
        ", ".join(f"{counts[v]} {v}" for v in ("exact", "near-tie", "refused", "differs", "not built") if counts[v])
        + ".",
        "",
    ]
    lines += ["| caches | exact architectures |", "| --- | --- |"]
    exact = sorted((row.caches, row.name) for row in rows if row.verdict == "exact")
    for caches, group in itertools.groupby(exact, key=lambda pair: pair[0]):
        lines.append(f"| {caches} | {', '.join(name for _, name in group)} |")
    lines += ["", "| not exact | verdict | why |", "| --- | --- | --- |"]
    lines += [f"| {row.name} | {row.verdict} | {row.reason} |" for row in rows if row.verdict != "exact"]
    return "\n".join([*lines, "", *tree_lines([row for row in rows if row.verdict == "exact"])])


def tree_lines(rows: list[Row]) -> list[str]:
    """How many verify trees, and the others by what keeps them from it."""
    able = sum(not row.trees for row in rows)
    lines = [f"{able} of the {len(rows)} exact ones verify whole trees in one pass; the others draft chains.", ""]
    lines += ["| why chains only | architectures |", "| --- | --- |"]
    unable = sorted((row.trees, row.name) for row in rows if row.trees)
    for reason, group in itertools.groupby(unable, key=lambda pair: pair[0]):
        lines.append(f"| {reason} | {', '.join(name for _, name in group)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("architectures", nargs="*", default=names())
    parser.add_argument("--tokens", type=int, default=TOKENS)
    how = parser.add_mutually_exclusive_group()
    for option in ("--write", "--json", "--names"):
        how.add_argument(option, action="store_true")
    args = parser.parse_args()
    if args.names:
        print("\n".join(args.architectures))
        return
    rows = []
    for name in args.architectures:
        rows.append(examine(name, args.tokens))
        if args.json:
            print(json.dumps(asdict(rows[-1])), flush=True)
        else:
            print(rows[-1].verdict, name, rows[-1].reason, file=sys.stderr, flush=True)
    if not args.json:
        print(table(rows))
    if args.write:
        write_part(PART, table(rows))


if __name__ == "__main__":
    main()
