"""Wrong edits of what brings models in from GGUF files and folders."""

from tests.mutants.mutant import Mutant

_BLOCKS, _AFFINE, _TENSORS = "models/gguf/blocks.py", "models/gguf/affine.py", "models/gguf/tensors.py"
_FAMILIES, _SPM = "models/gguf/families.py", "models/gguf/sentencepiece.py"
_RESUMING, _MAKING, _HUGGING = "models/convert/resuming.py", "models/convert/making.py", "models/convert/hugging.py"
_WEIGHTS = "tests/models/test_gguf_weights.py::"
_VALUES = (_WEIGHTS + "test_every_type_has_the_values_of_the_gguf_package",)
_LOGITS = ("tests/models/test_import_gguf.py::test_mlx_lm_computes_what_the_gguf_says",)
_CONVERT = "tests/models/test_convert.py::"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "the last scales of a K block without their high bits",
        _BLOCKS,
        "last & 15 | scales >> np.uint8(6) << np.uint8(4)",
        "last & 15",
        _VALUES,
    ),
    Mutant("the fifth bits of Q5_K by byte", _BLOCKS, "high.transpose(0, 2, 1)", "high.reshape(-1, 8, 32)", _VALUES),
    Mutant("Q5_0 centred as Q4_0", _BLOCKS, "scale * np.float32(-16)", "scale * np.float32(-8)", _VALUES),
    Mutant(
        "bf16 cut off, not rounded",
        _AFFINE,
        "rounded = (bits + (np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1)))) >> np.uint32(16)",
        "rounded = bits >> np.uint32(16)",
        (_WEIGHTS + "test_bf16_is_rounded_as_mlx_rounds_it",),
    ),
    Mutant(
        "heads cut through the middle",
        _TENSORS,
        "step = max(1, step // width) * width",
        "step = max(1, step)",
        (_WEIGHTS + "test_pieces_of_a_few_rows_are_the_whole_tensor",),
    ),
    Mutant(
        "Gemma's norms with their 1", _FAMILIES, "less = 1.0 if family.norms_plus_one else 0.0", "less = 0.0", _LOGITS
    ),
    Mutant(
        "Qwen's rows put in order as Llama's are",
        _FAMILIES,
        '"qwen2": Family("qwen2", "Qwen2ForCausalLM", _COMMON | _BIASES)',
        '"qwen2": Family("qwen2", "Qwen2ForCausalLM", _COMMON | _BIASES, interleaved=True)',
        _LOGITS,
    ),
    Mutant(
        "the worst pieces merged first",
        _SPM,
        "found.append((-scores[number],",
        "found.append((scores[number],",
        ("tests/models/test_gguf_sentencepiece.py::test_ids_are_those_of_the_slow_tokenizer",),
    ),
    Mutant(
        "the journal of another version believed",
        _RESUMING,
        'said.get("by") != by or ',
        "",
        (_CONVERT + "test_work_on_something_else_is_not_gone_on_with",),
    ),
    Mutant(
        "half a header believed",
        "models/safetensors_file.py",
        "file.read(len(header)) == header and ",
        "",
        (_CONVERT + "test_work_on_something_else_is_not_gone_on_with",),
    ),
    Mutant(
        "work on another source gone on with",
        _MAKING,
        "return read_json_object(work / _WORK) == _described(source)",
        "return bool(read_json_object(work / _WORK))",
        (_CONVERT + "test_work_on_something_else_is_not_gone_on_with",),
    ),
    Mutant(
        "16 bits keep a quantized model quantized",
        _HUGGING,
        "if wish.bits == 16 and set(_QUANTIZED)",
        "if wish.bits == 17 and set(_QUANTIZED)",
        (_CONVERT + "test_16_bits_make_plain_floats_of_a_quantized_model",),
    ),
    Mutant(
        "tokens past the embedding let through",
        "models/tokenizer.py",
        "max(ids) >= self._rows",
        "max(ids) > self._rows",
        ("tests/models/test_load.py::test_a_token_past_the_embedding_never_reaches_the_model",),
    ),
)
