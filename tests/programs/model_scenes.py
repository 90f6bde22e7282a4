"""The four states of the Models window in its pictures."""

import tempfile
from pathlib import Path
from typing import Literal

import pytest

from app.protocol import Pair
from app.store.records import ChatSettings
from app.window.main_window.main_window import MainWindow
from app.window.models.models_window import ModelsWindow
from tests.app.window.models.fake_models import (
    EAGLE,
    LARGE,
    QWEN,
    SMALL,
    WAIT,
    FakeModels,
    asking,
    fetched,
    model,
    pair,
    planned,
    progress,
)
from tests.app.window.waiting import until

SIZES = {
    "model-00001-of-00002.safetensors": 2_600_000_000,
    "model-00002-of-00002.safetensors": 2_008_000_000,
    "tokenizer.json": 11_400_000,
    "config.json": 1_200,
    "tokenizer_config.json": 9_700,
}


def empty(window: MainWindow) -> ModelsWindow:
    """The first time: only the built-in model is here."""
    return _opened(window, _fake())


def downloading(window: MainWindow) -> ModelsWindow:
    """A model is being downloaded, its drafter is queued, another download is paused."""
    fake, total = _fake(), sum(SIZES.values())
    first, second, *small = SIZES
    came = SIZES[first] + 910_000_000
    fake.put(model(SMALL, 0.12, "unknown", complete=False, total_bytes=351_383_618, trouble="230 MB are missing"))
    so_far = progress(second, 910_000_000, SIZES[second], came, total)
    whole = [fetched(first, SIZES[first]), *(fetched(name, SIZES[name]) for name in small)]
    fake.pull(QWEN, asking(QWEN), planned(QWEN, SIZES), *whole, so_far, WAIT)
    page = _opened(window, fake)
    page.choose(QWEN)
    page.do("both")
    until(lambda: page.downloads.downloads[QWEN].done_bytes == came)
    page.choose(QWEN)
    return page


def refused(window: MainWindow) -> ModelsWindow:
    """A downloaded model that is too large for this Mac."""
    fake = _fake(gb=16, processor="Apple M2")
    fake.put(model(LARGE, 18.43))
    fake.judge(LARGE, auto="lookup", why="prompt lookup, as no other drafter is installed")
    smaller = "choose a smaller model or fewer bits per weight: the weights need 16.6 GB"
    fake.fit(LARGE, "refused", 20.7, 10.7, remedies=[smaller], drafter="lookup")
    page = _opened(window, fake)
    page.choose(LARGE)
    until(lambda: LARGE in page.library.known.fits)
    return page


def paired(window: MainWindow) -> ModelsWindow:
    """A target in use, with compatible drafters and an incompatible one."""
    fake = _fake()
    for name, gb, kind in ((QWEN, 4.62, "model"), (EAGLE, 1.2, "eagle3"), (SMALL, 0.351, "model")):
        fake.put(model(name, gb, kind, last_used_s=1.79e9))
    fits = "same hidden size (4,096) and vocabulary (151,936)"
    tokens = "different tokenizer (49,152 tokens; the target has 151,936)"
    fake.judge(
        QWEN,
        pair(EAGLE, "eagle3", True, fits),
        pair(SMALL, "model", True, "same 151,936 tokens"),
        pair("builtin", "model", False, tokens),
        auto=f"lookup+{EAGLE}",
        why="prompt lookup and Qwen3-8B-speculator.eagle3, which the catalogue knows for this model",
    )
    fake.fit(QWEN, "good", 7.4)
    settings = ChatSettings(pair=Pair(target=QWEN))
    window.controller.change_settings(settings)
    page = _opened(window, fake)
    page.choose(QWEN)
    until(lambda: QWEN in page.library.known.fits)
    return page


def offered(window: MainWindow, stage: Literal["offered", "downloading", "ready", "in use"]) -> MainWindow:
    """The welcome of the first start with its offer."""
    fake = _fake()
    offer = window.parts.welcome.offer
    window.models.command = fake.command
    window.models.offer_pair()
    until(lambda: offer.isVisible())
    assert offer.offered is not None
    target, drafter = offer.offered.key, offer.offered.best_drafter
    if stage == "offered":
        return window
    first, second = list(SIZES)[:2]
    came, total = SIZES[first] + 910_000_000, sum(SIZES.values())
    so_far = progress(second, 910_000_000, SIZES[second], came, total)
    fake.pull(target, asking(target), planned(target, SIZES), fetched(first, SIZES[first]), so_far, WAIT)
    offer.button.click()
    downloads = window.models.downloads
    assert downloads is not None and window.models.library is not None
    until(lambda: downloads.downloads[target].done_bytes == came)
    if stage == "downloading":
        return window
    downloads.close()
    for name, gb, kind in ((target, 18.4, "model"), (drafter, 0.28, "model")):
        fake.put(model(name, gb, kind))
        downloads.downloads.pop(name, None)
    window.models.library.refresh()
    until(lambda: offer.step == "use")
    if stage == "in use":
        offer.button.click()
    return window


def _fake(gb: int = 36, processor: str = "Apple M3 Pro") -> FakeModels:
    fake = FakeModels(Path(tempfile.mkdtemp(prefix="redline-models-")), gb, processor)
    return fake.patch(pytest.MonkeyPatch())  # until the next picture


def _opened(window: MainWindow, fake: FakeModels) -> ModelsWindow:
    window.models.command = fake.command
    page = window.models.show()
    until(lambda: not page.library.loading and not page.library.commands.busy)
    return page
