"""What no policy can beat that must never lose more than the budget over `TOKENS` tokens.

    python -m tests.engine.policy.bound

The best policy that is told the costs and a text's chance of being right, though not its luck, and whose budget must
pay for the worst that can come of each draft: by dynamic programming over tokens left and budget. All that may be lost
is lent at once. The budget is rounded up, so what is found is a little too good for any policy.
"""

from statistics import mean
from typing import Any

import numpy as np

from engine.policy.adaptive import BUDGET_SHARE, MAX_BUDGET_START
from tests.engine.policy.simulation import CURVES, DRAFTS, LONGEST, TEXTS, TOKENS, best_fixed, costs_of

STEP, MOST = 0.005, 8.0  # of the budget, in plain passes; a fuller one is no better
SEEDS = 60  # of the best fixed length in hindsight


def bound(
    curve: str, draft: str, text: str, budget: float = MAX_BUDGET_START + BUDGET_SHARE * TOKENS, seeds: int = SEEDS
) -> float:
    """Of the best fixed length in hindsight, on average over texts; the chance of `text` must not change."""
    costs, right = costs_of(curve, draft), TEXTS[text](0)
    best = mean(best_fixed(costs, text, seed) for seed in range(seeds))
    passes = fewest([costs.round_s(n) for n in range(LONGEST + 1)], right)
    return float(TOKENS / passes[round(budget / STEP)] / best)


def fewest(prices: list[float], right: float) -> Any:
    """Expected passes of the best policy, by its budget at the beginning, in steps of STEP."""
    budgets = np.arange(round(MOST / STEP) + 1)
    left = [np.zeros(len(budgets))]
    for tokens in range(1, TOKENS + 1):
        ways = [prices[0] + left[tokens - 1]]
        for length in range(1, min(LONGEST, tokens - 1) + 1):
            passes = np.full(len(budgets), prices[length])
            for accepted in range(length + 1):
                chance = right**accepted * ((1 - right) if accepted < length else 1)
                after = np.ceil(budgets + (accepted + 1 - prices[length]) / STEP - 1e-9).astype(int)
                paid = left[tokens - accepted - 1][np.clip(after, 0, len(budgets) - 1)]
                passes += chance * paid + np.where(after < 0, np.inf, 0)
            ways.append(passes)
        left.append(np.minimum.reduce(ways))
    return left[TOKENS]


def main() -> None:
    for curve in CURVES:
        for draft in DRAFTS:
            for text in (text for text in TEXTS if text.endswith("right") and TEXTS[text](0) >= 0.5):
                held, free = bound(curve, draft, text), bound(curve, draft, text, MOST)
                if held < 0.97:
                    print(f"at most {held:.3f}, {free:.3f} without a budget: {curve}, drafter {draft}, {text}")


if __name__ == "__main__":
    main()
