"""What is seen of the page, and a shop with a target and two drafters."""

from __future__ import annotations

from PySide6.QtWidgets import QApplication, QLabel

from app.window.models.models_window import ModelsWindow
from tests.window.models.shop import EAGLE, QWEN, SMALL, Shop, model, pair


def buttons(page: ModelsWindow) -> dict[str, bool]:
    """What can be done, by what is written there."""
    return {button.text(): button.isEnabled() for button in page.details.buttons.values()}


def texts(page: ModelsWindow) -> str:
    """Everything that the right side says."""
    QApplication.processEvents()
    labels = page.details.findChildren(QLabel)
    return "\n".join(label.text() for label in labels if label.isVisibleTo(page.details) and label.text())


def own(shop: Shop) -> None:
    """A target and two drafters are here."""
    for name, gb, kind in ((QWEN, 4.62, "model"), (EAGLE, 1.2, "eagle3"), (SMALL, 0.35, "model")):
        shop.put(model(name, gb, kind))
    others = (pair(SMALL, "model", True, "the same tokens"), pair("builtin", "model", False, "different tokenizer"))
    shop.judge(QWEN, pair(EAGLE, "eagle3", True, "as wide"), *others, auto=f"lookup+{EAGLE}", why="lookup and EAGLE")
    shop.fit(QWEN, "good", 7.4)
