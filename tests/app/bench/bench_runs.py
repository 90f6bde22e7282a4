"""Rows and documents of a benchmark that nobody ran, for tests of what is made of them."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from app.bench.bench_document import BenchDocument, BenchRun, make_document

ENVIRONMENT = {
    "model_defaults": {},
    "versions": {"redline": "0", "mlx": "0", "mlx-lm": "0", "numpy": "0"},
    **dict.fromkeys(("python", "platform", "processor", "device", "library", "backend", "dtype"), "x"),
    "cores": 2,
    "target": "toy",
    "draft_lengths": ["auto", 2],
    "tree": False,
    "max_tokens": 16,
}

_PLAIN = BenchRun(
    question_id=0, category="qa", turn=0, repeat=0, prompt_digest="d", drafter="none", proposer="none",
    draft_length=None, peer=False, exact=False, acceptance_rule="greedy", temperature=0.0, seed=0,
    token_ids=list(range(11)), tokens=11, prompt_tokens=4, ttft_s=0.5, decode_s=1.0, total_s=1.5, tokens_per_s=10.0,
    rounds=10, drafted=0, accepted=0, acceptance_rate=None, acceptance_by_position=[], mean_acceptance_length=1.1,
    finish_reason="length", reached=[], kept=[], drafts={"0": 9}, matches_plain=True, same_bits=None,
    first_difference=None, speedup=1.0, speedup_total=1.0, round_s={"0": 0.1},
)  # fmt: skip
_DRAFTED: dict[str, Any] = {
    "drafted": 6, "accepted": 3, "acceptance_rate": 0.5, "acceptance_by_position": [2 / 3, 0.5], "reached": [3, 2],
    "kept": [2, 1], "drafts": {"0": 6, "2": 3}, "round_s": {"0": 0.1, "2": 0.16},
}  # fmt: skip


def row(
    proposer: str, length: int | str | None, question: int | str, speedup: float | None, **changes: Any
) -> BenchRun:
    """One reply of 11 tokens in 10 rounds, with three drafts of two tokens, unless it is plain decoding's."""
    values = {
        **({} if proposer == "none" else _DRAFTED),
        "drafter": proposer if length is None else f"{proposer} {length}",
        "proposer": proposer,
        "draft_length": length,
        "question_id": question,
        **dict.fromkeys(("speedup", "speedup_total"), speedup),
    }
    return replace(_PLAIN, **(values | changes))


def plain_and(speedups: dict[tuple[str, int | str], dict[str, Sequence[float]]]) -> list[BenchRun]:
    """Rows of plain decoding and of each (drafter, length), by category one prompt a speed-up."""
    rows = []
    for number, (category, each) in enumerate(next(iter(speedups.values())).items()):
        rows += [row("none", None, number * 100 + i, 1.0, category=category) for i in range(len(each))]
    for (proposer, length), by_category in speedups.items():
        for number, (category, values) in enumerate(by_category.items()):
            rows += [
                row(proposer, length, number * 100 + i, value, category=category) for i, value in enumerate(values)
            ]
    return rows


def document_of(rows: Sequence[BenchRun]) -> BenchDocument:
    return make_document(ENVIRONMENT, list(dict.fromkeys(row.drafter for row in rows)), rows)
