"""A draft model: its distributions over the shared ids, and a memory that no rewind confuses."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.drafters import Draft, DraftContext
from engine.drafters.draft_model import DraftModel
from engine.drafters.draft_vocabulary import shorten_output
from engine.errors import ModelError
from engine.settings import AcceptanceRule, SamplingSettings
from engine.target.cached_model import CachedModel
from engine.target.model_layout import position_limit
from tests.engine.fakes import Counting
from tests.engine.fewer import fewer
from tests.engine.replies import PROMPT, draft_context, plain_reply, reply
from tests.toys.architectures import build
from tests.toys.tables import TableModel, random_tables

NETWORKS = {name: build(name) for name in ("qwen3", "llama", "mamba2", "qwen3_next")}
WARM = SamplingSettings(temperature=0.9, seed=3)


def warm_context(
    tokens: Sequence[int], vocabulary: int = 64, sampling: SamplingSettings = WARM, rule: AcceptanceRule = "rejection"
) -> DraftContext:
    return draft_context(tokens, sampling, rule, vocabulary)


def distributions(draft: Draft) -> np.ndarray:
    assert draft.logq is not None
    return np.exp(np.array(draft.logq, dtype=np.float64))


def drafted_from(drafter: DraftModel, tokens: Sequence[int]) -> mx.array:
    """The logits after each of the tokens, as the drafter draws from them."""
    return drafter._target_logits(drafter.model.forward(mx.array(list(tokens), mx.int32)))


def model_of_places(places: int) -> Any:
    """A model whose positions are a table of so many rows."""
    network: Any = build("gpt2")
    network.model.wpe.weight = network.model.wpe.weight[:places]
    return network


def table_model(size: int, seed: int = 0) -> CachedModel:
    return CachedModel(TableModel(random_tables(size, 1.0, seed)[0]))


# --- vocabularies ---------------------------------------------------------------------------------

SHAPES = [(8, 8, None), (8, 8, 6), (12, 8, None), (12, 8, 7), (8, 12, None), (8, 12, 5)]
SHAPED = [
    WARM,
    SamplingSettings(temperature=1, top_k=3, repetition_penalty=1.5, presence_penalty=-2.0, frequency_penalty=0.5),
    SamplingSettings(temperature=1, top_p=0.9, min_p=0.05, logit_bias={7: 9.0, 11: 50.0}),
    SamplingSettings(),
]


@pytest.mark.parametrize(
    ("target", "own", "shared", "sampling"), [(*shape, SHAPED[i % 4]) for i, shape in enumerate(SHAPES)]
)
def test_only_shared_ids_are_possible_and_each_row_is_a_distribution(
    target: int, own: int, shared: int | None, sampling: SamplingSettings
) -> None:
    """target: width of the target's logits; own: of the drafter's. Whatever shapes the distribution, bias included."""
    possible = min(shared or target, target, own)
    drafter = DraftModel(table_model(own), target, shared)
    for start in range(possible):
        draft = drafter.propose(warm_context([start, 1, 2], target, sampling), 5)
        q = distributions(draft)
        assert draft.tokens.shape == (5,)
        assert q.shape == (5, target)
        assert (q[:, possible:] == 0).all()
        assert np.abs(q.sum(-1) - 1).max() < 1e-5
        assert max(draft.tokens.tolist()) < possible
        drafter.rewind(0)


@pytest.mark.parametrize("sampling", SHAPED[:3])  # of a greedy draft nobody asks for the distribution
def test_of_a_shortlist_nothing_else_is_possible_and_each_row_is_a_distribution(sampling: SamplingSettings) -> None:
    model, ids = table_model(8), mx.array([1, 4, 5, 7])
    whole = drafted_from(DraftModel(table_model(8), 12), [3, 1, 2])
    model.model.table = model.model.table[..., ids]  # what a shortened output matrix gives
    drafter = DraftModel(model, 12, ids=ids)
    assert mx.array_equal(drafted_from(drafter, [3, 1, 2]), whole[:, ids]).item()
    drafter.rewind(0)
    draft = drafter.propose(warm_context([3, 1, 2], 12, sampling), 5)
    q = distributions(draft)
    assert q.shape == (5, 12) and set(np.flatnonzero(q.sum(0))) <= {1, 4, 5, 7}
    assert np.abs(q.sum(-1) - 1).max() < 1e-5
    assert set(draft.tokens.tolist()) <= {1, 4, 5, 7}


def test_an_id_that_the_drafter_has_no_embedding_for_is_read_as_one_it_has() -> None:
    """Never out of range, which MLX does not check: neither while prompts are fed nor between drafts."""

    class Strict(Counting):
        def __call__(self, inputs: mx.array, cache: object) -> mx.array:
            assert int(mx.max(inputs)) < 8
            return super().__call__(inputs, cache)

    drafter = DraftModel(CachedModel(Strict(TableModel(random_tables(8, 1.0)[0]))), 12)
    tokens = [1, 11, 8, 2, 9, 3]
    drafter.sync(tokens)
    assert drafter.model.length == len(tokens) - 1
    drafter.propose(warm_context(tokens, 12), 4)
    drafter.rewind(len(tokens))
    tokens += [10, 4, 11]
    first = drafter.propose(warm_context(tokens, 12), 4)
    other = DraftModel(table_model(8), 12).propose(warm_context(tokens, 12), 4)
    assert first.tokens.tolist() == other.tokens.tolist()


class Watched(list[int]):
    """Tokens that count how many of them are looked at."""

    seen = 0

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        self.seen += len(found) if isinstance(place, slice) else 1
        return found

    def __iter__(self) -> Any:
        self.seen += len(self)
        return super().__iter__()


@pytest.mark.parametrize("narrower", [False, True])
def test_a_round_looks_at_new_tokens_alone_however_long_the_text_is(narrower: bool) -> None:
    """Also of a model with fewer rows than the target has."""
    drafter, tokens = DraftModel(table_model(8), 12 if narrower else 8), Watched([3] * 2000)
    drafter.sync(tokens)
    context = warm_context(tokens, 12 if narrower else 8)
    tokens.seen = 0
    for _ in range(3):
        drafter.propose(context, 4)
        tokens += [5, 6]
        drafter.rewind(len(tokens) - 1)
    assert 0 < tokens.seen < 20


@pytest.mark.parametrize("tokens", [8, 13, 15, 16, 17, 700])
def test_nothing_is_read_past_the_end_of_a_table_of_positions(tokens: int) -> None:
    """MLX does not check that either. The target may have room for more."""
    network = model_of_places(16)
    assert position_limit(network) == 16 and position_limit(NETWORKS["llama"]) is None
    drafter, text = DraftModel(CachedModel(network), 64), [n % 60 for n in range(tokens)]
    drafter.sync(text)
    now = warm_context(text)
    draft = drafter.propose(now, 4)
    drafted = max(0, min(4, 17 - tokens))
    assert draft.tokens.size == drafted and drafter.model.length <= 16
    assert (drafter.draft_class(now) is None) == (drafted > 0)


def test_a_reply_goes_on_plainly_where_the_drafter_knows_no_more_places() -> None:
    drafter = DraftModel(CachedModel(model_of_places(len(PROMPT) + 8)), 64)
    plain = plain_reply(NETWORKS["llama"], tokens=24)
    ids, rounds, _ = reply(NETWORKS["llama"], drafter, 4, tokens=24)
    assert ids == plain and rounds[0].drafted and not rounds[-1].drafted


# --- memory ---------------------------------------------------------------------------------------

STEPS = st.lists(st.tuples(st.lists(st.integers(0, 63), max_size=12), st.integers(0, 5), st.integers(0, 9)), max_size=6)
# Every time: windows, and recurrent states among keys and values. The others are slow.
EACH = fewer(NETWORKS, slow=["mamba2"])


@pytest.mark.slow_for("qwen3_next")
@pytest.mark.parametrize("name", EACH)
@settings(deadline=None, max_examples=12, derandomize=True)
@given(steps=STEPS)
def test_after_any_rewinds_it_proposes_as_if_fresh(name: str, steps: list[tuple[list[int], int, int]]) -> None:
    """Each step: tokens are committed, some are drafted, and some of the text is taken back."""
    drafter, tokens = DraftModel(CachedModel(NETWORKS[name]), 64), list(PROMPT)
    for more, length, back in steps:
        tokens = [*tokens, *more]
        drafter.rewind(len(tokens) - 1)
        drafter.propose(warm_context(tokens), length)
        tokens = tokens[: max(2, len(tokens) - back)]
        drafter.rewind(len(tokens) - 1)
    again = drafter.propose(warm_context(tokens), 4)
    fresh = DraftModel(CachedModel(NETWORKS[name]), 64).propose(warm_context(tokens), 4)
    assert again.tokens.tolist() == fresh.tokens.tolist()
    assert np.abs(distributions(again) - distributions(fresh)).max() < 1e-4


def test_each_token_is_fed_once() -> None:
    """A round of k drafts costs k passes of one row, the first also reading what was committed since."""
    network = Counting(NETWORKS["qwen3"])
    drafter = DraftModel(CachedModel(network), 64)
    drafter.sync(PROMPT)
    network.rows.clear()
    drafter.propose(warm_context(PROMPT), 4)
    assert network.rows == [1, 1, 1, 1]
    tokens = [*PROMPT, 5, 6]
    drafter.rewind(len(PROMPT))
    network.rows.clear()
    drafter.propose(warm_context(tokens), 2)
    assert network.rows == [2, 1]


def test_penalties_count_the_drafted_tokens_too() -> None:
    """A distribution that forbids repeats: without counting its own draft, a drafter would repeat itself."""
    sampling = SamplingSettings(temperature=0.7, presence_penalty=80.0)
    draft = DraftModel(CachedModel(NETWORKS["qwen3"]), 64).propose(warm_context([1, 2], 64, sampling), 30)
    ids = draft.tokens.tolist()
    assert len({1, 2, *ids}) == 32


@pytest.mark.parametrize(("rule", "least", "most"), [("coupled", 40, 40), ("rejection", 1, 25)])
def test_coupled_drafts_use_the_targets_noise_and_rejection_its_own(
    rule: AcceptanceRule, least: int, most: int
) -> None:
    """A drafter with the target's own distribution: how often its first token is the target's, over 40 seeds."""
    drafter, network = DraftModel(table_model(8), 8), TableModel(random_tables(8, 1.0)[0])
    agree = 0
    for seed in range(40):
        sampling = SamplingSettings(temperature=2, seed=seed)
        drafter.rewind(0)
        mine = drafter.propose(warm_context([1, 2], 8, sampling, rule), 1).tokens.item()
        agree += mine == reply(network, None, 0, sampling, rule, tokens=1, prompt=[1, 2])[0][0]
    assert least <= agree <= most


# --- in parallel ----------------------------------------------------------------------------------


def test_a_parallel_draft_reads_masks_in_place_of_tokens() -> None:
    """Each token is that of the logits after the text and so many masks, in one pass; what was read of masks goes."""
    network = NETWORKS["qwen3"]
    counting = Counting(network)
    drafter, target = DraftModel(CachedModel(counting), 64, mask_id=63), CachedModel(network)
    drafter.sync(PROMPT)
    counting.rows.clear()
    draft = drafter.propose(warm_context(PROMPT, 64, SamplingSettings()), 4)
    wanted, _ = target.continue_from(PROMPT, mx.array([63] * 3))
    assert np.array(draft.tokens).tolist() == np.array(mx.argmax(wanted, -1)).tolist()
    assert drafter.model.length == len(PROMPT) and counting.rows == [4]


# --- a draft vocabulary ---

IDS = mx.array([0, 3, 17, 40, 63])
TOKENS = mx.array([[5, 9, 60, 2]])


def quantized(network: Any) -> Any:
    nn.quantize(network, 32, 8, class_predicate=lambda _, m: hasattr(m, "to_quantized") and not m.weight.shape[-1] % 32)
    return network


@pytest.mark.parametrize("quantize", [False, True])
@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt2", "phi"])
def test_the_logits_are_those_of_the_whole(name: str, quantize: bool) -> None:
    network = quantized(build(name)) if quantize else build(name)
    whole = network(TOKENS)
    shorten_output(network, IDS)
    short = network(TOKENS)
    assert short.shape == (1, 4, 5)
    assert mx.allclose(short, whole[..., IDS], atol=1e-5).item()


def test_a_model_without_an_output_matrix_is_refused() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = [nn.Linear(4, 4)]

        def __call__(self, tokens: mx.array, cache: object = None) -> mx.array:
            return mx.zeros((1, tokens.shape[1], 8))

    with pytest.raises(ModelError, match="no single output matrix"):
        shorten_output(Odd(), IDS)
