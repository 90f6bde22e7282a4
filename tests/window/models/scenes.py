"""The four states of the Models window in its pictures."""

from __future__ import annotations

import tempfile
from pathlib import Path

from app.protocol import Pair
from app.store.records import ChatSettings
from app.window.main_window.main_window import MainWindow
from app.window.models.models_window import ModelsWindow
from tests.window.models.shop import (
    EAGLE,
    LARGE,
    QWEN,
    SMALL,
    WAIT,
    Shop,
    asking,
    fetched,
    model,
    pair,
    planned,
    progress,
)
from tests.window.waiting import until

SIZES = {
    "model-00001-of-00002.safetensors": 2_600_000_000,
    "model-00002-of-00002.safetensors": 2_008_000_000,
    "tokenizer.json": 11_400_000,
    "config.json": 1_200,
    "tokenizer_config.json": 9_700,
}


def empty(window: MainWindow) -> ModelsWindow:
    """The first time: only the built-in model is here."""
    return _opened(window, _shop())


def downloading(window: MainWindow) -> ModelsWindow:
    """A model is being downloaded, its drafter is queued, another download is paused."""
    shop, total = _shop(), sum(SIZES.values())
    first, second, *small = SIZES
    came = SIZES[first] + 910_000_000
    shop.put(model(SMALL, 0.12, "unknown", complete=False, total_bytes=351_383_618, trouble="230 MB are missing"))
    so_far = progress(second, 910_000_000, SIZES[second], came, total)
    whole = [fetched(first, SIZES[first]), *(fetched(name, SIZES[name]) for name in small)]
    shop.pull(QWEN, asking(QWEN), planned(QWEN, SIZES), *whole, so_far, WAIT)
    page = _opened(window, shop)
    page.choose(QWEN)
    page.do("both")
    until(lambda: page.downloads.downloads[QWEN].done_bytes == came)
    page.choose(QWEN)
    return page


def refused(window: MainWindow) -> ModelsWindow:
    """A downloaded model that is too large for this Mac."""
    shop = _shop(gb=16, processor="Apple M2")
    shop.put(model(LARGE, 18.43))
    shop.judge(LARGE, auto="lookup", why="lookup, as no other drafter is installed")
    smaller = "choose a smaller model or fewer bits per weight: the weights need 16.6 GB"
    shop.fit(LARGE, "refused", 20.7, 10.7, remedies=[smaller], drafter="lookup")
    page = _opened(window, shop)
    page.choose(LARGE)
    until(lambda: LARGE in page.library.known.fits)
    return page


def paired(window: MainWindow) -> ModelsWindow:
    """A target in use, with compatible drafters and an incompatible one."""
    shop = _shop()
    for name, gb, kind in ((QWEN, 4.62, "model"), (EAGLE, 1.2, "eagle3"), (SMALL, 0.351, "model")):
        shop.put(model(name, gb, kind, last_used_s=1.79e9))
    fits = "same hidden size (4,096) and vocabulary (151,936)"
    tokens = "different tokenizer (49,152 tokens; the target has 151,936)"
    shop.judge(
        QWEN,
        pair(EAGLE, "eagle3", True, fits),
        pair(SMALL, "model", True, "same 151,936 tokens"),
        pair("builtin", "model", False, tokens),
        auto=f"lookup+{EAGLE}",
        why="lookup and Qwen3-8B-speculator.eagle3, which the catalogue knows for this model",
    )
    shop.fit(QWEN, "good", 7.4)
    settings = ChatSettings(pair=Pair(target=QWEN))
    window.controller.change_settings(settings)
    page = _opened(window, shop)
    page.choose(QWEN)
    until(lambda: QWEN in page.library.known.fits)
    return page


def _shop(gb: int = 36, processor: str = "Apple M3 Pro") -> Shop:
    return Shop(Path(tempfile.mkdtemp(prefix="redline-models-")), gb, processor)


def _opened(window: MainWindow, shop: Shop) -> ModelsWindow:
    window.models.command = shop.command
    page = window.models.show()
    until(lambda: not page.library.loading and not page.library.commands.busy)
    return page
