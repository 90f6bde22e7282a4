"""What the picture of a widget has, told without a font."""

from PySide6.QtWidgets import QWidget


def colours_in(widget: QWidget) -> set[str]:
    """Returns every colour in the picture of a widget, as "#rrggbb"."""
    image = widget.grab().toImage()
    return {image.pixelColor(x, y).name() for x in range(image.width()) for y in range(image.height())}
