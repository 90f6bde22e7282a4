"""Hugging Face folders become MLX folders: the numbers of mlx-lm's own conversion, whole or not at all."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import mlx.core as mx
import mlx_lm
import numpy as np
import pytest

from engine.errors import ModelError
from models.convert.atomic_folder import MANIFEST, ImportProgress
from models.convert.folder_conversion import convert_folder
from models.loader import load
from models.model_folder import check_folder
from models.storage_options import StorageOptions
from tests.engine.fewer import fewer
from tests.models.drafters.head_folders import edit, tensors_of
from tests.toys.folders import make_folder

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As transformers writes one: bf16, with files that no conversion may take along."""
    folder = make_folder(tmp_path_factory.mktemp("hugging") / "model")
    cast = {name: array.astype(mx.bfloat16) for name, array in tensors_of(folder).items()}
    mx.save_safetensors(str(folder / "model.safetensors"), cast, {"format": "pt"})
    edit(folder, torch_dtype="bfloat16")
    (folder / "modeling.py").write_text("raise SystemExit")
    (folder / "optimizer.pt").write_bytes(b"\x80\x04.")
    return folder


@pytest.fixture
def source(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "source"))


def same_weights(one: dict[str, mx.array], other: dict[str, mx.array]) -> bool:
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype and bool(mx.array_equal(one[name], other[name])) for name in one
    )


@pytest.mark.parametrize("bits", fewer([4, 3], [3]))
def test_quantized_numbers_are_those_of_mlx_lms_own_conversion(source: Path, tmp_path: Path, bits: int) -> None:
    mlx_lm.convert(str(source), str(tmp_path / "theirs"), quantize=True, q_bits=bits, q_group_size=32)
    ours = convert_folder(source, tmp_path / "ours", StorageOptions(bits, 32))
    assert same_weights(tensors_of(ours), tensors_of(tmp_path / "theirs"))
    configs = [json.loads((folder / "config.json").read_text()) for folder in (ours, tmp_path / "theirs")]
    assert configs[0] == configs[1] and configs[0]["quantization"]["bits"] == bits


def test_a_plain_conversion_keeps_every_number_and_takes_no_code_along(source: Path, tmp_path: Path) -> None:
    folder = convert_folder(source, tmp_path / "made")
    assert same_weights(tensors_of(folder), tensors_of(source))
    names = {path.name for path in folder.iterdir()}
    expected = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", MANIFEST}
    assert names == expected | {"model.safetensors.index.json"}
    assert (folder / "tokenizer.json").read_bytes() == (source / "tokenizer.json").read_bytes()
    before = {path.name: path.stat().st_ino for path in folder.iterdir()}
    convert_folder(source, folder)
    assert {path.name: path.stat().st_ino for path in folder.iterdir()} == before


def test_16_bits_make_plain_floats_of_a_quantized_model(source: Path, tmp_path: Path) -> None:
    quantized = convert_folder(source, tmp_path / "quantized", StorageOptions(4, 32))
    plain = convert_folder(quantized, tmp_path / "plain", StorageOptions(16, dtype="float32"))
    assert "quantization" not in check_folder(plain).config
    assert {array.dtype for array in tensors_of(plain).values()} == {mx.float32}
    assert check_folder(plain).config["torch_dtype"] == "float32"
    ids = mx.array([[5, 9, 200, 31]])
    found, wanted = (np.array(load(folder).network(ids)) for folder in (plain, quantized))
    assert np.allclose(found, wanted, atol=1e-4)
    with pytest.raises(ModelError, match="is already quantized"):
        convert_folder(quantized, tmp_path / "again", StorageOptions(8, 32))


def test_progress_grows_to_all_of_it(source: Path, tmp_path: Path) -> None:
    told: list[ImportProgress] = []
    folder = convert_folder(source, tmp_path / "made", StorageOptions(4, 32), told.append)
    done = [one.done_bytes for one in told]
    assert done == sorted(done) and done[0] == 0
    assert {one.total_bytes for one in told} == {done[-1]} == {check_folder(folder).weights_bytes}


@pytest.mark.parametrize("how", ["killed", "stopped"])
@pytest.mark.slow
def test_a_conversion_that_does_not_end_leaves_no_model_and_the_next_one_works(
    source: Path, tmp_path: Path, how: str
) -> None:
    folder = tmp_path / "made" / "m"
    if how == "killed":
        code = "import os, signal, sys\nfrom pathlib import Path\n"
        code += "from models.convert.folder_conversion import convert_folder\n"
        code += "convert_folder(*map(Path, sys.argv[1:]), None, lambda _: os.kill(os.getpid(), signal.SIGKILL))"
        words = [sys.executable, "-c", code, str(source), str(folder)]
        assert subprocess.run(words, cwd=ROOT, check=False).returncode == -signal.SIGKILL
    else:

        def stop(progress: ImportProgress) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            convert_folder(source, folder, StorageOptions(4, 32), stop)
        assert [path.name for path in folder.parent.iterdir()] == [".m.lock"]
    assert not folder.exists()
    convert_folder(source, folder, StorageOptions(4, 32))
    convert_folder(source, tmp_path / "alone", StorageOptions(4, 32))
    assert (folder / "model.safetensors").read_bytes() == (tmp_path / "alone" / "model.safetensors").read_bytes()
    assert sorted(path.name for path in folder.parent.iterdir()) == [".m.lock", "m"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model_type": "olmo"}, "cannot be decoded exactly"),
        ({"model_type": "no_such"}, "does not load"),
        ({"model_file": "modeling.py"}, "needs Python code of its own"),
        ({"hidden_size": 64}, "does not load"),
    ],
)
def test_what_cannot_be_converted_is_refused_and_leaves_nothing(
    source: Path, tmp_path: Path, change: dict[str, object], reason: str
) -> None:
    edit(source, **change)
    with pytest.raises(ModelError, match=reason) as caught:
        convert_folder(source, tmp_path / "made" / "m")
    assert "\n" not in str(caught.value)
    left = [path.name for path in (tmp_path / "made").iterdir()] if (tmp_path / "made").exists() else []
    assert left in ([], [".m.lock"])
