"""What Redline asks of macOS that Qt does not offer, through the Objective-C runtime. On other systems it does nothing.

An *activity* (Foundation's NSProcessInfo) keeps macOS from slowing a process down (App Nap) and the Mac from going to
sleep by itself while something that the user waits for runs. The display may still turn off.
"""

import ctypes
import ctypes.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

# NSActivityUserInitiated, which includes NSActivityIdleSystemSleepDisabled (Foundation/NSProcessInfo.h).
_USER_INITIATED = 0x00FFFFFF


@contextmanager
def activity(reason: str) -> Iterator[None]:
    """Holds off App Nap and idle sleep for as long as the context lasts. reason: what `pmset -g assertions` shows.

    `HostConnection._stay_awake` decides when the window does this, AWAKE in app/cli/main.py which commands do for as
    long as they run; `redline chat` does while it carries out a line, and not while it waits for one.
    """
    if sys.platform != "darwin" or not _runtime():
        yield
        return
    information = _send(_class("NSProcessInfo"), "processInfo")
    text = _send(_class("NSString"), "stringWithUTF8String:", (ctypes.c_char_p, reason.encode()))
    token = _send(
        information,
        "beginActivityWithOptions:reason:",
        (ctypes.c_uint64, _USER_INITIATED),
        (ctypes.c_void_p, text),
    )
    _send(token, "retain")
    try:
        yield
    finally:
        _send(information, "endActivity:", (ctypes.c_void_p, token))
        _send(token, "release")


def reduces_motion() -> bool:
    """Returns whether the Mac is set to reduce motion (System Settings, Accessibility, Display), which Qt 6.9 cannot
    tell. AppKit must be loaded, as Qt has it."""
    if not _runtime():
        return False
    workspace = _send(_class("NSWorkspace"), "sharedWorkspace")
    return bool(_send(workspace, "accessibilityDisplayShouldReduceMotion", returns=ctypes.c_bool))


@cache
def _runtime() -> ctypes.CDLL | None:
    """The Objective-C runtime with Foundation loaded; None where they are missing."""
    names = [ctypes.util.find_library(name) for name in ("objc", "Foundation")]
    objc, foundation = names
    if objc is None or foundation is None:
        return None
    ctypes.CDLL(foundation)
    runtime = ctypes.CDLL(objc)
    for function in (runtime.objc_getClass, runtime.sel_registerName):
        function.restype, function.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
    return runtime


def _class(name: str) -> int | None:
    runtime = _runtime()
    assert runtime is not None
    found = runtime.objc_getClass(name.encode())
    return None if found is None else int(found)


def _send(
    receiver: int | None, selector: str, *arguments: tuple[Any, Any], returns: Any = ctypes.c_void_p
) -> int | None:
    """Sends a message; one to None returns None or False. arguments: (C type, value) pairs. returns: the C type.

    `objc_msgSend` must be called as the method's own C function type: arm64 passes variadic arguments differently.
    """
    runtime = _runtime()
    assert runtime is not None
    address = ctypes.cast(runtime.objc_msgSend, ctypes.c_void_p).value
    assert address is not None
    kinds = [kind for kind, _ in arguments]
    function = ctypes.CFUNCTYPE(returns, ctypes.c_void_p, ctypes.c_void_p, *kinds)(address)
    found = function(receiver, runtime.sel_registerName(selector.encode()), *(value for _, value in arguments))
    return None if found is None else int(found)
