"""The embedding and the output matrix of any architecture, found by what they are."""

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx.utils import tree_flatten

from engine.errors import ModelError
from engine.target.model_layout import embed, embedding_of, output_of, output_rows
from tests.engine.fewer import fewer
from tests.programs.sweep import names
from tests.toys.architectures import NOT_BUILT, build

BUILT = [name for name in names() if name not in NOT_BUILT]
# One of each name that the embedding has, beside those of every time.
NAMED = {
    *("gpt2", "internlm2", "bailing_moe", "openelm"),  # wte, tok_embeddings, word_embeddings, token_embeddings
    *("gpt_neox", "afm7", "talkie"),  # embed_in, embedding, embed
}


@pytest.mark.parametrize("name", fewer(BUILT, NAMED))
def test_the_embedding_is_found(name: str) -> None:
    """Rows of the model's own table, one for each token of the vocabulary."""
    model = build(name)
    rows = embed(model)(mx.arange(64))
    assert rows.shape[0] == 64 and rows.ndim == 2
    assert any(mx.array_equal(rows, value) for _, value in tree_flatten(model.parameters()))


@pytest.mark.parametrize("tied", [True, False])
def test_rows_of_the_output_matrix_are_the_same_quantized_or_not(tied: bool) -> None:
    model = build("gemma" if tied else "llama")
    ids = mx.array([5, 63, 0, 5])
    nn.quantize(
        model, group_size=32, bits=8, class_predicate=lambda name, _: name.endswith(("lm_head", "embed_tokens"))
    )
    module = output_of(model).module
    whole = mx.dequantize(module.weight, module.scales, module.biases, 32, 8)
    assert mx.array_equal(output_rows(model, ids), whole[ids])
    assert hasattr(module, "as_linear") == tied


def test_what_is_not_where_it_is_expected_is_not_guessed() -> None:
    model = build("llama")
    model.model.strange = model.model.pop("embed_tokens")
    with pytest.raises(ModelError, match="no token embedding"):
        embedding_of(model)


def test_a_config_that_lies_about_ties_is_not_believed() -> None:
    """The output matrix is what a pass goes through: here a module of its own, though the config says tied."""
    model = build("llama")
    own = model.lm_head
    assert output_of(model).module is own
    model.args.tie_word_embeddings = True  # llama asks it in the pass, so now the embedding serves
    assert output_of(model).kind == "as_linear"
    assert mx.array_equal(output_rows(model, mx.arange(64)), model.model.embed_tokens.weight)
