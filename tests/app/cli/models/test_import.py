"""`redline models import` and `redline models convert`: what they make, say and refuse."""

from __future__ import annotations

import shutil
from pathlib import Path

import mlx.core as mx
import pytest

from app.cli.main import main
from models.convert import model_import
from models.model_folder import check_folder
from tests.app.cli.models.conftest import document
from tests.toys.gguf_files import tiny_llama


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    return tiny_llama().write(tmp_path / "Toy-Q4_1.gguf")


def test_a_gguf_becomes_a_model_of_that_name(gguf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = document(capsys, "import", str(gguf), "--cache-dir", str(tmp_path / "c"))
    assert said.pop("seconds") is not None
    assert said == {
        "name": "Toy-Q4_1",
        "path": str(tmp_path / "c" / "models" / "Toy-Q4_1"),
        "source": str(gguf),
        "kind": "gguf",
        "linked": False,
        "model_type": "llama",
        "weights": "4 to 8 bits",
        "size_bytes": check_folder(tmp_path / "c" / "models" / "Toy-Q4_1").weights_bytes,
        "context_length": 128,
    }


def test_the_last_words_say_how_to_chat_with_it(gguf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "import", str(gguf), "--name", "mine", "--cache-dir", str(tmp_path / "c")]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[0].startswith("mine (llama, 4 to 8 bits), ")
    assert said.out.splitlines()[-1] == "  redline chat --target mine"
    assert said.err == "redline: importing the GGUF file Toy-Q4_1.gguf\n"


def test_convert_quantizes_a_folder(toy_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--bits", "3", "--group-size", "32", "--dtype", "float16", "--name", "small")
    said = document(capsys, "convert", str(toy_folder), *words, "--cache-dir", str(tmp_path / "c"))
    assert (said["kind"], said["weights"], said["linked"]) == ("huggingface", "3 bits", False)
    config = check_folder(tmp_path / "c" / "models" / "small").config
    assert config["quantization"] == {"group_size": 32, "bits": 3, "mode": "affine"}
    assert config["torch_dtype"] == "float16"


def test_an_mlx_folder_is_used_where_it_is(
    toy_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(toy_folder, tmp_path / "there"))
    weights = mx.load(str(folder / "model.safetensors"))
    assert isinstance(weights, dict)
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
    said = document(capsys, "import", str(folder), "--cache-dir", str(tmp_path / "c"))
    assert (said["linked"], said["kind"], said["name"]) == (True, "mlx", "there")


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (("--group-size", "32"), 2, "--group-size goes with --bits 2 to 8"),
        (("--bits", "7"), 2, "invalid choice: 7"),
        (("--name", "../x"), 2, "cannot name a model"),
        (("--name", "taken"), 1, "another model has this name; give a new name"),
    ],
)
def test_what_is_refused_says_why_in_a_line(
    gguf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, reason: str
) -> None:
    other = tiny_llama(9).write(tmp_path / "other.gguf")
    place = ("--cache-dir", str(tmp_path / "c"))
    assert main(["models", "import", str(other), "--name", "taken", *place]) == 0
    capsys.readouterr()
    assert main(["models", "import", str(gguf), *words, *place]) == code
    assert reason in capsys.readouterr().err.strip().splitlines()[-1]
    if code == 1:
        assert main(["models", "import", str(gguf), *words, "--replace", *place]) == 0


def test_a_damaged_file_is_one_line_and_leaves_nothing(
    gguf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gguf.write_bytes(gguf.read_bytes()[:-5000])
    assert main(["models", "import", str(gguf), "--cache-dir", str(tmp_path / "c")]) == 1
    assert "cut short" in capsys.readouterr().err.splitlines()[-1]
    assert [path.name for path in (tmp_path / "c" / "models").iterdir()] == [".Toy-Q4_1.lock"]


def test_ctrl_c_says_that_nothing_was_imported(
    gguf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(model_import, "import_model", stopped)
    assert main(["models", "import", str(gguf), "--cache-dir", str(tmp_path / "c")]) == 130
    assert "nothing was imported" in capsys.readouterr().err.splitlines()[-1]
