"""Records which tokens of the built-in target's replies its draft models get right: see `recorded_pairs`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import make_prompt_cache

from models.builtin import builtin_folder
from models.loader import load
from tests.programs.recorded_pairs import NOISE, PROMPTS, TOKENS
from tests.toys.pairs import write_blurred

MOST_PROMPT = 700  # tokens; of longer ones the first and the last half


def record(folder: Path, prompts: Path) -> list[dict[str, Any]]:
    """Returns the replies with their flags. folder: for the draft models, 2 GB."""
    replies = _written(prompts)
    for noise in NOISE:
        network = load(write_blurred(folder / f"blurred{noise:g}", noise)).network
        for reply in replies:
            logits = network(mx.array([(reply["prompt"] + reply["tokens"])[:-1]]))[0, len(reply["prompt"]) - 1 :]
            picked = [_pick(row, seed) for row, seed in zip(logits, reply["seeds"], strict=True)]
            same = (a == b for a, b in zip(picked, reply["tokens"], strict=True))
            reply["right"][f"{noise:g}"] = "".join(str(int(one)) for one in same)
        print(f"noise {noise}", flush=True)
    return [{name: reply[name] for name in ("question", "temperature", "right")} for reply in replies]


def _written(prompts: Path) -> list[dict[str, Any]]:
    """Returns the target's replies, greedy and at temperature 1. seeds: of the noise at each token, None for greedy."""
    questions = [json.loads(line) for line in prompts.read_text().splitlines()]
    target, dice, replies = load(builtin_folder()), np.random.default_rng(0), list[dict[str, Any]]()
    for question in questions[:: len(questions) // PROMPTS][:PROMPTS]:
        prompt = target.tokenizer.chat([{"role": "user", "content": question["turns"][0]}])
        if len(prompt) > MOST_PROMPT:
            prompt = prompt[: MOST_PROMPT // 2] + prompt[-(MOST_PROMPT // 2) :]
        for temperature in (0.0, 1.0):
            seeds = [int(dice.integers(2**31)) if temperature else None for _ in range(TOKENS)]
            tokens = _reply(target.network, prompt, seeds, target.tokenizer.eos)
            replies.append(
                {
                    "question": question["question_id"],
                    "temperature": temperature,
                    "prompt": list(prompt),
                    "tokens": tokens,
                    "seeds": seeds[: len(tokens)],
                    "right": {},
                }
            )
        print(f"question {question['question_id']}", flush=True)
    return replies


def _reply(network: Any, prompt: Sequence[int], seeds: Sequence[int | None], eos: frozenset[int]) -> list[int]:
    cache, tokens, unread = make_prompt_cache(network), list[int](), list(prompt)
    for seed in seeds:
        tokens.append(_pick(network(mx.array([unread]), cache=cache)[0, -1], seed))
        if tokens[-1] in eos:
            break
        unread = tokens[-1:]
    return tokens


def _pick(logits: mx.array, seed: int | None) -> int:
    """Returns the most likely token, or with noise of this seed one drawn from the distribution."""
    if seed is not None:
        logits = logits.astype(mx.float32) + mx.array(
            np.random.default_rng(seed).gumbel(size=logits.shape[0]).astype("f")
        )
    return int(mx.argmax(logits))
