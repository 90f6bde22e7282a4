"""Hidden states: of any architecture what a spy in its layers sees, and a log that keeps in step with the tokens."""

from copy import deepcopy
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.models.cache import make_prompt_cache

from engine.errors import ModelError
from engine.target.cached_model import CachedModel
from engine.target.layer_taps import IN_FLIGHT, JOINED, NORMED, LayerTaps
from engine.target.model_layout import layers_of, output_rows
from tests.engine.fewer import fewer
from tests.programs.sweep import names
from tests.toys.architectures import NOT_BUILT, build
from tests.toys.tables import TableModel, random_tables

BUILT = [name for name in names() if name not in NOT_BUILT]
TOKENS = [3, 1, 4, 1, 5, 9, 2, 6]

STREAMS = {
    "deepseek_v41": "several streams between its layers",
    "gemma3n": "several streams between its layers",
    "iquestloopcoder": "goes over its layers twice, calling their parts",
    "nanbeige": "goes over its layers twice",
}
OTHER_FIRST = {"talkie": "its layers are handed the embedding first, then the stream"}
NO_OUTPUT = {"talkie": "its output matrix is an array, no module"}
SHAPED_LOGITS = {
    **dict.fromkeys(("gemma2", "gemma4", "gemma4_text", "nanochat", "recurrent_gemma"), "caps its logits"),
    **dict.fromkeys(("gptj", "phi", "phimoe", "phixtral"), "its output matrix has a bias"),
    "gemma3n": "caps its logits",
    "muse_glimmer": "scales its logits",
    "phi3small": "hides some ids",
}


def logits_of(model: Any, tokens: list[int] = TOKENS) -> mx.array:
    logits: mx.array = model(mx.array([tokens]), cache=make_prompt_cache(model))
    mx.eval(logits)
    return logits[0]


def layer_states(model: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[list[mx.array], list[mx.array]]:
    """What each layer takes and gives in one pass, seen through its class's own `__call__`."""
    seen: dict[int, tuple[Any, Any]] = {}

    def spy(call: Any) -> Any:
        def instead(self: Any, *args: Any, **named: Any) -> Any:
            out = call(self, *args, **named)
            seen[id(self)] = ((*args, *named.values())[0], out[0] if isinstance(out, tuple) else out)
            return out

        return instead

    layers = layers_of(model)
    with monkeypatch.context() as patched:
        for kind in {type(layer) for layer in layers}:
            patched.setattr(kind, "__call__", spy(kind.__call__))
        logits_of(model)
    return [seen[id(layer)][0][0] for layer in layers], [seen[id(layer)][1][0] for layer in layers]


# --- what is read ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", fewer(BUILT, STREAMS))
def test_every_architecture_is_read_as_its_layers_see_it_or_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All points at once; point i is the input of layer i, and the output of layer i - 1."""
    model = build(name)
    plain, points = logits_of(model), range(len(layers_of(model)) + 1)
    if name in STREAMS:
        with pytest.raises(ModelError, match="one vector a token, once a pass"):
            LayerTaps(model, points)
        assert mx.array_equal(logits_of(model), plain)
        return
    taken, given_ = layer_states(model, monkeypatch)
    features = LayerTaps(model, points)
    probed = logits_of(model)
    features.record(0)
    rows = mx.split(features.take(0, len(TOKENS)), len(points), -1)
    assert mx.array_equal(probed, plain), "probes change what the model computes"
    assert all(mx.array_equal(row, x) for row, x in zip(rows, [taken[0], *given_], strict=True))
    if name not in OTHER_FIRST:
        assert all(mx.array_equal(row, x) for row, x in zip(rows, [*taken, given_[-1]], strict=True))


@pytest.mark.parametrize("name", fewer(BUILT))
def test_the_normed_state_is_what_the_output_matrix_makes_logits_of(name: str) -> None:
    model = build(name)
    plain = logits_of(model)
    if name in NO_OUTPUT:
        with pytest.raises(ModelError, match="no single output matrix"):
            LayerTaps(model, (NORMED,))
        return
    features = LayerTaps(model, (NORMED,))
    assert mx.array_equal(logits_of(model), plain)
    features.record(0)
    states = features.take(0, len(TOKENS))
    logits = states @ output_rows(model, mx.arange(plain.shape[-1])).T
    assert mx.allclose(logits, plain, atol=1e-5).item() == (name not in SHAPED_LOGITS)


@pytest.mark.parametrize("name", ["llama", "falcon_h1"])
def test_a_watched_module_stays_what_it_was(name: str) -> None:
    model = build(name)
    before = [(layer, type(layer), sorted(layer)) for layer in layers_of(model)]
    parameters = model.parameters()
    LayerTaps(model, (0, 1, len(before)))
    LayerTaps(model, (1, NORMED))
    for layer, kind, keys in before:
        assert isinstance(layer, kind) and type(layer).__name__ == kind.__name__ and sorted(layer) == keys
    assert str(model.parameters()) == str(parameters)
    assert mx.array_equal(logits_of(deepcopy(model)), logits_of(model))


def test_points_that_coincide_are_read_once_each_and_others_are_refused() -> None:
    model = build("llama")
    features = LayerTaps(model, (2, 2, 1))
    assert features.width == 3 * 32
    logits_of(model)
    features.record(0)
    first, second, third = mx.split(features.take(0, len(TOKENS)), 3, -1)
    assert mx.array_equal(first, second) and not mx.array_equal(first, third)
    for point in (-2, 4):
        with pytest.raises(ValueError, match="give 0 to 3"):
            LayerTaps(model, (point,))


class OtherLayers(nn.Module):
    """Wraps another model's layers the way a test needs."""

    def __init__(self, network: Any, layers: Any) -> None:
        super().__init__()
        self.network = network
        self._layers = layers

    @property
    def layers(self) -> Any:
        return self._layers

    def __call__(self, inputs: mx.array, cache: Any) -> mx.array:
        logits: mx.array = self.network(inputs, cache=cache)
        return logits


def test_models_without_layers_to_watch_are_refused() -> None:
    network = build("llama")
    shared = network.layers[0]
    for layers in (None, [], {"0": shared}, (shared,), [shared, None]):
        with pytest.raises(ModelError, match="no list of layers"):
            LayerTaps(OtherLayers(network, layers), (0,))
    with pytest.raises(ModelError, match="uses a layer twice"):
        LayerTaps(OtherLayers(network, [shared, shared]), (0,))
    with pytest.raises(ModelError, match="no list of layers"):
        LayerTaps(TableModel(random_tables(8, 1.0)[0]), (NORMED,))
    other = build("llama", 1).layers[0]  # a module that no pass goes through
    with pytest.raises(ModelError, match="one vector a token"):
        LayerTaps(OtherLayers(network, [*network.layers, other]), (4,))


# --- the log ------------------------------------------------------------------------------------

POINTS = (1, 3)
NETWORKS = {name: build(name) for name in ("llama", "mamba2", "qwen3_next")}
TEXT = np.random.default_rng(0).integers(0, 64, 200).tolist()
STATES: dict[tuple[str, bool], np.ndarray] = {}


def states(name: str, points: tuple[int, ...]) -> np.ndarray:
    """Of every token of TEXT, from one pass over all of it."""
    if (name, points == POINTS) not in STATES:
        features = LayerTaps(NETWORKS[name], points)
        logits_of(NETWORKS[name], TEXT)
        features.record(0)
        STATES[name, points == POINTS] = np.array(features.take(0, len(TEXT)))
    return STATES[name, points == POINTS]


STEPS = st.lists(st.tuples(st.sampled_from(["chunks", "forward", "rewind", "take"]), st.integers(0, 20)), max_size=12)


@pytest.mark.parametrize(
    ("name", "latest_only"), [("llama", False), ("llama", True), ("mamba2", True), ("qwen3_next", False)]
)
@settings(deadline=None, max_examples=15, derandomize=True)
@given(steps=STEPS)
def test_through_chunks_passes_and_rewinds_each_row_is_its_tokens_state(
    name: str, latest_only: bool, steps: list[tuple[str, int]]
) -> None:
    target = CachedModel(NETWORKS[name])
    points = (NORMED,) if latest_only else POINTS
    target.record(tuple(points), latest_only)
    features, truth = target.taps, states(name, points)
    assert features is not None
    certain = 0
    for kind, size in steps:
        ahead = TEXT[target.length : target.length + size]
        if kind == "chunks":
            for _ in target.prefill(ahead, chunk=7):
                pass
        elif kind == "forward" and ahead:
            target.forward(mx.array(ahead))
        elif kind == "rewind":
            certain = max(0, target.length - size)
            target.rewind(certain)
        elif kind == "take" and features.end - features.start > size:
            features.take(features.start + size, features.end)
        start, end = features.start, features.end
        if kind in ("chunks", "forward") and ahead:
            certain = target.length
            assert end == certain
        assert end <= certain  # past what a cache that cannot drop tokens was left with, too
        if end > start:
            assert np.abs(np.array(features.take(start, end)) - truth[start:end]).max() < 1e-4 * np.abs(truth).max()


def test_the_rows_of_many_narrow_passes_are_joined() -> None:
    """What is joined has been launched: the last two passes are left alone. Then all is taken back to a joined row."""
    target = CachedModel(NETWORKS["llama"])
    target.record(tuple(POINTS))
    features, truth = target.taps, states("llama", POINTS)
    assert features is not None
    for place, token in enumerate(TEXT):
        mx.eval(target.forward(mx.array([token])))
        held = [rows.shape[0] for rows in features.arrays()]
        assert len(held) <= place / JOINED + JOINED + IN_FLIGHT
        assert held[-IN_FLIGHT:] == [1] * min(place + 1, IN_FLIGHT)
    target.rewind(JOINED + 3)
    target.forward(mx.array(TEXT[JOINED + 3 : JOINED + 5]))
    found = np.array(features.take(0, JOINED + 5))
    assert np.abs(found - truth[: JOINED + 5]).max() < 1e-4 * np.abs(truth).max()


def test_only_rows_that_are_held_can_be_taken_and_what_lies_before_them_is_forgotten() -> None:
    features = LayerTaps(NETWORKS["llama"], POINTS)
    for start, size in ((0, 5), (5, 3)):
        NETWORKS["llama"](mx.array([TEXT[start : start + size]]), cache=make_prompt_cache(NETWORKS["llama"]))
        features.record(start)
    assert (features.start, features.end) == (0, 8) and len(features.arrays()) == 2
    assert features.take(6, 8).shape == (2, 64)
    assert (features.start, features.end) == (5, 8) and len(features.arrays()) == 1
    for start, end in ((4, 8), (6, 9), (6, 6)):
        with pytest.raises(ValueError, match="5 to 8 are recorded"):
            features.take(start, end)
    features.cut(5)
    assert (features.start, features.end) == (0, 0)
