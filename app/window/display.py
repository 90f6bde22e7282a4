"""Why no window can be opened here, in one line that says what to do. Imports no Qt, which may be what is missing.

Qt itself ends the process where it finds no screen; `FirstWords` hears it and speaks first.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import Any

from engine.errors import RedlineError

_INSTEAD = "`redline chat` needs no screen"

# Of Debian and Ubuntu, of Fedora: what brings the libraries that Qt's wheels expect to find.
_PACKAGES = {
    "libEGL.so.1": ("libegl1", "mesa-libEGL"),
    "libGL.so.1": ("libgl1", "mesa-libGL"),
    "libOpenGL.so.0": ("libopengl0", "libglvnd-opengl"),
    "libxkbcommon.so.0": ("libxkbcommon0", "libxkbcommon"),
    "libxkbcommon-x11.so.0": ("libxkbcommon-x11-0", "libxkbcommon-x11"),
    "libxcb-cursor.so.0": ("libxcb-cursor0", "xcb-util-cursor"),
    "libdbus-1.so.3": ("libdbus-1-3", "dbus-libs"),
    "libfontconfig.so.1": ("libfontconfig1", "fontconfig"),
    "libfreetype.so.6": ("libfreetype6", "freetype"),
    "libglib-2.0.so.0": ("libglib2.0-0", "glib2"),
    "libgthread-2.0.so.0": ("libglib2.0-0", "glib2"),
    "libX11.so.6": ("libx11-6", "libX11"),
}


class WindowError(RedlineError):
    """No window can be opened here."""


def check_display(platform: str, environment: Mapping[str, str]) -> None:
    """Raises WindowError where there is no screen to open a window on."""
    if not platform.startswith("linux") or environment.get("QT_QPA_PLATFORM"):
        return
    if not (environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY")):
        raise WindowError(
            "there is no screen to open a window on (neither DISPLAY nor WAYLAND_DISPLAY is set): start it from a "
            f"desktop session or over `ssh -X`; {_INSTEAD}"
        )


def lacking(error: ImportError) -> WindowError | None:
    """What a failed import of Qt means to the user; None for any other failed import, which is a bug."""
    if (error.name or "").split(".")[0] not in ("PySide6", "shiboken6"):
        return None
    library = re.match(r"(\S+\.so[.\d]*): cannot open shared object", str(error))
    if library is None:
        return WindowError(f"the window's library cannot be loaded ({error}): install Redline again; {_INSTEAD}")
    return WindowError(f"the window needs {library[1]}, which is missing here: {_advice(library[1])}; {_INSTEAD}")


def _advice(library: str) -> str:
    if library not in _PACKAGES:
        return "install the package of your system that brings it"
    debian, fedora = _PACKAGES[library]
    return f"install it with `sudo apt install {debian}` or `sudo dnf install {fedora}`"


class FirstWords:
    """Hears Qt's messages while the application comes up: where that fails, Qt ends the process, and of all that it has
    said one line is left. What it says otherwise goes to standard error."""

    def __init__(self) -> None:
        self._said: list[str] = []

    def __call__(self, kind: Any, _: object, message: str) -> None:
        from PySide6.QtCore import QtMsgType

        if kind == QtMsgType.QtFatalMsg:
            print(f"redline: {explained([*self._said, message])}", file=sys.stderr, flush=True)
            os._exit(1)
        self._said.append(message)

    def end(self) -> None:
        """The application is up: nothing more to hear."""
        from PySide6.QtCore import qInstallMessageHandler

        qInstallMessageHandler(None)
        for message in self._said:
            print(message, file=sys.stderr)
        self._said.clear()


def explained(said: list[str]) -> str:
    """One line out of what Qt said before it ended the process."""
    text = " ".join(" ".join(said).split())
    if "xcb-cursor" in text:
        return (
            f"the window needs libxcb-cursor.so.0, which is missing here: {_advice('libxcb-cursor.so.0')}; {_INSTEAD}"
        )
    if found := re.search(r"could not connect to display ?(\S*)", text):
        return (
            f"the screen {found[1] or 'named by DISPLAY'} does not answer: check DISPLAY, or start it there; {_INSTEAD}"
        )
    if "platform plugin" in text:
        return f"Qt finds no way to a screen ({said[0]}): check QT_QPA_PLATFORM and DISPLAY; {_INSTEAD}"
    return f"Qt ended the window ({text}); {_INSTEAD}"
