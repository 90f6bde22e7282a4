"""`redline doctor` says what is missing, and never breaks over it."""

import shutil
from pathlib import Path
from unittest import mock

import pytest

from app.cli import doctor
from app.inference import machine
from app.inference.machine import memory
from app.qt_libraries import missing_libraries
from engine.errors import ModelError
from tests.app.command import Redline
from tests.waiting import HANG_S


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_TIMEOUT_S", HANG_S)


def test_it_tells_of_everything_on_one_screen(redline: Redline, tmp_path: Path) -> None:
    done = redline("doctor", "--cache-dir", tmp_path, "--json")
    assert done.code == 0
    findings = {finding["name"]: finding for finding in done.json["findings"]}
    expected = ["Redline", "Machine", "MLX", "Matrix products", "mlx-lm", "Memory", "Files"]
    assert list(findings) == [*expected, "Built-in model", "Window (Qt)"]
    assert all(findings[name]["state"] == "ok" for name in expected if name != "Memory")
    assert "float32" in findings["MLX"]["value"] or "as stored" in findings["MLX"]["value"]
    assert not any(tmp_path.iterdir())


def test_found_models_are_listed_and_damaged_ones_named(toy_folder: Path, tmp_path: Path) -> None:
    models = tmp_path / "models"
    shutil.copytree(toy_folder, models / "whole")
    shutil.copytree(toy_folder, models / "broken")
    (models / "broken" / "model.safetensors").write_bytes(b"")
    (models / ".half.partial").mkdir()
    broken, whole = doctor._models(models)
    assert whole == doctor.Finding("Model folder", "ok", "whole: llama, 154 kB, context 512")
    assert broken.state == "warning" and "download it again" in broken.advice


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import nothing_of_that_name", "No module named"),
        ("import os; os.abort()", "ended with code"),
        ("print('not json')", "ended with code 0"),
        ("print('[]')", "gave no result"),
    ],
)
def test_a_probe_that_breaks_is_a_finding(monkeypatch: pytest.MonkeyPatch, code: str, said: str) -> None:
    monkeypatch.setattr(doctor, "PROBE_MLX", code)
    monkeypatch.setattr(doctor, "PROBE_QT", code)
    (mlx,) = doctor._mlx()
    assert mlx.state == "missing" and said in mlx.value and mlx.advice
    assert doctor._qt().state == "warning" and said in doctor._qt().value


def test_a_slow_blas_and_a_missing_model_are_warnings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = {"version": "1", "device": "cpu", "detail": "run uv sync", "dtype": "float32", "gflops": 1.4}
    monkeypatch.setattr(doctor, "_probe", lambda code: told | {"library": "reference"})
    assert [finding.state for finding in doctor._mlx()] == ["ok", "warning"]
    monkeypatch.setattr(doctor, "builtin_gguf", mock.Mock(side_effect=ModelError("run `uv sync`")))
    assert doctor._builtin(tmp_path) == doctor.Finding("Built-in model", "warning", "not installed", "run `uv sync`")


def test_missing_libraries_of_qt_come_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"error": "does not load (libEGL.so.1: no such file)", "missing": ["libEGL.so.1", "libxcb-cursor.so.0"]}
    monkeypatch.setattr(doctor, "_probe", lambda code: told)
    debian, fedora = "libegl1 libxcb-cursor0", "mesa-libEGL xcb-util-cursor"
    assert doctor._qt().advice == f"install them with `sudo apt install {debian}` or `sudo dnf install {fedora}`"


def test_the_libraries_are_those_that_the_window_names() -> None:
    found = doctor._probe(doctor.PROBE_QT)
    assert found["missing"] == missing_libraries() and found["version"]


def test_without_mlx_the_exit_code_says_so(redline: Redline, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "_probe", lambda code: {"error": "cannot be loaded"})
    done = redline("doctor", "--cache-dir", tmp_path)
    assert done.code == 1 and "missing: cannot be loaded" in done.out and "\x1b" not in done.out


@pytest.mark.parametrize(("used", "free"), [("400000", 600_000), ("1000001", 0)])
def test_memory_is_that_of_the_control_group(
    used: str, free: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "memory.max").write_text("1000000")
    (tmp_path / "memory.current").write_text(used)
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    assert memory() == (10**6, free)
