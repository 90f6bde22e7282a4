"""Other programs that a build runs."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

# Seconds since 1970 that stand for every time of a build, unless SOURCE_DATE_EPOCH says another: 2026-01-01.
EPOCH_S = 1_767_225_600


class BuildError(Exception):
    """Why nothing was built, in one line, and what to do."""


def epoch_s() -> int:
    """The time that everything in a build is of; see reproducible-builds.org."""
    return int(os.environ.get("SOURCE_DATE_EPOCH", EPOCH_S))


def run(*command: str | Path, cwd: Path | None = None, environment: Mapping[str, str] | None = None) -> str:
    """What a program says, standard output only. Raises BuildError with the end of what it complains of."""
    settings = os.environ | {"SOURCE_DATE_EPOCH": str(epoch_s()), "PYTHONHASHSEED": "0"} | dict(environment or {})
    try:
        done = subprocess.run(
            [str(word) for word in command], cwd=cwd, env=settings, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise BuildError(f"{command[0]} cannot be run ({error.strerror}): install it, then build again") from error
    if done.returncode != 0:
        output = " ".join((done.stderr or done.stdout).split())[-600:]
        raise BuildError(f"{' '.join(map(str, command[:4]))} … failed with {done.returncode}: {output}")
    return done.stdout


def uv() -> str:
    """uv, which runs this build."""
    found = os.environ.get("UV") or shutil.which("uv")
    if found is None:
        raise BuildError("uv is not found: `pip install uv`, then build again")
    return found
