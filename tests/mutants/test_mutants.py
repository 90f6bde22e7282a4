"""Does the suite notice? Each mistake of the past is put into a copy of the tree, and its tests must fail there.

By hand, for those whose name matches: `uv run pytest -m slow tests/mutants -k residual`.

Most of what a mutant's tests take is imports. Therefore pytest runs in a fork of a process that has imported the large
libraries once, and nothing of the tree; each fork then imports the tree from the copy.
"""

import ast
import multiprocessing
import os
import shutil
import signal
import sys
from contextlib import suppress
from functools import cache
from multiprocessing.connection import wait
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.mutants.wrong_edits import ROOT, SOURCES, Mutant, read_mutants

MUTANTS = read_mutants()
COPIED = (*SOURCES, "tests", "resources")
HANG_S = 900
FAILED, HANGS = 1, -1  # pytest's exit status when tests ran and failed; no exit status of pytest's
OPTIONS = ("-x", "-q", "--no-header", "-p", "no:xdist", "-p", "no:cacheprovider", "-m", "")
KNOWN = "ignore::pytest.PytestAssertRewriteWarning"  # of plugins that the fork server has imported
BEFORE_S = 10**9  # Unix time, before any file of the tree
# In an order that the engine allows: its BLAS before MLX. None starts a thread, so the process may fork.
LARGE_LIBRARIES = [
    "engine",
    *("mlx.nn", "mlx_lm.utils", "numpy", "tokenizers", "transformers", "huggingface_hub"),
    *("PySide6.QtNetwork", "PySide6.QtSvg", "PySide6.QtWidgets", "rich", "hypothesis", "pytest"),
]

PROBE = """
import app, engine.loop, models

def test_the_copy_is_what_is_tested():
    for module in (app, engine.loop, models):
        assert module.__file__.startswith({copy!r})
"""


class Result(NamedTuple):
    """status: pytest's exit status, or HANGS. output: what it wrote."""

    status: int
    output: str


def name_of(mutant: Mutant) -> str:
    return mutant.name


@cache
def defined_tests() -> dict[str, list[str]]:
    """The files that define each test function, by its name."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found.setdefault(node.name, []).append(path.relative_to(ROOT).as_posix())
    return found


def ids_of(mutant: Mutant) -> list[str]:
    """The pytest ids of a mutant's tests."""
    return [f"{file}::{test}" for test in mutant.tests for file in defined_tests().get(test.partition("[")[0], ())]


def run_in_copy(copy: Path, tests: list[str]) -> Result:
    """Runs tests in the copy, on the copy's source. What they leave running is killed."""
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(LARGE_LIBRARIES)
    output = copy / "output.txt"
    child = forks.Process(target=run_pytest, args=(copy, tests, output))
    child.start()
    wait([child.sentinel], HANG_S)
    status = HANGS if child.exitcode is None else child.exitcode
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid or 0, signal.SIGKILL)
    child.join()
    return Result(status, output.read_text(errors="replace"))


def run_pytest(copy: Path, tests: list[str], output: Path) -> None:
    """Runs in the fork."""
    os.setpgid(0, 0)
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.chdir(copy)
    import_from(copy)
    status = int(pytest.main([*OPTIONS, "-W", KNOWN, *tests]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def import_from(copy: Path) -> None:
    """Forgets the tree that this process came from, and finds it in the copy. The engine looks for its BLAS before MLX
    is imported, so MLX is hidden from it meanwhile; the fork server loaded both in that order."""
    os.environ["PYTHONPATH"] = str(copy)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = str(copy / "bytecode")
    for name in [name for name in sys.modules if name.partition(".")[0] in (*SOURCES, "tests")]:
        del sys.modules[name]
    sys.path[:] = [str(copy), *(place for place in sys.path if place not in ("", str(ROOT)))]
    hidden = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "mlx"}
    for name in hidden:
        del sys.modules[name]
    __import__("engine")
    sys.modules.update(hidden)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mutants")
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "tests" / "test_probe.py").write_text(PROBE.format(copy=str(folder)))
    return folder


@pytest.mark.style
def test_every_mutant_has_one_place_and_is_python() -> None:
    places = {mutant.name: mutant.places() for mutant in MUTANTS}
    assert not {name: len(found) for name, found in places.items() if len(found) != 1}
    for mutant in MUTANTS:
        (place,) = places[mutant.name]
        assert ast.dump(ast.parse(mutant.applied(*place))) != ast.dump(ast.parse(place[0].read_text())), mutant.name


@pytest.mark.style
def test_every_mutant_has_a_name_of_its_own_and_tests_that_exist() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 25
    named = {(mutant.name, test) for mutant in MUTANTS for test in mutant.tests}
    assert not [f"{name}: {test}" for name, test in named if test.partition("[")[0] not in defined_tests()]
    assert all(mutant.tests for mutant in MUTANTS)


@pytest.mark.slow
def test_the_copy_is_tested_and_passes_unharmed(copy: Path) -> None:
    """Otherwise the mutants would die of something else."""
    tests = sorted({test for mutant in MUTANTS for test in ids_of(mutant)})
    done = run_in_copy(copy, ["tests/test_probe.py", *tests])
    assert done.status == 0, done.output[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=name_of)
def test_the_suite_kills(mutant: Mutant, copy: Path) -> None:
    """Each mutant's file has a time of its own, in seconds, so that Python takes no bytecode of another one for its."""
    (place,) = mutant.places()
    file, time_s = copy / place[0].relative_to(ROOT), BEFORE_S + MUTANTS.index(mutant)
    try:
        file.write_text(mutant.applied(*place))
        os.utime(file, (time_s, time_s))
        done = run_in_copy(copy, ids_of(mutant))
    finally:
        shutil.copy2(place[0], file)
    assert done.status == FAILED, f"{mutant.name} lives:\n{done.output[-2000:]}"
