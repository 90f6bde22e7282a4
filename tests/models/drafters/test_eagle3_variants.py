"""How an EAGLE-3 head is read where its files do not say: another convention than the usual one is found out."""

from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from engine.drafters.eagle3 import Eagle3, Eagle3Head
from engine.session import Prompt, Session
from engine.settings import SamplingSettings
from models.drafters import variant_trial
from models.drafters.eagle3 import FILES, save_eagle3
from models.drafters.eagle3 import FILES as EAGLE3_FILES
from models.drafters.variant_trial import choose_variant
from models.loader import Loaded
from tests.engine.conversations import read
from tests.engine.fewer import fewer
from tests.models.drafters.head_folders import edit
from tests.toys.heads import random_eagle3

OUTPUTS, INPUTS = (1, 2), (0, 1)  # of the layers 0 and 1, as points
READINGS = {
    "layer ids as outputs and the plain residual": (OUTPUTS, False),
    "layer ids as outputs and the normed residual": (OUTPUTS, True),
    "layer ids as inputs and the plain residual": (INPUTS, False),
    "layer ids as inputs and the normed residual": (INPUTS, True),
}


@pytest.fixture(scope="module")
def text(target: Loaded) -> list[int]:
    """The trial's prompt and the target's own answer to it."""
    prompt = target.tokenizer.chat([{"role": "user", "content": variant_trial._PROMPT}])
    session, settings = Session(target.model, target.tokenizer, 1000), SamplingSettings(max_tokens=variant_trial.TOKENS)
    return [*prompt, *read(list(session.continue_tokens(Prompt(prompt), settings))).ids]


def fitted_head(points: tuple[int, ...], normed: bool, target: Loaded, text: list[int]) -> Eagle3Head:
    """A head that knows the text when it is read so: its output matrix is fitted to its own states by least squares."""
    hidden, vocabulary = target.network.args.hidden_size, target.model.vocabulary
    sizes = {"feature_size": 2 * hidden, "hidden_size": hidden, "intermediate_size": 64}
    tokens = {"vocab_size": vocabulary, "draft_vocab_size": vocabulary}
    head = random_eagle3(taps=points, norm_before_residual=normed, **sizes, **tokens)
    drafter = Eagle3(head, target.model)
    target.model.reset()
    target.model.record(points)
    target.model.feed(text)
    states = np.array(head.norm(drafter._catch_up(text, len(text) - 1)), np.float64)[:-1]
    wanted = 12 * np.eye(vocabulary)[text[2:]]
    head.lm_head.weight = mx.array(np.linalg.lstsq(states, wanted, rcond=None)[0].T.astype(np.float32))
    target.model.record()
    target.model.forget_taps(points)
    target.model.reset()
    return head


def silent(path: Path, head: Eagle3Head) -> Path:
    """Stores a head whose config.json names its layers within eagle_config, and not what its residual is."""
    save_eagle3(path, head, {})
    nested = {"eagle_aux_hidden_state_layer_ids": [0, 1]}
    edit(path, eagle_aux_hidden_state_layer_ids=None, norm_before_residual=None, eagle_config=nested)
    return path


@pytest.mark.parametrize("reading", fewer(READINGS, [*READINGS][-1:]))
def test_the_convention_that_a_head_was_trained_with_is_found_out(
    reading: str, target: Loaded, text: list[int], tmp_path: Path
) -> None:
    points, normed = READINGS[reading]
    path = silent(tmp_path / "head", fitted_head(points, normed, target, text))
    found = FILES.load(path, target, False)
    assert list(found.variants) == list(READINGS)
    kept = choose_variant(found, path, target, tmp_path)
    config = kept.drafter.head.config  # type: ignore[attr-defined]
    assert (config.taps, config.norm_before_residual) == (points, normed) and kept.drafter.needs.taps == points
    assert kept.note.startswith(f"uses {reading}: ") == (reading != next(iter(READINGS)))
    target.model.forget_taps(points)


def test_a_head_that_says_how_it_is_read_is_not_tried(target: Loaded, text: list[int], tmp_path: Path) -> None:
    path, head = tmp_path / "head", fitted_head(INPUTS, False, target, text)
    for trained, others in (True, 1), (None, 2):
        save_eagle3(path, head, {})
        edit(path, norm_before_residual=trained)
        assert len(FILES.load(path, target, False).variants) == others
    target.model.forget_taps(INPUTS)


def test_a_head_read_in_another_way_has_the_same_weights(target: Loaded, tmp_path: Path) -> None:
    """As if its config said so, trees included; and the head itself stays as it was."""
    hidden, vocabulary = target.network.args.hidden_size, target.model.vocabulary
    head = random_eagle3(
        vocab_size=vocabulary, taps=OUTPUTS, feature_size=2 * hidden, hidden_size=hidden, intermediate_size=64
    )
    save_eagle3(tmp_path, head, {})
    edit(tmp_path, norm_before_residual=True, eagle_aux_hidden_state_layer_ids=list(INPUTS))
    other, said = head.read_as(INPUTS, True), EAGLE3_FILES.load_head(tmp_path, target)
    assert other.config == said.config and other.ids.tolist() == said.ids.tolist()
    rows = mx.random.normal((1, 3, hidden))

    def attend(queries: mx.array, keys: mx.array, values: mx.array) -> mx.array:
        return queries

    outputs = [
        np.array(one.logits(one(one.fuse(mx.ones((1, 3, 2 * hidden))), rows, attend))) for one in (other, said, head)
    ]
    assert np.allclose(outputs[0], outputs[1], atol=1e-5) and not np.allclose(outputs[0], outputs[2], atol=1e-2)
