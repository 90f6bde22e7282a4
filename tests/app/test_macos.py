"""App Nap and idle sleep are held off: the messages that macOS is sent, against a runtime built here in C."""

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import macos

# Answers every message, and writes each down: receiver, selector, and the arguments of those that have some.
RUNTIME = r"""
#include <stdio.h>
#include <stdint.h>
#include <string.h>
#include <stdlib.h>
static char log_[4096];
int reduced = 0;
void *objc_getClass(const char *name) { return strdup(name); }
void *sel_registerName(const char *name) { return strdup(name); }
const char *sent(void) { return log_; }
void *objc_msgSend(void *receiver, const char *selector, uintptr_t first, uintptr_t second) {
    static const char *token = "token", *info = "info";
    char line[256];
    if (!strcmp(selector, "stringWithUTF8String:")) return strdup((char *)first);
    if (!strcmp(selector, "beginActivityWithOptions:reason:"))
        sprintf(line, "begin %lx %s\n", (unsigned long)first, (char *)second);
    else if (!strcmp(selector, "endActivity:")) sprintf(line, "end %s\n", (char *)first);
    else sprintf(line, "%s %s\n", (char *)receiver, selector);
    strcat(log_, line);
    if (!strcmp(selector, "accessibilityDisplayShouldReduceMotion")) return (void *)(uintptr_t)(0x7f00 | reduced);
    return (void *)(strcmp(selector, "processInfo") ? token : info);
}
"""


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ctypes.CDLL]:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    source, library = tmp_path / "objc.c", tmp_path / "libobjc.so"
    source.write_text(RUNTIME)
    subprocess.run([compiler, "-shared", "-fPIC", "-w", "-o", str(library), str(source)], check=True)
    monkeypatch.setattr(ctypes.util, "find_library", lambda _: str(library))
    monkeypatch.setattr(sys, "platform", "darwin")
    macos._runtime.cache_clear()
    loaded = ctypes.CDLL(str(library))
    loaded.sent.restype = ctypes.c_char_p
    yield loaded
    macos._runtime.cache_clear()


def test_an_activity_begins_is_kept_and_ends_even_after_an_error(runtime: ctypes.CDLL) -> None:
    with pytest.raises(KeyError), macos.activity("redline fit"):
        assert b"end" not in runtime.sent()
        raise KeyError
    assert runtime.sent().decode().splitlines() == [
        "NSProcessInfo processInfo",
        "begin ffffff redline fit",
        "token retain",
        "end token",
        "token release",
    ]


def test_the_mac_tells_whether_motion_is_reduced(runtime: ctypes.CDLL) -> None:
    """In the lowest byte, the only one that a BOOL has."""
    said = ctypes.c_int.in_dll(runtime, "reduced")
    for reduced in (0, 1):
        said.value = reduced
        assert macos.reduces_motion() == bool(reduced)
    assert runtime.sent().decode().splitlines()[:2] == [
        "NSWorkspace sharedWorkspace",
        "token accessibilityDisplayShouldReduceMotion",
    ]


def test_elsewhere_an_activity_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(macos, "_runtime", lambda: pytest.fail("no runtime is looked for"))
    with macos.activity("a reply"):
        pass


def test_a_mac_without_the_runtime_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(ctypes.util, "find_library", lambda _: None)
    macos._runtime.cache_clear()
    with macos.activity("a reply"):
        pass
    assert not macos.reduces_motion()
    macos._runtime.cache_clear()
