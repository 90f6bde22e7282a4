"""A reply to be checked, sound or forged, and what a check said of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from engine.audit.receipt import Receipt
from engine.audit.reply_check import EndConditions, check_reply
from engine.events import PromptProgress, Round
from engine.sampling import Sampler
from engine.settings import AcceptanceRule, SamplingSettings
from engine.target.cached_model import CachedModel
from tests.engine.fakes import ByteStream
from tests.engine.replies import PROMPT, Scripted, reply

WARM = SamplingSettings(temperature=0.9, seed=5)
FREE = EndConditions(ByteStream)
LENGTH = 24


def rounds_of(
    network: Any,
    sampling: SamplingSettings,
    rule: AcceptanceRule = "coupled",
    wrong: frozenset[int] = frozenset({1, 9, 10, 20}),
) -> list[Round]:
    """A reply in rounds of up to five tokens, drafts wrong at some places."""
    target = CachedModel(network)
    truth, _, _ = reply(target, sampling=sampling, rule=rule, tokens=LENGTH)
    return reply(target, Scripted(len(PROMPT), truth, wrong), 4, sampling, rule, LENGTH)[1]


def with_forged_token(rounds: Sequence[Round], position: int, token: int) -> list[Round]:
    """The same with another token at one place."""
    made, start = [], 0
    for round_ in rounds:
        tokens = list(round_.tokens)
        if start <= position < start + len(tokens):
            tokens[position - start] = token
        made.append(replace(round_, tokens=tuple(tokens)))
        start += len(tokens)
    return made


def receipt_of(
    network: Any,
    rounds: Sequence[Round],
    sampling: SamplingSettings = WARM,
    rule: AcceptanceRule = "coupled",
    ends: EndConditions = FREE,
    target: CachedModel | None = None,
) -> tuple[Receipt, list[PromptProgress | int]]:
    """The receipt, and what was told on the way."""
    target = target or CachedModel(network)
    steps = check_reply(target, Sampler(replace(sampling, acceptance=rule), target.vocabulary), PROMPT, rounds, ends)
    seen: list[PromptProgress | int] = []
    while True:
        try:
            seen.append(next(steps))
        except StopIteration as done:
            assert target.length == 0
            return done.value, seen


def plain_choices(network: Any, tokens: Sequence[int], sampling: SamplingSettings) -> list[int]:
    """Slowly: what plain decoding says after every part of `tokens`, each from nothing."""
    return [
        reply(network, sampling=sampling, tokens=1, prompt=[*PROMPT, *tokens[:i]])[0][0] for i in range(len(tokens))
    ]
