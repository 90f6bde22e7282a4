"""Starting a bundle as the system does: its launcher, nothing of this machine's environment, a home of its own."""

import json
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

from bundling.image import contents
from bundling.layout import ROOT, Layout
from bundling.tools import BuildError

EXERCISE = ROOT / "packaging" / "exercise.py"
PATIENCE_S = 500.0
AWKWARD = "Mes Apps été ü"  # where a user may put it
TOKENS = 5
SYSTEM_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"  # as launchd has it; on Linux MLX has a C++ compiler build its kernels
# In `sys.argv` of the code "-c" stands first, where a script expects its own name.
_AS_SCRIPT = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"


def started(layout: Layout, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What the launcher does with these arguments."""
    environment = {"HOME": str(home), "TMPDIR": str(home), "PATH": SYSTEM_PATH}
    return subprocess.run(
        [str(layout.launcher), *arguments],
        env=environment,
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


def exercised(layout: Layout, home: Path, *options: str) -> dict[str, Any]:
    """Returns the report of `packaging/exercise.py` from a run inside the bundle. Raises BuildError if it fails."""
    done = started(layout, home, "-c", _AS_SCRIPT, str(EXERCISE), str(home / "exercise"), *options)
    if done.returncode != 0:
        raise BuildError(f"the app ended with {done.returncode} where it was tried: {done.stderr[-2000:]}")
    return dict(json.loads(done.stdout))


def exercised_by_double_click(app: Path, folder: Path) -> dict[str, Any]:
    """Returns what `exercised` does, of an app that macOS opens as Finder would. folder: for conversations and output.

    Raises BuildError if it fails or does not end.
    """
    printed, errors = folder / "printed", folder / "errors"
    arguments = ["-c", _AS_SCRIPT, str(EXERCISE), str(folder / "exercise"), "--tokens", str(TOKENS)]
    output = [f"--stdout={printed}", f"--stderr={errors}"]
    try:
        command = ["/usr/bin/open", "-n", "-W", *output, str(app), "--args", *arguments]
        subprocess.run(command, check=True, timeout=PATIENCE_S, capture_output=True, text=True)
        return dict(json.loads(printed.read_text()))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        reported = errors.read_text(errors="replace")[-2000:] if errors.is_file() else ""
        raise BuildError(f"macOS opened the app, and it gave no reply ({error}): {reported}") from error


def tried_out(app: Path, folder: Path) -> dict[str, Any]:
    """Returns the report of `exercised` on a read-only copy of an app, in a folder with spaces and accents.

    Raises BuildError if it does not reply with `TOKENS` tokens, or changes anything in itself.
    """
    copy = Layout(Path(shutil.copytree(app, folder / AWKWARD / app.name, symlinks=True)))
    before = contents(copy.app)
    _set_writable(copy.app, False)
    home = folder / "home"
    home.mkdir()
    try:
        for words in (("--version",), ("-m", "app.host", "--help")):
            if (done := started(copy, home, *words)).returncode != 0:
                raise BuildError(f"`Redline {' '.join(words)}` ended with {done.returncode}: {done.stderr[-800:]}")
        report = exercised(copy, home, "--tokens", str(TOKENS))
        after = contents(copy.app)
    finally:
        _set_writable(copy.app, True)  # so that it can be removed
    if report["tokens"] != TOKENS or not report["reply"]:
        raise BuildError(
            f"the app was asked for {TOKENS} tokens and replied with {report['tokens']}: {report['reply']!r}"
        )
    changed = sorted({name for name, what in (before.items() ^ after.items())})
    if changed:
        raise BuildError(f"the app writes into itself: {', '.join(changed[:5])}")
    return report


def _set_writable(app: Path, writable: bool) -> None:
    bits = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
    for path in (app, *app.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | stat.S_IWUSR if writable else mode & ~bits)
