"""Does the suite notice? Each mutant is put into a copy of the tree, and its tests must fail there.

Fast: every mutant still has its place. Slow: every mutant is killed. By hand, for those whose name matches:
`uv run pytest -m slow tests/mutants -k residual`.
"""

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from tests.mutants.catalogue import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
COPIED = ("engine", "models", "app", "packaging", "tests", "resources")
TIMEOUT_S = 180
WORKERS = min(4, os.cpu_count() or 1)
FAILED = 1  # pytest's exit status when tests ran and failed; an error of collection or usage has another

PROBE = """
import app, engine.loop, models

def test_the_copy_is_what_is_tested():
    for module in (app, engine.loop, models):
        assert module.__file__.startswith({copy!r})
"""


def by_name(mutant: Mutant) -> str:
    return mutant.name


def run(copy: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    """pytest in the copy, importing the copy's source, leaving no bytecode that could outlive a mutant."""
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-n", "0", "-p", "no:cacheprovider", *tests]
    return subprocess.run(
        command, cwd=copy, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


def copied(folder: Path) -> Path:
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "tests" / "test_probe.py").write_text(PROBE.format(copy=str(folder)))
    return folder


def judge(mutant: Mutant, copies: Queue[Path]) -> subprocess.CompletedProcess[str]:
    """Run the mutant's tests in a copy that nobody else uses meanwhile, and put the copy right again."""
    copy = copies.get()
    file = copy / mutant.file
    text = file.read_text()
    try:
        file.write_text(text.replace(mutant.old, mutant.new))
        return run(copy, *mutant.tests)
    finally:
        file.write_text(text)
        copies.put(copy)


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Queue[Path]:
    queue: Queue[Path] = Queue()
    for _ in range(WORKERS):
        queue.put(copied(tmp_path_factory.mktemp("mutants")))
    return queue


@pytest.fixture(scope="module")
def verdicts(request: pytest.FixtureRequest, copies: Queue[Path]) -> Iterator[dict[str, Future[Any]]]:
    """By name, of the mutants that this run asks for; a few at a time, because most of it is imports."""
    kills = [item for item in request.session.items if getattr(item, "originalname", "") == "test_the_suite_kills"]
    with ThreadPoolExecutor(WORKERS) as pool:
        wanted = [item.callspec.params["mutant"] for item in kills]  # type: ignore[attr-defined]
        yield {mutant.name: pool.submit(judge, mutant, copies) for mutant in wanted}
        pool.shutdown(cancel_futures=True)


# --- fast ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mutant", MUTANTS, ids=by_name)
def test_a_mutant_has_one_place_and_is_python(mutant: Mutant) -> None:
    text = (ROOT / mutant.file).read_text()
    assert text.count(mutant.old) == 1
    assert mutant.new != mutant.old
    ast.parse(text.replace(mutant.old, mutant.new))


def test_mutants_have_names_of_their_own_and_tests_that_exist() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 25
    for test in {test for mutant in MUTANTS for test in mutant.tests}:
        file, _, function = test.partition("::")
        names = {n.name for n in ast.walk(ast.parse((ROOT / file).read_text())) if isinstance(n, ast.FunctionDef)}
        assert function.split("[")[0] in names, test


# --- slow ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_copy_is_tested_and_passes_unharmed(copies: Queue[Path]) -> None:
    """Otherwise the mutants would die of something else. In parts, for the time limit."""
    tests = sorted({test for mutant in MUTANTS for test in mutant.tests})
    copy = copies.get()
    for part in (["tests/test_probe.py"], tests[::2], tests[1::2]):
        done = run(copy, *part)
        assert done.returncode == 0, done.stdout[-3000:]
    copies.put(copy)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=by_name)
def test_the_suite_kills(mutant: Mutant, verdicts: dict[str, Future[Any]]) -> None:
    done = verdicts[mutant.name].result()
    assert done.returncode == FAILED, f"{mutant.name} lives:\n{done.stdout[-2000:]}"
