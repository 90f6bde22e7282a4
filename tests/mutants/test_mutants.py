"""Does the suite notice? Each mutant is put into a copy of the tree, and its tests must fail there.

Style: every mutant has its place. Slow: every mutant is killed. By hand, for those whose name matches:
`uv run pytest -m slow tests/mutants -k residual`.
"""

import ast
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from queue import Queue

import pytest

from tests.mutants.forked_pytest import Result, run
from tests.mutants.wrong_edits import ROOT, SOURCES, Mutant, read_mutants

MUTANTS = read_mutants()
COPIED = (*SOURCES, "tests", "resources")
TIMEOUT_S = 180
WORKERS = min(4, os.cpu_count() or 1)
FAILED = 1  # pytest's exit status when tests ran and failed; an error of collection or usage has another
BEFORE_S = 10**9  # Unix time, before any file of the tree
PARTS = 16  # that the tests of all mutants are run in, for the time limit

PROBE = """
import app, engine.loop, models

def test_the_copy_is_what_is_tested():
    for module in (app, engine.loop, models):
        assert module.__file__.startswith({copy!r})
"""


def by_name(mutant: Mutant) -> str:
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


def ids(mutant: Mutant) -> tuple[str, ...]:
    """The pytest ids of a mutant's tests."""
    return tuple(f"{file}::{test}" for test in mutant.tests for file in defined_tests().get(test.partition("[")[0], ()))


def copied(folder: Path) -> Path:
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "tests" / "test_probe.py").write_text(PROBE.format(copy=str(folder)))
    return folder


def judge(mutant: Mutant, copies: Queue[Path]) -> Result:
    """Runs the mutant's tests in a copy that nobody else uses meanwhile, and puts the copy right again. Each mutant's
    file has a time of its own, in seconds, so that Python takes no bytecode of another mutant for its."""
    copy = copies.get()
    (place,) = mutant.places()
    file = copy / place[0].relative_to(ROOT)
    try:
        file.write_text(mutant.applied(*place))
        os.utime(file, (BEFORE_S + MUTANTS.index(mutant), BEFORE_S + MUTANTS.index(mutant)))
        return run(copy, ids(mutant), TIMEOUT_S)
    finally:
        shutil.copy2(place[0], file)
        copies.put(copy)


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Queue[Path]:
    queue: Queue[Path] = Queue()
    for _ in range(WORKERS):
        queue.put(copied(tmp_path_factory.mktemp("mutants")))
    return queue


@pytest.fixture(scope="module")
def verdicts(request: pytest.FixtureRequest, copies: Queue[Path]) -> Iterator[dict[str, Future[Result]]]:
    """By name, of the mutants that this run asks for; a few at a time, because most of it is imports."""
    kills = [item for item in request.session.items if getattr(item, "originalname", "") == "test_the_suite_kills"]
    with ThreadPoolExecutor(WORKERS) as pool:
        wanted = [item.callspec.params["mutant"] for item in kills]  # type: ignore[attr-defined]
        yield {mutant.name: pool.submit(judge, mutant, copies) for mutant in wanted}
        pool.shutdown(cancel_futures=True)


# --- style --------------------------------------------------------------------------------------


@pytest.mark.style
def test_every_mutant_has_one_place_and_is_python() -> None:
    wrong = []
    for mutant in MUTANTS:
        places = mutant.places()
        if len(places) != 1:
            wrong.append(f"{mutant.name}: {len(places)} places in {mutant.symbol}")
            continue
        before, after = mutant.definition(*places[0])
        assert before != after, mutant.name
        ast.parse(after)
    assert not wrong


@pytest.mark.style
def test_every_mutant_has_a_name_of_its_own_and_tests_that_exist() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 25
    named = {(mutant.name, test) for mutant in MUTANTS for test in mutant.tests}
    assert not [f"{name}: {test}" for name, test in named if test.partition("[")[0] not in defined_tests()]
    assert all(mutant.tests for mutant in MUTANTS)


# --- slow ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_copy_is_tested_and_passes_unharmed(copies: Queue[Path]) -> None:
    """Otherwise the mutants would die of something else. In parts, for the time limit."""
    tests = sorted({test for mutant in MUTANTS for test in ids(mutant)})
    most = -(-len(tests) // PARTS)
    copy = copies.get()
    for part in (("tests/test_probe.py",), *(tuple(tests[at : at + most]) for at in range(0, len(tests), most))):
        done = run(copy, part, TIMEOUT_S)
        assert done.status == 0, done.output[-3000:]
    copies.put(copy)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=by_name)
def test_the_suite_kills(mutant: Mutant, verdicts: dict[str, Future[Result]]) -> None:
    done = verdicts[mutant.name].result()
    assert done.status == FAILED, f"{mutant.name} lives:\n{done.output[-2000:]}"
