"""How often a drafter with another tokenizer is right: by the tokens that both have (TLI) and by its text (SLEM).

    python -m tests.programs.tokenizer_pairs PROMPTS.jsonl --target FOLDER --drafter FOLDER [--every K] [--tokens N]

A line for each way, temperature and draft length: tau, the share of drafted tokens that was accepted, the share of
replies that are those of plain decoding (greedy and coupled), and the most that a draft step may take of a pass for
drafting to pay, where a wider pass takes no longer: (tau - 1) / length. No figure depends on the clock.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import engine  # noqa: F401  (readies the backend before MLX is imported)
from app.bench.prompt_file import Question, read_questions
from engine.drafters import Drafter
from engine.events import Round
from engine.policy.fixed import FixedLength
from engine.session import Prompt, Session
from engine.settings import AcceptanceRule, SamplingSettings
from models.drafters.draft_model import FILES as DRAFT_MODEL_FILES
from models.loader import Loaded, load

WAYS: tuple[tuple[float, AcceptanceRule], ...] = ((0.0, "rejection"), (1.0, "coupled"), (1.0, "rejection"))


def answer(
    target: Loaded, question: Question, drafter: Drafter | None, length: int, settings: SamplingSettings
) -> list[Round]:
    """Returns the rounds of a reply to the question's first turn."""
    prompt = target.tokenizer.chat([{"role": "user", "content": question.turns[0]}])
    session = Session(target.model, target.tokenizer, len(prompt) + settings.max_tokens + length + 1)
    try:
        events = session.continue_tokens(Prompt(prompt), settings, drafter, FixedLength(length))
        return [event for event in events if isinstance(event, Round)]
    finally:
        session.forget()


def tokens_of(rounds: list[Round]) -> list[int]:
    """Returns the ids of a reply."""
    return [token for round_ in rounds for token in round_.tokens]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompts", type=Path)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--drafter", type=Path, required=True)
    parser.add_argument("--every", type=int, default=40)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--draft-length", type=int, nargs="+", default=[3])
    options = parser.parse_args()
    questions = read_questions(options.prompts, every=options.every)
    target = load(options.target)
    variants = DRAFT_MODEL_FILES.load(options.drafter, target, False).variants
    if not variants:
        parser.error("both have the same tokenizer")
    print(f"{options.drafter.name} for {options.target.name}, {len(questions)} prompts of {options.tokens} tokens")
    for temperature, rule in WAYS:
        settings = SamplingSettings(max_tokens=options.tokens, temperature=temperature, acceptance=rule, seed=1)
        plain = [tokens_of(answer(target, question, None, 0, settings)) for question in questions]
        for variant in variants:
            for length in options.draft_length:
                replies = [answer(target, q, variant.make(), length, settings) for q in questions]
                report(variant.name, length, settings, plain, replies)


def report(
    name: str, length: int, settings: SamplingSettings, plain: list[list[int]], replies: list[list[Round]]
) -> None:
    """Prints the line of one way to draft."""
    rounds = [round_ for reply in replies for round_ in reply]
    drafted, accepted = sum(len(r.drafted) for r in rounds), sum(r.accepted for r in rounds)
    tau = sum(len(r.tokens) for r in rounds) / len(rounds)
    same = sum(tokens_of(reply) == own for reply, own in zip(replies, plain, strict=True))
    by_rejection = settings.temperature > 0 and settings.acceptance == "rejection"
    identical = "" if by_rejection else f", identical {same} of {len(plain)}"
    rule = settings.acceptance if settings.temperature else "greedy"
    share = accepted / max(drafted, 1)
    print(
        f"{name}, {length} at {settings.temperature:g} ({rule}): tau {tau:.2f}, accepted {share:.0%} of {drafted}"
        f"{identical}, pays below {(tau - 1) / length:.2f} of a pass a step",
        flush=True,
    )


if __name__ == "__main__":
    main()
