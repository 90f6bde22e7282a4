"""What a round says of a refusal is what decided: computed again from the distributions and the noise of the place."""

from collections.abc import Iterator

import mlx.core as mx
import numpy as np
import pytest

from engine.drafters import Draft
from engine.events import Round
from engine.noise import Noise, Stream, position_range
from engine.refusal import explained, rule_of
from engine.sampling import Sampler, TokenCounts
from engine.settings import SamplingSettings
from engine.tree.draft_tree import DraftTree
from engine.verify_pass import verify

SIZE, SEED, ROUNDS = 7, 5, 40


def log_softmax(rows: np.ndarray) -> np.ndarray:
    return rows - np.log(np.exp(rows).sum(-1, keepdims=True))


def rounds(
    acceptance: str, temperature: float, drawn: bool, parents: tuple[int, ...] | None = None
) -> Iterator[tuple[Round, np.ndarray, np.ndarray, int]]:
    """Yields rounds with log p (n + 1, SIZE), log q (n, SIZE) and the position of each."""
    sampler = Sampler(SamplingSettings(temperature=temperature, acceptance=acceptance, seed=SEED), SIZE)  # type: ignore[arg-type]
    dice, tree = np.random.default_rng(3), None if parents is None else DraftTree.of(parents)
    count = 3 if parents is None else len(parents)
    for position in range(ROUNDS):
        logp = log_softmax(dice.normal(size=(count + 1, SIZE))).astype(np.float32)
        logq = log_softmax(dice.normal(size=(count, SIZE))).astype(np.float32)
        tokens = mx.array(dice.permutation(SIZE)[:count].astype(np.int32))
        draft = Draft(tokens, mx.array(logq) if drawn else None, tree)
        made = verify(sampler, mx.array(logp), TokenCounts(sampler.distribution, []), draft, position)
        assert made.p is not None and made.q is not None and made.evidence is not None
        n = int(made.accepted.item())
        path = () if made.path is None else tuple(made.path.tolist()[:n])
        chosen, drafted = made.tokens.tolist()[: n + 1], tuple(tokens.tolist())
        told = Round(
            position, tuple(chosen), drafted, n, tuple(made.p.tolist()[: n + 1]), tuple(made.q.tolist()), 1, 0.0,
            parents=parents, path=path, rule=rule_of(sampler, draft),
        )  # fmt: skip
        draws = [] if made.draws is None else made.draws.tolist()
        yield explained(told, made.evidence.tolist(), draws), logp, logq, position


def test_a_chain_by_rejection_has_its_draws_and_its_residual() -> None:
    refused = 0
    for told, logp, logq, position in rounds("rejection", 1, drawn=True):
        uniforms = np.array(Noise(SEED).uniform(Stream.ACCEPT, position_range(position, 3)))
        assert told.rule == "rejection"
        assert told.draws == pytest.approx(uniforms[: told.depth].tolist())
        chances = [min(1, np.exp(logp[i, x] - logq[i, x])) for i, x in enumerate(told.drafted)]
        kept = [u < chance for u, chance in zip(told.draws, chances, strict=False)]
        assert kept == [True] * told.accepted + [False] * (told.depth - told.accepted)
        if told.refusal is None:
            assert told.accepted == 3
            continue
        refused += 1
        n, y = told.accepted, told.tokens[-1]
        p, q = np.exp(logp[n]), np.exp(logq[n])
        rest = np.maximum(0, p - q) / np.maximum(0, p - q).sum()
        numbers = (told.refusal.drafted_p, told.refusal.emitted_q, told.refusal.residual)
        assert numbers == pytest.approx((p[told.drafted[n]], q[y], rest[y]), rel=1e-4)
        assert told.cut(n).refusal is None
    assert refused > ROUNDS / 3


def test_a_point_mass_is_kept_with_what_the_target_gives_it() -> None:
    seen = [(told, logp) for told, logp, _, _ in rounds("rejection", 1, drawn=False) if told.refusal]
    for told, logp in seen:
        assert told.rule == "point mass"
        assert told.refusal is not None and told.refusal.residual is None
        assert told.refusal.drafted_p == pytest.approx(
            np.exp(logp[told.accepted, told.drafted[told.accepted]]), rel=1e-4
        )
        assert told.draws[-1] >= told.refusal.drafted_p
    assert seen


@pytest.mark.parametrize(("temperature", "rule"), [(0, "greedy"), (1, "coupled")])
@pytest.mark.parametrize("parents", [None, (-1, -1, 0, 0)])
def test_by_match_both_scores_are_those_that_the_target_chose_by(
    temperature: float, rule: str, parents: tuple[int, ...] | None
) -> None:
    seen = 0
    for told, logp, _, position in rounds("coupled", temperature, drawn=False, parents=parents):
        assert told.rule == rule
        assert told.draws == ()
        if not told.refused:
            assert told.refusal is None
            continue
        assert told.refusal is not None and told.refusal.drafted_score is not None
        seen += 1
        end = told.path[-1] if told.path else -1
        row, node = (told.accepted, told.accepted) if parents is None else (end + 1, parents.index(end))
        noise = np.array(Noise(SEED).gumbel(Stream.CHOICE, position + told.accepted, SIZE))[0] if temperature else 0
        scores = logp[row] + noise
        found = (told.refusal.drafted_score, told.refusal.emitted_score)
        assert found == pytest.approx((scores[told.drafted[node]], scores.max()), abs=1e-4)
        assert told.refusal.drafted_p == pytest.approx(np.exp(logp[row, told.drafted[node]]), rel=1e-4)
    assert seen > 10


def test_a_drawn_tree_has_a_draw_for_each_token_of_its_path_and_for_the_first_refused() -> None:
    parents = (-1, -1, 0, 0)
    for told, _, _, position in rounds("rejection", 1, drawn=True, parents=parents):
        uniforms = Noise(SEED).uniforms(Stream.ACCEPT, position, 4).tolist()
        end = told.path[-1] if told.path else -1
        nodes = [*told.path, parents.index(end)] if told.refused else told.path
        assert told.rule == "drawn tree"
        assert told.draws == pytest.approx([uniforms[node] for node in nodes])
        assert (told.refusal is not None) == told.refused
