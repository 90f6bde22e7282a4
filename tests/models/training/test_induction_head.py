"""A head begins by saying again what followed its last token before."""

import mlx.core as mx
import numpy as np
import pytest

from engine.drafters.eagle3 import Eagle3Config, Eagle3Head
from models.loader import Loaded
from models.parameters import flat_parameters
from models.training.eagle3_initialization import SINKS, StateSums, add_induction_head
from models.training.eagle3_trainee import Eagle3Trainee, heads_with_induction_group
from models.training.trainee_kinds import make_reader
from tests.models.training.training_plans import conversation

HIDDEN, WORDS, LENGTH = 96, 200, 40


class World:
    """Tokens with random embeddings, and a target whose low states show the token that was read, among other things."""

    def __init__(self, query_heads: int) -> None:
        mx.random.seed(4)
        self.config = Eagle3Config(
            taps=(0, 1, 2),
            feature_size=3 * HIDDEN,
            hidden_size=HIDDEN,
            intermediate_size=64,
            num_attention_heads=3 * query_heads,
            num_key_value_heads=3,
            head_dim=64,
            vocab_size=WORDS,
            draft_vocab_size=WORDS,
        )
        self.head = Eagle3Head(self.config)
        self.head.layers[0].hidden_norm.weight = 0.5 + mx.random.uniform(shape=(HIDDEN,))
        self.head.layers[0].input_layernorm.weight = 0.5 + mx.random.uniform(shape=(HIDDEN,))
        self.embedded, self.said = 0.3 + mx.random.normal((WORDS, HIDDEN)), mx.random.normal((WORDS, HIDDEN))
        self._shows = mx.random.normal((HIDDEN, HIDDEN)) / HIDDEN**0.5

    def states(self, tokens: mx.array) -> mx.array:
        noise = mx.random.normal((tokens.size, 3 * HIDDEN))
        noise[:, :HIDDEN] = 0.2 * noise[:, :HIDDEN] + self.embedded[tokens] @ self._shows
        return 7 * noise

    def begin(self, texts: int, length: int = 100, words: int = WORDS) -> None:
        sums = StateSums.none(HIDDEN)
        for _ in range(texts):
            tokens = mx.random.randint(0, words, (length,))
            sums.add(self.head, self.states(tokens), self.embedded[tokens])
        add_induction_head(self.head, sums, self.embedded, self.said)

    def last_head(self, tokens: mx.array) -> tuple[list[int], list[int], mx.array]:
        """Where the last query head looks most from each place, what it alone would say, and how much it writes in
        lengths of the fused state."""
        head, shown = self.head, []

        def attend(queries: mx.array, keys: mx.array, values: mx.array) -> mx.array:
            scores = head.rope(queries[:, -1:]) @ head.rope(keys[:, -1:]).swapaxes(-1, -2) * head.scale
            scores = mx.where(mx.tri(tokens.size - 1, dtype=mx.bool_), scores, -mx.inf)
            shown.extend((scores[0, 0], (mx.softmax(scores, -1) @ values[:, -1:])[0, 0]))
            return queries

        fused = head.fuse(self.states(tokens)[None, :-1])
        head(fused, self.embedded[tokens[1:]][None], attend)
        written = shown[1] @ head.layers[0].self_attn.o_proj.weight[:, -64:].T
        where, said = mx.argmax(shown[0], -1).tolist(), mx.argmax(written @ self.said.T, -1).tolist()
        assert isinstance(where, list) and isinstance(said, list)
        return where, said, mx.linalg.norm(written, axis=-1) / mx.linalg.norm(fused[0], axis=-1)


@pytest.mark.slow_for("3")
@pytest.mark.parametrize("query_heads", [1, 3])
def test_it_attends_to_earlier_places_of_the_token_and_predicts_what_followed(query_heads: int) -> None:
    world = World(query_heads)
    world.begin(60)
    looked = said = 0
    for seed in range(10):
        text = np.random.default_rng(seed).permutation(WORDS)[:LENGTH].tolist()
        places = range(LENGTH, 2 * LENGTH - 2)  # of the second time that it is read
        where, says, written = world.last_head(mx.array(text + text))
        looked += sum(where[i] == i + 1 - LENGTH for i in places)
        said += sum(says[i] == text[i + 2 - LENGTH] for i in places)
        share = mx.mean(written[LENGTH:-1]).item()
        assert isinstance(share, float) and 0.03 < share * query_heads < 0.2
    assert looked > 0.9 * 380 and said > 0.9 * 380


def test_the_other_heads_stay_as_they_are() -> None:
    world = World(3)
    before = flat_parameters(world.head)
    world.begin(60)
    for name, value in flat_parameters(world.head).items():
        if name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight")):
            kept = value.shape[0] * 2 // 3
            assert mx.array_equal(value[:kept], before[name][:kept]) and not mx.array_equal(value, before[name]), name
        elif name.endswith("o_proj.weight"):
            kept = value.shape[1] * 2 // 3
            assert mx.array_equal(value[:, :kept], before[name][:, :kept]), name
        elif not name.endswith("fc.weight"):
            assert mx.array_equal(value, before[name]), name


def test_too_few_places_leave_the_head_as_it_is() -> None:
    world = World(3)
    before = flat_parameters(world.head)
    world.begin(1, HIDDEN + SINKS - 1)
    assert all(mx.array_equal(value, before[name]) for name, value in flat_parameters(world.head).items())
    world.begin(1, HIDDEN + SINKS)
    assert not all(mx.array_equal(value, before[name]) for name, value in flat_parameters(world.head).items())


@pytest.mark.parametrize("words", [20, 48])
def test_too_few_words_leave_the_head_as_it_is(words: int) -> None:
    """Whitened, what hardly varies among them would be larger than 16 bits hold."""
    world = World(3)
    before = flat_parameters(world.head)
    world.embedded, world.said = world.embedded[:words], world.said[:words]
    world.begin(60, words=words)
    same = all(mx.array_equal(value, before[name]) for name, value in flat_parameters(world.head).items())
    assert same == (words == 20)
    assert all(mx.max(mx.abs(value)).item() < 1e4 for value in flat_parameters(world.head).values())  # type: ignore[operator]


def test_a_fit_starts_from_an_induction_head(target: Loaded) -> None:
    reader, chance = make_reader(target, "eagle3"), np.random.default_rng(5)
    talk = [conversation(chance.integers(5, 200, 60).tolist(), 8) for _ in range(12)]
    trainees = [Eagle3Trainee(target, mx.arange(5, 205, dtype=mx.int32), 3, reader.width, seed=1) for _ in range(3)]
    for trainee in trainees[1:]:
        looked = list(trainee.initialize(talk, lambda place: reader.read(talk[place]), 500))
        assert looked == sorted(looked) and looked[-2] < 500 <= looked[-1]
    plain, one, other = (flat_parameters(trainee.network) for trainee in trainees)
    assert not mx.array_equal(plain["layers.0.self_attn.q_proj.weight"], one["layers.0.self_attn.q_proj.weight"])
    assert all(mx.array_equal(one[name], other[name]) for name in one)


def test_the_other_heads_look_as_the_targets_last_layer_does(target: Loaded) -> None:
    network = Eagle3Trainee(target, mx.arange(5, 205, dtype=mx.int32), 3, 96, seed=1).network
    own, theirs = network.layers[0].self_attn, target.network.layers[-1].self_attn
    size, hidden = network.config.head_dim, network.config.hidden_size
    group = network.config.num_attention_heads // network.config.num_key_value_heads
    for name, last in (("q_proj", group), ("k_proj", 1), ("v_proj", 1)):
        rows = own[name].weight.shape[0] - last * size
        assert rows > 0 and mx.array_equal(own[name].weight[:rows, hidden:], theirs[name].weight[:rows]), name
    columns = own.o_proj.weight.shape[1] - group * size
    assert mx.array_equal(own.o_proj.weight[:, :columns], theirs.o_proj.weight[:, :columns])
    assert not mx.any(own.o_proj.weight[:, columns:]).item()


@pytest.mark.parametrize(
    ("hidden", "heads", "more"),
    [
        (576, (9, 3), (12, 4)),
        (2048, (32, 8), (32, 8)),
        (1152, (4, 1), (8, 2)),
    ],
)
def test_there_are_more_heads_where_that_divides(hidden: int, heads: tuple[int, int], more: tuple[int, int]) -> None:
    assert heads_with_induction_group(hidden, *heads) == more
