"""The rounds of a reply as text to keep: JSON as `redline chat --json` prints rounds, CSV with one line a round."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable

from app.protocol import Told
from engine.events import to_json

COLUMNS = (
    "round",
    "time_s",
    "drafted",
    "accepted",
    "kind",
    "reason",
    "draft_s",
    "verify_s",
    "width",
    "tokens",
    "origins",
    "texts",
    "p",
    "drafted_tokens",
    "drafted_texts",
    "q",
    "parents",
    "path",
)


def rounds_json(told: Iterable[Told]) -> str:
    """A list of rounds with every field of the event, and the texts of what was drafted."""
    rounds = [{**to_json(one.round), "drafted_texts": one.drafted_texts} for one in told]
    return json.dumps(rounds, ensure_ascii=False, indent=1) + "\n"


def rounds_csv(told: Iterable[Told]) -> str:
    """COLUMNS with a heading. Lists are JSON in a cell. No cell begins so that a spreadsheet takes it for a formula:
    texts come from models, and reasons from files that were imported."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(_line(one) for one in told)
    return out.getvalue()


def _line(told: Told) -> list[object]:
    r = told.round
    kind = "plain" if not r.drafted else "chain" if r.parents is None else "tree"
    lists = [r.tokens, r.origins, r.texts, r.p, r.drafted, told.drafted_texts, r.q]
    tree: list[object] = ["", ""] if r.parents is None else [json.dumps(r.parents), json.dumps(r.path)]
    reason = f"'{r.reason}" if r.reason.lstrip()[:1] in tuple("=+-@") else r.reason
    plain = [r.index, r.time_s, len(r.drafted), r.accepted, kind, reason, r.draft_s, r.verify_s, r.width]
    return [*plain, *(json.dumps(values, ensure_ascii=False) for values in lists), *tree]
