"""`redline doctor --metal`: a report of this machine that can be attached to an issue, here on the CPU with toys."""

import getpass
import importlib
import json
import platform
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import mlx_lm
import pytest

from app.diagnostics import architecture_sweep, metal_report
from app.diagnostics.architecture_sweep import QUANTIZED, ROOT, sweep
from app.diagnostics.metal_report import MetalReport, has_failed
from app.diagnostics.report_text import markdown
from app.diagnostics.unseen_kernels import UNSEEN
from app.inference.options import Options
from engine import backend
from engine.backend import Backend
from engine.session import Session
from tests.app.command import Redline
from tests.programs.sweep import examine
from tests.toys.quantized_targets import build_quantized

SECTIONS = {"environment", "pass_costs", "kernel_costs", "memory", "identity", "sweep"}


def toy_reports(patch: pytest.MonkeyPatch, target: Path, drafter: Path) -> Any:
    """Makes reports of a toy pair, of few rows and replies, without the sweep."""
    for name, value in {"ROWS": (1, 2, 5), "MEMORY_TOKENS": 40, "REPLY_TOKENS": 8, "PROMPTS": ("hello",)}.items():
        patch.setattr(metal_report, name, value)
    swept = {"tokens": 60, "rows": [{"name": "llama", "verdict": "exact", "reason": ""}], "not_reached": ["mamba"]}
    patch.setattr(metal_report, "sweep", lambda *_: swept)
    drafters = ("lookup", str(drafter))
    return lambda minutes=600.0: MetalReport(minutes, lambda _: None, Options(target=str(target)), drafters)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, toy_folder: Path, toy_drafter_folder: Path) -> Any:
    return toy_reports(monkeypatch, toy_folder, toy_drafter_folder)


@pytest.fixture(scope="module")
def measured(toy_folder: Path, toy_drafter_folder: Path) -> dict[str, Any]:
    """A report with every section."""
    with pytest.MonkeyPatch.context() as patch:
        report: dict[str, Any] = toy_reports(patch, toy_folder, toy_drafter_folder)().measure()
    return report


def test_every_section_is_measured_and_names_nobody(measured: dict[str, Any], toy_folder: Path) -> None:
    report = json.loads(json.dumps(measured))
    assert set(report["seconds"]) == SECTIONS
    assert not has_failed(report)
    assert list(report["pass_costs"]["pass_s"]) == list(report["kernel_costs"]["product_4_bit_s"]) == ["1", "2", "5"]
    assert [one["tokens"] for one in report["memory"]] == [1, 33]
    assert {(one["drafter"], one["draft_length"]) for one in report["identity"]} >= {("lookup", 1), ("lookup", 8)}
    assert all(one["verdicts"] == {"identical": 2} and one["waits_a_round"] == 1 for one in report["identity"])
    text = json.dumps(report) + markdown(measured)
    assert not any(secret in text for secret in (str(toy_folder.parent), platform.node(), f"/{getpass.getuser()}/"))
    assert "Not reached in time: mamba." in text


def test_a_cuda_gpu_is_named_without_what_tells_machines_apart(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    report = small(0.0)
    late = report.measure()
    info = {"device_name": "NVIDIA H100", "architecture": "sm_90", "total_memory": 85899345920, "uuid": "GPU-1234"}
    monkeypatch.setattr(mx, "device_info", lambda: info)
    monkeypatch.setattr(backend, "describe", lambda: Backend("gpu", "cuda", dequantize=False, detail="NVIDIA H100"))
    found = report._environment()
    assert found["library"] == "cuda"
    assert found["gpu"] == {name: info[name] for name in ("architecture", "device_name", "total_memory")}
    text = markdown(late | {"environment": found})
    assert "NVIDIA H100, sm_90" in text and "only runs on Metal" not in text
    assert "only runs on Metal" in markdown(late | {"environment": found | {"library": "metal"}})
    apple = {"processor": "Apple M3 Max", "gpu": {"device_name": "Apple M3 Max", "architecture": "applegpu_g15s"}}
    assert "\nApple M3 Max, applegpu_g15s, " in markdown(late | {"environment": found | apple})


def test_a_section_that_fails_says_why_and_the_others_go_on(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("[metal::Device] Unable to load kernel")

    monkeypatch.setattr(metal_report, "product_times", broken)
    monkeypatch.setattr(MetalReport, "_identity", lambda _: [])
    report = small().measure()
    assert report["kernel_costs"] == {"error": "RuntimeError: [metal::Device] Unable to load kernel"}
    assert report["memory"] and report["identity"] == [] and has_failed(report)
    assert "Failed: RuntimeError" in markdown(report)


def test_without_time_costs_say_so_and_nothing_hangs(small: Any) -> None:
    report = small(0.0).measure()
    assert "close other programs" in report["pass_costs"]["error"]
    assert all(one["verdicts"] == {} for one in report["identity"])


def test_an_architecture_that_differs_makes_the_report_fail() -> None:
    for verdict, failed in (("exact", False), ("near-tie", False), ("differs", True), ("crashed", True)):
        assert has_failed({"identity": [], "sweep": {"rows": [{"name": "x", "verdict": verdict}]}}) == failed


def test_a_reply_that_differs_is_a_failure(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Session.continue_tokens

    def other(self: Session, prompt: Any, settings: Any, drafter: Any, policy: Any) -> Any:
        return real(self, prompt[: -1 if drafter is None else None], settings, drafter, policy)

    monkeypatch.setattr(Session, "continue_tokens", other)
    monkeypatch.setattr(metal_report, "DRAFT_LENGTHS", (1,))
    assert has_failed(small().measure())


def test_the_command_prints_and_saves_the_report(
    measured: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redline: Redline
) -> None:
    monkeypatch.setattr(metal_report, "MetalReport", lambda minutes, _: SimpleNamespace(measure=lambda: measured))
    for name in ("report.md", "report.json"):
        done = redline("doctor", "--metal", "--output", tmp_path / name)
        assert done.code == 0 and done.out.startswith("# Redline")
        assert redline("doctor", "--output", tmp_path / name).code == 2
    assert (tmp_path / "report.md").read_text().startswith("# Redline")
    assert json.loads((tmp_path / "report.json").read_text())["format"] == 1


def test_a_report_that_cannot_be_saved_has_been_printed(
    measured: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redline: Redline
) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()

    def measure() -> dict[str, Any]:
        folder.rmdir()  # it was there when the measurement began
        folder.write_text("")
        return measured

    monkeypatch.setattr(metal_report, "MetalReport", lambda minutes, _: SimpleNamespace(measure=measure))
    done = redline("doctor", "--metal", "--output", folder / "report.md")
    assert done.code == 1 and done.out.startswith("# Redline")
    assert "cannot be written" in done.err and "Traceback" not in done.err


def test_every_file_of_mlx_lm_with_kernels_of_its_own_is_listed() -> None:
    root = Path(mlx_lm.__file__).parent
    files = [
        path for path in (*root.glob("models/*.py"), *root.glob("kernels/*.py")) if "metal_kernel" in path.read_text()
    ]
    named = {path.stem if path.parent.name == "models" else "kernels" for path in files}
    assert named <= {kernel.name for kernel in UNSEEN}
    for kernel in UNSEEN:
        for name in kernel.architectures:
            assert kernel.name in Path(importlib.import_module(f"mlx_lm.models.{name}").__file__ or "").read_text() or (
                kernel.name == name
            )


@pytest.mark.slow
def test_the_sweep_begins_with_what_a_cpu_cannot_see_and_survives_a_process_that_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = architecture_sweep._names()
    assert names[0] in UNSEEN[0].architectures and set(QUANTIZED.values()) <= set(names)
    monkeypatch.setattr(architecture_sweep, "_names", lambda: ["rwkv7", "nothing_of_that_name", "llama"])
    monkeypatch.setattr(architecture_sweep, "TOKENS", 12)
    rows = sweep(36_000, lambda _: None)["rows"]
    assert [row["verdict"] for row in rows] == ["exact", "crashed", "exact"]


@pytest.mark.slow
def test_a_target_of_4_bits_runs_the_products_of_one_and_is_swept_here_too() -> None:
    network = build_quantized("qwen3_moe")
    kinds = {type(part).__name__ for part in network.modules()}
    assert {"QuantizedLinear", "QuantizedSwitchLinear", "QuantizedEmbedding"} <= kinds
    assert network.layers[0].self_attn.q_norm.weight.shape == (64,)
    assert network(mx.array([[1, 2]])).dtype == mx.bfloat16
    row = examine("llama, 4 bits", tokens=9)
    assert row.name == "llama, 4 bits" and row.verdict in ("exact", "near-tie"), row.reason


def test_without_a_checkout_the_sweep_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert (ROOT / "tests" / "programs" / "sweep.py").is_file()
    monkeypatch.setattr(architecture_sweep, "ROOT", tmp_path)
    assert "checkout" in sweep(1, lambda _: None)["error"]
