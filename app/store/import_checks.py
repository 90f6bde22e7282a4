"""Checks a conversation from elsewhere beyond its types, so that a window that shows it may rely on all of this. Each
check returns what is wrong, or ""."""

from __future__ import annotations

import math
from collections.abc import Sequence

from app.protocol import Pair, RoundDone, SamplingSettings
from app.store.json_export import MOST_MESSAGES, Document, MessageDocument
from app.store.message_tree import clean_title
from app.store.records import ChatSettings, Statistics, StoredReceipt
from app.store.round_codec import text_of
from engine.audit.receipt import MARGIN, Difference
from engine.events import Round

_MOST = 2**31  # of a token's id, and of anything that is counted
_MOST_SEED = 2**64
_MOST_SECONDS = 1e9
_LONGEST_NAME = 1000  # characters of a token, or of a version


def fault_of(document: Document) -> str:
    """Checks all of a document."""
    messages = document.messages
    if len(messages) > MOST_MESSAGES:
        return f"it has {len(messages):,} messages, at most {MOST_MESSAGES:,} are read"
    if clean_title(document.title) != document.title:
        return "its title is not one short line"
    if document.shown is not None and not _is_child(messages, document.shown, None):
        return f"it shows message {document.shown}, which is not its first"
    if why := _fault_of_settings(document.settings):
        return why
    for place, message in enumerate(messages):
        if why := _fault_of_place(messages, place) or _fault_of_making(message) or _fault_of_rounds(message):
            return f"message {place} {why}"
    return ""


def _is_child(messages: Sequence[MessageDocument], place: int, parent: int | None) -> bool:
    return place < len(messages) and messages[place].parent == parent


def _fault_of_place(messages: Sequence[MessageDocument], place: int) -> str:
    message = messages[place]
    if message.parent is not None and message.parent >= place:
        return f"follows message {message.parent}, which does not come before it"
    if message.shown is not None and not _is_child(messages, message.shown, place):
        return f"shows message {message.shown}, which does not follow it"
    if message.role == "assistant" and (message.parent is None or messages[message.parent].role == "assistant"):
        return "is a reply without a question"
    return ""


def _fault_of_settings(settings: ChatSettings) -> str:
    return _fault_of_pair(settings.pair) or fault_of_sampling(settings.sampling)


def _fault_of_making(message: MessageDocument) -> str:
    return (
        (_fault_of_pair(message.pair) if message.pair else "")
        or (fault_of_sampling(message.sampling) if message.sampling else "")
        or (_fault_of_statistics(message.statistics) if message.statistics else "")
        or (_fault_of_receipt(message, message.receipt) if message.receipt else "")
    )


def _fault_of_pair(pair: Pair) -> str:
    return "" if pair.context is None or 0 < pair.context < _MOST else "has an impossible context"


def fault_of_sampling(sampling: SamplingSettings) -> str:
    """Checks the sampling settings of a reply."""
    problems = sampling.problems(tree=True)
    return f"has impossible settings ({', '.join(problems)})" if problems else ""


def _fault_of_statistics(statistics: Statistics) -> str:
    counts = (getattr(statistics, name) for name in ("prompt_tokens", "tokens", "rounds", "drafted", "accepted"))
    speeds = (statistics.ttft_s, statistics.tokens_per_s, statistics.mean_acceptance_length)
    shares = (statistics.acceptance_rate, *statistics.acceptance_by_position)
    sound = (
        all(0 <= count < _MOST for count in counts)
        and all(speed is None or 0 <= speed <= _MOST_SECONDS for speed in speeds)
        and all(share is None or 0 <= share <= 1 for share in shares)
    )
    return "" if sound else "has impossible statistics"


def _fault_of_receipt(message: MessageDocument, kept: StoredReceipt) -> str:
    """Checks a receipt, which may be wrong, but only as a check of this reply could have been."""
    receipt = kept.receipt
    tokens = sum(len(one.round.tokens) for one in message.rounds)
    before = -1
    sound = message.role == "assistant" and 0 < receipt.tokens <= tokens and 0 <= kept.made_s < _MOST_SECONDS * 100
    for one in receipt.differences:
        sound = sound and before < one.position <= receipt.tokens and _is_sound(one)
        before = one.position
    return "" if sound and len(kept.redline) < _LONGEST_NAME else "has an impossible receipt"


def _is_sound(one: Difference) -> bool:
    ids, sizes = (one.plain_token, one.other_token), (one.gap_ulps, one.noise_ulps)
    sound = all(token is None or 0 <= token < _MOST for token in ids) and ids[0] != ids[1]
    sound = sound and all(len(text) < _LONGEST_NAME for text in (one.plain_text, one.other_text))
    sound = sound and all(size is None or math.isfinite(size) for size in sizes)
    gap, noise = sizes
    return sound and (not one.near_tie or (gap is not None and noise is not None and abs(gap) <= MARGIN * noise))


def _fault_of_rounds(message: MessageDocument) -> str:
    if message.rounds and message.role == "user":
        return "is a question and has rounds"
    for number, one in enumerate(message.rounds):
        if why := fault_of_round(one.round) or fault_of_drafted_texts(one):
            return f"has a round {number} {why}"
    return "" if message.text.startswith(text_of(message.rounds)) else "does not begin with the texts of its rounds"


def fault_of_drafted_texts(one: RoundDone) -> str:
    """Checks what travels with a round: its request and the texts of its draft."""
    sound = 0 <= one.id < _MOST_SEED and len(one.drafted_texts) in (0, len(one.round.drafted))
    return "" if sound else "whose drafted texts are not those of its draft"


def fault_of_round(r: Round) -> str:
    """Checks a round by itself."""
    if len(r.p) != len(r.tokens) or len(r.q) != len(r.drafted) or len(r.texts) not in (0, len(r.tokens)):
        return "whose parts do not fit together"
    if not 0 <= r.accepted <= min(len(r.tokens), len(r.drafted)):
        return "that accepted more than was drafted"
    if not all(0 <= id < _MOST for id in (*r.tokens, *r.drafted, r.index, r.width)):
        return "with a number out of range"
    if not all(0 <= share <= 1.000001 for share in (*r.p, *r.q)):
        return "with an impossible probability"
    if not all(t is None or 0 <= t <= _MOST_SECONDS for t in (r.time_s, r.draft_s, r.verify_s)):
        return "with an impossible time"
    return "" if _is_tree(r) else "whose tree is not a tree"


def _is_tree(r: Round) -> bool:
    if r.parents is None:
        return not r.path
    if len(r.parents) != len(r.drafted) or not all(-1 <= parent < i for i, parent in enumerate(r.parents)):
        return False
    before = (-1, *r.path)
    steps = zip(before, r.path, strict=False)
    return len(r.path) == r.accepted and all(0 <= i < len(r.parents) and r.parents[i] == at for at, i in steps)
