"""Whether the system is asked to keep things still. Qt 6.9 does not tell; macOS does when asked in its own words."""

from __future__ import annotations

import ctypes
import ctypes.util
import sys

from PySide6.QtWidgets import QApplication, QStyle


def system_reduces_motion() -> bool:
    """macOS: Settings, Accessibility, Display, Reduce motion. Elsewhere: the style animates nothing."""
    if sys.platform == "darwin":
        return _mac_reduces_motion()
    return QApplication.style().styleHint(QStyle.StyleHint.SH_Widget_Animation_Duration) == 0


def _mac_reduces_motion() -> bool:
    """[[NSWorkspace sharedWorkspace] accessibilityDisplayShouldReduceMotion]; AppKit is loaded, as Qt draws by it."""
    library = ctypes.util.find_library("objc")
    if library is None:
        return False
    objc = ctypes.CDLL(library)
    objc.objc_getClass.restype = objc.sel_registerName.restype = ctypes.c_void_p
    objc.objc_getClass.argtypes = objc.sel_registerName.argtypes = [ctypes.c_char_p]
    address = ctypes.cast(objc.objc_msgSend, ctypes.c_void_p).value
    if address is None:
        return False
    to_object = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(address)
    to_bool = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_void_p)(address)
    workspace = to_object(objc.objc_getClass(b"NSWorkspace"), objc.sel_registerName(b"sharedWorkspace"))
    asked = objc.sel_registerName(b"accessibilityDisplayShouldReduceMotion")
    return bool(workspace) and to_bool(workspace, asked)
