"""Which passes have the bits of single steps, what is found that rounds by the width, and replies in such passes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest

from engine.audit import identical_width as module
from engine.audit.exact_target import ExactTarget
from engine.audit.fingerprints import first_other_bits
from engine.audit.identical_width import WIDEST, IdenticalWidth, blocks_of, identical_width
from engine.audit.verify_blocks import BLOCK_WIDTH, KEYS, VerifyBlocks
from engine.policy.fixed import FixedLength
from engine.session import Prompt, Session
from engine.target.cached_model import CachedModel
from tests.engine.bits import RowLogExactTarget, RowLogModel
from tests.engine.cache.test_model_cache import wide_llama
from tests.engine.conversations import CONTEXT, LONG, SHAPED, SHORT, TURN, answer, read
from tests.engine.fakes import ByteTokenizer
from tests.engine.replies import PROMPT, Scripted, reply
from tests.engine.rounding_by_rows import coarse, compute_row_by_row
from tests.programs.sweep import EveryLength, mistakes, names
from tests.toys.architectures import NOT_BUILT, build

EXACT_SHORT, EXACT_SHAPED = replace(SHORT, exact=True), replace(SHAPED, exact=True)


@pytest.fixture
def row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    compute_row_by_row(monkeypatch)


@pytest.mark.usefixtures("row_by_row")
@pytest.mark.parametrize("name", ["qwen3", "llama", "gemma3_text"])
def test_all_widths_are_identical_where_no_row_depends_on_another(name: str) -> None:
    assert identical_width(CachedModel(build(name))) == IdenticalWidth(WIDEST)


def mixing(real: Callable[..., mx.array], rows: int) -> Callable[..., mx.array]:
    """Returns an operator whose rows depend on each other in passes of so many."""

    def call(*args: Any, **named: Any) -> mx.array:
        out = real(*args, **named)
        return out + 0.02 * mx.mean(out, -2, keepdims=True) if out.shape[-2] >= rows else out

    return call


@pytest.mark.usefixtures("row_by_row")
@pytest.mark.parametrize(
    ("kind", "name", "rows", "found"),
    [
        (nn.Linear, "__call__", 6, "self_attn.q_proj"),
        (nn.RMSNorm, "__call__", 3, "input_layernorm"),
        (nn.RoPE, "__call__", 8, "self_attn.rope"),
        (nn.Embedding, "as_linear", 5, "the logits"),
        (nn.QuantizedLinear, "__call__", 2, "self_attn.q_proj"),
    ],
)
def test_an_operator_whose_rows_depend_on_each_other_is_found(
    kind: Any, name: str, rows: int, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = coarse("qwen3", 4) if kind is nn.QuantizedLinear else build("llama" if name == "__call__" else "gemma")
    monkeypatch.setattr(kind, name, mixing(getattr(kind, name), rows))
    width, limit = identical_width(CachedModel(network))
    assert width == rows - 1 and limit.startswith(f"{found} rounds by the width of a pass of {rows} tokens")


@pytest.mark.usefixtures("row_by_row")
@pytest.mark.parametrize("least", [0, 490])
def test_attention_that_rounds_by_the_number_of_keys_is_found(least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As OpenBLAS does, which cuts long sums by their length: only where passes cross a length."""
    real = mx.fast.scaled_dot_product_attention

    def by_keys(queries: mx.array, keys: mx.array, values: mx.array, **more: Any) -> mx.array:
        count = keys.shape[2]
        return real(queries, keys, values, **more) * (1 + 1e-6 * (count // 16 % 2 if count >= least else 0))

    monkeypatch.setattr(mx.fast, "scaled_dot_product_attention", by_keys)
    width, limit = identical_width(CachedModel(build("qwen3")))
    assert width == 1 and limit.startswith("self_attn.o_proj")  # which is given what attention returns


@pytest.mark.usefixtures("row_by_row")
def test_a_later_layer_of_another_kind_is_computed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    network = build("qwen3")
    network.model.layers[-1].mlp.up_proj = Mixing(network.model.layers[-1].mlp.up_proj.weight)
    width, limit = identical_width(CachedModel(network))
    assert width == 3 and limit.startswith("mlp.up_proj")


class Mixing(nn.Linear):  # type: ignore[misc]
    def __init__(self, weight: mx.array) -> None:
        super().__init__(*reversed(weight.shape), bias=False)
        self.weight = weight

    def __call__(self, x: mx.array) -> mx.array:
        return mixing(super().__call__, 4)(x)


@pytest.mark.parametrize("name", ["mamba2", "qwen3_next"])
def test_what_cannot_be_compared_is_not_called_identical(name: str) -> None:
    width, limit = identical_width(CachedModel(build(name)))
    assert width == 1 and "ArraysCache" in limit
    shared = CachedModel(build("llama"))
    shared.leader = object()  # type: ignore[assignment]
    assert identical_width(shared) == IdenticalWidth(1, "the model is shared by several machines")


def test_measuring_changes_nothing() -> None:
    network = build("gemma3_text")
    target, kinds = CachedModel(network), [type(part) for part in network.modules()]
    target.feed(PROMPT)
    before = [np_bytes(array) for array in target.cache.arrays()]
    identical_width(target)
    assert target.length == len(PROMPT) and [type(part) for part in network.modules()] == kinds
    assert [np_bytes(array) for array in target.cache.arrays()] == before


def np_bytes(array: mx.array) -> bytes:
    return bytes(memoryview(array))


@pytest.mark.slow
def test_every_architecture_can_be_asked() -> None:
    for name in sorted(set(names()) - set(NOT_BUILT) - {"phi3small"}):
        width, limit = identical_width(CachedModel(build(name)))
        assert width >= 1 and bool(limit) == (width < WIDEST), name


# --- replies


@pytest.mark.usefixtures("row_by_row")
@pytest.mark.parametrize("name", ["qwen3", "gemma3_text", "quantized keys"])
def test_replies_in_passes_of_any_width_have_the_bits_of_plain_decoding(name: str) -> None:
    network = wide_llama() if name == "quantized keys" else build(name)
    bits = 8 if name == "quantized keys" else None
    plain, other = (RowLogModel(network, bits, 32) for _ in range(2))
    blocks = VerifyBlocks.for_prompt(len(PROMPT), 1, WIDEST)
    ids, rounds, _ = reply(RowLogExactTarget(plain, blocks))
    drafter = Scripted(len(PROMPT), ids, mistakes(len(ids)), plain.vocabulary)
    others, drafted, _ = reply(RowLogExactTarget(other, blocks), drafter, EveryLength())
    assert others == ids and {round_.width for round_ in rounds} == {1}
    assert max(round_.width for round_ in drafted) > BLOCK_WIDTH
    if name != "quantized keys":  # whose products by the width are not computed row by row
        first = len(PROMPT) - 1
        assert (plain.bits(first, len(ids)) == other.bits(first, len(ids))).all()


@pytest.mark.usefixtures("row_by_row")
def test_a_session_reads_prompts_and_later_turns_to_the_same_bits() -> None:
    network = build("qwen3")
    session, fresh = (Session(CachedModel(network), ByteTokenizer(), CONTEXT) for _ in range(2))
    first = LONG[:70]
    said = [*first, *answer(session, first, EXACT_SHAPED).ids, *TURN]
    scripted = Scripted(len(said), answer(fresh, said, EXACT_SHORT).ids)
    drafted = read(list(session.continue_tokens(Prompt(said), EXACT_SHORT, scripted, FixedLength(4))))
    assert drafted.reused == len(first) + 10 - 1  # every token but the last, which was in no pass yet
    assert first_other_bits(answer(fresh, said, EXACT_SHORT).rounds, drafted.rounds) is None
    assert {len(round_.drafted) + 1 for round_ in drafted.rounds} == {round_.width for round_ in drafted.rounds}


def test_no_pass_of_several_crosses_a_length_where_gpus_take_other_kernels() -> None:
    blocks = blocks_of(5, 10)
    assert blocks == VerifyBlocks(1, 9, 5) and blocks_of(1, 10) == blocks_of(0, 10) == VerifyBlocks(4, 8)
    ends = [end for _, end in blocks.passes(KEYS - 8, KEYS + 7)]
    assert ends == [KEYS - 3, KEYS - 1, KEYS, KEYS + 5, KEYS + 10]
    assert [blocks.room(place) for place in range(KEYS - 4, KEYS + 1)] == [2, 1, 0, 0, 4]
    with pytest.raises(ValueError, match="3 blocks of 4"):
        VerifyBlocks(4, 8, 3)


def test_a_draft_wider_than_what_is_identical_is_an_error() -> None:
    target = ExactTarget(CachedModel(build("qwen3")), VerifyBlocks.for_prompt(len(PROMPT), 1, 3))
    assert target.draft_room(21) == 2
    with pytest.raises(ValueError, match="room for 2"):
        target.continue_from(PROMPT[:21], mx.array([1, 2, 3]))


def test_it_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    target = CachedModel(build("llama"))
    found = identical_width(target)
    monkeypatch.setattr(module, "_measure", lambda target: pytest.fail("it was measured again"))
    assert identical_width(target) is found is identical_width(target.for_another_reply())
