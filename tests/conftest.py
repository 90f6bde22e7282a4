"""Prepares the backend before anything imports MLX, and bytecode and scheduling for the processes that tests start."""

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from importlib import metadata
from pathlib import Path
from typing import Any

import platformdirs
import pytest
from hypothesis import settings

# The same examples every time, as nobody should wait for luck. HYPOTHESIS=random looks for new ones.
settings.register_profile("the same", derandomize=True, deadline=None)
settings.register_profile("random", derandomize=False, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS", "the same"))

# Where no bytecode may lie in the tree, it lies elsewhere: each of some 200 processes would else compile every library.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    sys.pycache_prefix = os.environ.setdefault(
        "PYTHONPYCACHEPREFIX", str(platformdirs.user_cache_path("redline-tests") / "bytecode")
    )
    sys.dont_write_bytecode = False

# A shell starts what runs in the background with Ctrl-C ignored, and children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# One core has no use for a second process.
PROCESSES = min(2, len(os.sched_getaffinity(0)) if sys.platform == "linux" else 2)


def _schedule(policy: str) -> None:
    """Sets the scheduling policy, by its name in `os`, of this thread and of those that it starts. Only on Linux."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.sched_setscheduler(0, getattr(os, policy), os.sched_param(0))


# MLX's CPU backend hands every few operations to a thread of its own. By default Linux lets that thread preempt the one
# that woke it each time, and each switch takes as long as the operations of a toy. Child processes inherit this.
_schedule("SCHED_BATCH")


@pytest.fixture(autouse=True)
def users_scheduling(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs tests marked `timing` under the scheduling policy that users have."""
    timing = request.node.get_closest_marker("timing") is not None
    if timing:
        _schedule("SCHED_OTHER")
    yield
    if timing:
        _schedule("SCHED_BATCH")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Has xdist run two processes, each file in one of them, unless it is not there or the command line says otherwise.
    A worker that crashes is not started again: xdist would wait for it for ever, and never print the failures."""
    option = config.option
    unsaid = getattr(option, "numprocesses", 0) is None and not option.tx and not option.usepdb
    if unsaid and not hasattr(config, "workerinput"):
        option.numprocesses = PROCESSES if PROCESSES > 1 else 0
        option.dist = "loadfile" if option.dist == "no" else option.dist
        option.maxworkerrestart = option.maxworkerrestart or "0"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow_for(*ids): slow, of the cases of a test, those with these ids (* is any)")


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(name: str) -> Generator[None, Any, Any]:
    """Marks as slow the cases of a test that its mark `slow_for` names. A name that no case has is an error."""
    made = yield
    for wanted in slow_names(made):
        cases = [item for item in made if wanted == item.callspec.id or fnmatchcase(item.callspec.id, wanted)]
        if not cases:
            raise pytest.UsageError(f"{name} has no case {wanted}, which is marked as slow")
        for item in cases:
            item.add_marker(pytest.mark.slow)
    return made


def slow_names(made: Any) -> list[str]:
    """What the marks `slow_for` of a test name; `made` is all that was collected of it."""
    if not isinstance(made, list) or not made or not isinstance(made[0], pytest.Function):
        return []
    return [wanted for mark in made[0].iter_markers("slow_for") for wanted in mark.args]


def pytest_collection_finish() -> None:
    spare_the_collector()


@pytest.fixture(scope="module", autouse=True)
def what_files_leave() -> None:
    """Spares the collector what earlier files leave, which late in a run takes it most of a second each time."""
    spare_the_collector()


def spare_the_collector() -> None:
    """Keeps all that is alive out of later collections: the app collects at each reset of a session."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def toy_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random model that loads in no time. Tests that change it work on a copy."""
    from tests.toys.folders import make_folder  # imports mlx-lm, which the process that starts workers need not

    return make_folder(tmp_path_factory.mktemp("toys") / "target")


@pytest.fixture(scope="session")
def toy_drafter_folder(toy_folder: Path) -> Path:
    """A drafter for `toy_folder` that is often right."""
    from tests.toys.folders import make_folder

    return make_folder(toy_folder.with_name("drafter"), seed=1, like=toy_folder, noise=0.03)


@pytest.fixture
def activities(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records the beginnings and ends of what keeps macOS awake."""
    said: list[str] = []

    @contextmanager
    def activity(_: str) -> Iterator[None]:
        said.append("begins")
        yield
        said.append("ends")

    monkeypatch.setattr("app.macos.activity", activity)
    return said


@pytest.fixture
def not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Redline runs from a folder of its source: no package has its name."""
    version = metadata.version

    def found(package: str) -> str:
        if package == "redline":
            raise metadata.PackageNotFoundError(package)
        return version(package)

    monkeypatch.setattr(metadata, "version", found)
