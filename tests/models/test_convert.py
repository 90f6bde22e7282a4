"""Hugging Face folders become MLX folders: the numbers of mlx-lm's own conversion, whole or not at all, and resumed."""

import json
import os
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
from models.convert import resuming
from models.convert.hugging import convert_folder
from models.convert.progress import Progress
from models.convert.resuming import JOURNAL
from models.folder import check_folder
from models.gguf.tensors import Wish
from models.import_gguf import MANIFEST
from models.load import load
from tests.toys.folders import make_folder

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As transformers writes one: bf16, with files that no conversion may take along."""
    folder = make_folder(tmp_path_factory.mktemp("hugging") / "model")
    weights = mx.load(str(folder / "model.safetensors"))
    assert isinstance(weights, dict)
    cast = {name: array.astype(mx.bfloat16) for name, array in weights.items()}
    mx.save_safetensors(str(folder / "model.safetensors"), cast, {"format": "pt"})
    edit(folder, torch_dtype="bfloat16")
    (folder / "modeling.py").write_text("raise SystemExit")
    (folder / "optimizer.pt").write_bytes(b"\x80\x04.")
    return folder


@pytest.fixture
def source(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "source"))


def edit(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def weights(folder: Path) -> dict[str, mx.array]:
    found = mx.load(str(folder / "model.safetensors"))
    assert isinstance(found, dict)
    return found


def same(one: dict[str, mx.array], other: dict[str, mx.array]) -> bool:
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype and bool(mx.array_equal(one[name], other[name])) for name in one
    )


@pytest.mark.parametrize(("wish", "q"), [(Wish(4, 32), (4, 32)), (Wish(8, 32), (8, 32)), (Wish(3, 32), (3, 32))])
def test_quantized_numbers_are_those_of_mlx_lms_own_conversion(
    source: Path, tmp_path: Path, wish: Wish, q: tuple[int, int]
) -> None:
    mlx_lm.convert(str(source), str(tmp_path / "theirs"), quantize=True, q_bits=q[0], q_group_size=q[1])
    ours = convert_folder(source, tmp_path / "ours", wish)
    assert same(weights(ours), weights(tmp_path / "theirs"))
    configs = [json.loads((folder / "config.json").read_text()) for folder in (ours, tmp_path / "theirs")]
    assert configs[0] == configs[1] and configs[0]["quantization"]["bits"] == q[0]


def test_a_plain_conversion_keeps_every_number_and_takes_no_code_along(source: Path, tmp_path: Path) -> None:
    folder = convert_folder(source, tmp_path / "made")
    assert same(weights(folder), weights(source))
    names = {path.name for path in folder.iterdir()}
    assert names == {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", MANIFEST}
    assert (folder / "tokenizer.json").read_bytes() == (source / "tokenizer.json").read_bytes()
    before = {path.name: path.stat().st_ino for path in folder.iterdir()}
    convert_folder(source, folder)
    assert {path.name: path.stat().st_ino for path in folder.iterdir()} == before


def test_the_dtype_is_what_was_wished_for_and_the_config_says_it(source: Path, tmp_path: Path) -> None:
    folder = convert_folder(source, tmp_path / "made", Wish(dtype="float16"))
    assert {array.dtype for array in weights(folder).values()} == {mx.float16}
    assert check_folder(folder).config["torch_dtype"] == "float16"


def test_16_bits_make_plain_floats_of_a_quantized_model(source: Path, tmp_path: Path) -> None:
    quantized = convert_folder(source, tmp_path / "quantized", Wish(4, 32))
    plain = convert_folder(quantized, tmp_path / "plain", Wish(16, dtype="float32"))
    assert "quantization" not in check_folder(plain).config
    assert {array.dtype for array in weights(plain).values()} == {mx.float32}
    ids = mx.array([[5, 9, 200, 31]])
    found, wanted = (np.array(load(folder).network(ids)) for folder in (plain, quantized))
    assert np.allclose(found, wanted, atol=1e-4)
    with pytest.raises(ModelError, match="is quantized already"):
        convert_folder(quantized, tmp_path / "again", Wish(8, 32))


def test_progress_grows_to_all_of_it(source: Path, tmp_path: Path) -> None:
    told: list[Progress] = []
    folder = convert_folder(source, tmp_path / "made", Wish(4, 32), told.append)
    done = [one.done_bytes for one in told]
    assert done == sorted(done) and done[0] == 0 and len(set(done)) > 20
    assert {one.total_bytes for one in told} == {done[-1]} == {check_folder(folder).weights_bytes}


KILLED = """
import os, signal, sys
from pathlib import Path
from models.convert import hugging, resuming
from models.gguf.tensors import Wish
resuming._NOTE_EVERY_S = 0.0
left = 12
def tell(progress):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
hugging.convert_folder(Path(sys.argv[1]), Path(sys.argv[2]), Wish(4, 32), tell)
"""


def kill(source: Path, folder: Path) -> None:
    """A conversion killed when eleven tensors are written."""
    words = [sys.executable, "-c", KILLED, str(source), str(folder)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not folder.exists()


def stop(source: Path, folder: Path, after: int, how: type[BaseException] = KeyboardInterrupt) -> Path:
    """A conversion stopped when `after` more tensors are written; where its unfinished work would be."""
    told: list[Progress] = []

    def tell(progress: Progress) -> None:
        told.append(progress)
        if len(told) > after:
            raise how

    with pytest.raises(how):
        convert_folder(source, folder, Wish(4, 32), tell)
    return folder.with_name(f".{folder.name}.partial")


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal grows with each tensor."""
    monkeypatch.setattr(resuming, "_NOTE_EVERY_S", 0.0)


def computed(source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, wish: Wish) -> int:
    """Convert; how many tensors that took."""
    written: list[str] = []
    write = resuming.Writer.write

    def spy(self: resuming.Writer, piece: resuming.Piece) -> None:
        written.append(piece.name)
        write(self, piece)

    with monkeypatch.context() as patch:
        patch.setattr(resuming.Writer, "write", spy)
        convert_folder(source, folder, wish)
    assert not (folder / JOURNAL).exists()
    return len(written)


@pytest.mark.usefixtures("noted")
def test_a_killed_conversion_goes_on_where_it_was(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wish, folder = Wish(4, 32), tmp_path / "made" / "m"
    everything = computed(source, tmp_path / "alone", monkeypatch, wish)
    kill(source, folder)
    partial = stop(source, folder, 9)  # and a second time, after nine more
    assert json.loads((partial / JOURNAL).read_text())["done"] == 20 and not (partial / "config.json").exists()
    assert computed(source, folder, monkeypatch, wish) == everything - 20
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        assert (folder / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()
    assert sorted(path.name for path in folder.parent.iterdir()) == [".m.lock", "m"]


def spoil(how: str, source: Path, partial: Path) -> None:
    weights, journal = partial / "model.safetensors", partial / JOURNAL
    if how == "another version":
        said = json.loads(journal.read_text())
        journal.write_text(json.dumps({**said, "by": {**said["by"], "mlx": "0"}}))
    elif how == "no journal":
        journal.unlink()
    elif how == "weights cut":
        os.truncate(weights, 4000)
    elif how == "another header":
        weights.write_bytes(weights.read_bytes().replace(b"U32", b"I32", 1))
    elif how == "a source of another time":
        os.utime(source / "model.safetensors", (5, 5))


@pytest.mark.usefixtures("noted")
@pytest.mark.parametrize(
    "how",
    ["another version", "no journal", "weights cut", "another header", "a source of another time", "another wish"],
)
def test_work_on_something_else_is_not_gone_on_with(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    wish, folder = Wish(8 if how == "another wish" else 4, 32), tmp_path / "made" / "m"
    everything = computed(source, tmp_path / "alone", monkeypatch, wish)
    spoil(how, source, stop(source, folder, 11))
    assert computed(source, folder, monkeypatch, wish) == everything
    assert (folder / "model.safetensors").read_bytes() == (tmp_path / "alone" / "model.safetensors").read_bytes()


def test_nothing_is_promised_before_it_is_on_the_disk(source: Path, tmp_path: Path) -> None:
    partial = stop(source, tmp_path / "made" / "m", 11)
    assert (partial / "model.safetensors").exists() and not (partial / JOURNAL).exists()


def test_what_is_stopped_is_kept_and_what_fails_is_not(source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "made" / "m"
    stop(source, folder, 5)
    assert sorted(path.name for path in folder.parent.iterdir()) == [".m.lock", ".m.partial"]
    stop(source, folder, 5, ZeroDivisionError)
    assert [path.name for path in folder.parent.iterdir()] == [".m.lock"]


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


def test_a_tokenizer_that_cannot_be_read_is_found_out_first(source: Path, tmp_path: Path) -> None:
    whole = json.loads((source / "tokenizer.json").read_text())
    (source / "tokenizer.json").write_text(json.dumps({**whole, "pre_tokenizer": {"type": "Nonsense"}}))
    told: list[Progress] = []
    with pytest.raises(ModelError, match="tokenizer"):
        convert_folder(source, tmp_path / "made", None, told.append)
    assert told == []
