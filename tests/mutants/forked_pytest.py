"""Runs pytest in a copy of the tree, in a fork of a process that has imported every library that is large.

Most of what a mutant's tests take is imports. The fork server imports the libraries once, and nothing of the tree; each
fork then imports the tree from the copy.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path
from typing import NamedTuple

from tests.mutants.wrong_edits import SOURCES

TIMED_OUT = -1  # no exit status of pytest's
OPTIONS = ("-x", "-q", "--no-header", "-n", "0", "-p", "no:cacheprovider", "-m", "")
_KNOWN = "ignore::pytest.PytestAssertRewriteWarning"  # of plugins that the fork server has imported
_OURS = (*SOURCES, "tests")
_READING = threading.Lock()
"""Held while an exit status may be read. Starting a process reads those of all others, and of two threads that read
the same one at once, the second gets 255 (CPython's popen_forkserver.py)."""


class Result(NamedTuple):
    """status: pytest's exit status, or TIMED_OUT. output: what it wrote."""

    status: int
    output: str


def run(copy: Path, tests: tuple[str, ...], timeout_s: float) -> Result:
    """Runs tests in the copy, on the copy's source. What they leave running is killed."""
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["tests.mutants.large_libraries"])
    output = copy / "output.txt"
    child = forks.Process(target=_run_in_fork, args=(copy, tests, output))
    with _READING:
        child.start()
    wait([child.sentinel], timeout_s)
    with _READING:
        status = TIMED_OUT if child.exitcode is None else child.exitcode
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid or 0, signal.SIGKILL)
    wait([child.sentinel])
    with _READING:
        child.join()
    return Result(status, output.read_text(errors="replace"))


def _run_in_fork(copy: Path, tests: tuple[str, ...], output: Path) -> None:
    os.setpgid(0, 0)
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.chdir(copy)
    _import_from(copy)
    import pytest

    status = int(pytest.main([*OPTIONS, "-W", _KNOWN, *tests]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _import_from(copy: Path) -> None:
    """Forgets the tree that this process came from, and finds it in the copy. The engine looks for its BLAS before MLX
    is imported, so MLX is hidden from it meanwhile; the fork server loaded both in that order."""
    os.environ["PYTHONPATH"] = str(copy)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = str(copy / "bytecode")
    for name in [name for name in sys.modules if name.partition(".")[0] in _OURS]:
        del sys.modules[name]
    root = str(Path(__file__).parents[2])
    sys.path[:] = [str(copy), *(place for place in sys.path if place not in ("", root))]
    hidden = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "mlx"}
    for name in hidden:
        del sys.modules[name]
    __import__("engine")
    sys.modules.update(hidden)
