"""`redline models import` and `redline models convert`: what they make, say and refuse."""

import shutil
from pathlib import Path

import mlx.core as mx
import pytest

from models.convert import model_import
from models.model_folder import check_folder
from tests.app.command import Redline
from tests.toys.gguf_files import tiny_llama


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    return tiny_llama().write(tmp_path / "Toy-Q4_1.gguf")


@pytest.fixture
def models(redline: Redline, tmp_path: Path) -> Redline:
    """Runs `redline models` with these words; imports go to `c`."""
    return lambda *words: redline("models", *words, "--cache-dir", tmp_path / "c")


def test_a_gguf_becomes_a_model_of_that_name(gguf: Path, tmp_path: Path, models: Redline) -> None:
    found = models("import", gguf, "--json").json
    assert found.pop("seconds") is not None
    assert found == {
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


def test_the_last_words_say_how_to_chat_with_it(gguf: Path, models: Redline) -> None:
    done = models("import", gguf, "--name", "mine")
    assert done.code == 0 and done.out.startswith("mine (llama, 4 to 8 bits), ")
    assert done.out.splitlines()[-1] == "  redline chat --target mine"
    assert done.err == "redline: importing the GGUF file Toy-Q4_1.gguf\n"


def test_convert_quantizes_a_folder(toy_folder: Path, tmp_path: Path, models: Redline) -> None:
    words = ("--bits", "3", "--group-size", "32", "--dtype", "float16", "--name", "small")
    found = models("convert", toy_folder, *words, "--json").json
    assert (found["kind"], found["weights"], found["linked"]) == ("huggingface", "3 bits", False)
    config = check_folder(tmp_path / "c" / "models" / "small").config
    assert config["quantization"] == {"group_size": 32, "bits": 3, "mode": "affine"}
    assert config["torch_dtype"] == "float16"


def test_an_mlx_folder_is_used_where_it_is(toy_folder: Path, tmp_path: Path, models: Redline) -> None:
    folder = Path(shutil.copytree(toy_folder, tmp_path / "there"))
    weights = mx.load(str(folder / "model.safetensors"))
    assert isinstance(weights, dict)
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
    found = models("import", folder, "--json").json
    assert (found["linked"], found["kind"], found["name"]) == (True, "mlx", "there")


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
    gguf: Path, tmp_path: Path, models: Redline, words: tuple[str, ...], code: int, reason: str
) -> None:
    other = tiny_llama(9).write(tmp_path / "other.gguf")
    assert models("import", other, "--name", "taken").code == 0
    done = models("import", gguf, *words)
    assert done.code == code and reason in done.complaint
    if code == 1:
        assert models("import", gguf, *words, "--replace").code == 0


def test_a_damaged_file_is_one_line_and_leaves_nothing(gguf: Path, tmp_path: Path, models: Redline) -> None:
    gguf.write_bytes(gguf.read_bytes()[:-5000])
    done = models("import", gguf)
    assert done.code == 1 and "cut short" in done.complaint
    assert [path.name for path in (tmp_path / "c" / "models").iterdir()] == [".Toy-Q4_1.lock"]


def test_ctrl_c_says_that_nothing_was_imported(gguf: Path, models: Redline, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(model_import, "import_model", stopped)
    done = models("import", gguf)
    assert done.code == 130 and "nothing was imported" in done.complaint
