"""The native launcher, compiled for the bundle's platform by Zig, which comes from PyPI and needs no other compiler."""

import platform as machine

from bundling.layout import LIBPYTHON, MINIMUM_SYSTEM, NAME, ROOT, Layout, dotted
from bundling.runtime import Python
from bundling.tools import run, uv

SOURCE = ROOT / "packaging" / "launcher.c"
COMPILER = "ziglang==0.15.2"
OLDEST_GLIBC = "2.35"  # as of the wheels, see bundling.wheels


def compile_launcher(python: Python, layout: Layout, platform: str) -> None:
    """For "darwin" or "linux". Expects the runtime in place: the launcher is linked against its library."""
    layout.launcher.parent.mkdir(parents=True)
    library = layout.frameworks / LIBPYTHON[platform]
    if platform == "darwin":
        target = f"aarch64-macos.{dotted(MINIMUM_SYSTEM)}"
        search = "@executable_path/../Frameworks"
    else:
        target, search = f"{machine.machine()}-linux-gnu.{OLDEST_GLIBC}", "$ORIGIN/../Frameworks"
    zig = (uv(), "run", "--quiet", "--no-project", "--isolated", "--with", COMPILER, "python", "-m", "ziglang")
    options = ("-std=c17", "-O2", "-Wall", "-Wextra", "-Werror", "-s", f"-Wl,-rpath,{search}")
    # From the folder of the source, so that its place on this machine stands nowhere.
    run(*zig, "cc", "-target", target, *options, "-isystem", python.headers, "-o", layout.launcher.resolve(),
        SOURCE.name, library.resolve(), cwd=SOURCE.parent)  # fmt: skip
    for leftover in layout.launcher.parent.iterdir():
        if leftover.name != NAME:
            leftover.unlink()
