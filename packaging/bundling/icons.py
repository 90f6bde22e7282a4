"""The app's icon and the image's background: from the SVG files in resources/icons, drawn by Qt, packed by Pillow."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path

from PIL import Image
from PySide6.QtCore import QBuffer, QByteArray, QIODevice, Qt
from PySide6.QtGui import QGuiApplication, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

from bundling.layout import ROOT
from bundling.tools import BuildError

FOLDER = ROOT / "resources" / "icons"
# In pixels. The smallest, for 16 points on sharp screens, is a simpler picture: the large one's lines would blur there.
PICTURES = {32: "small", 64: "large", 128: "large", 256: "large", 512: "large", 1024: "large"}


def drawn(picture: str, width: int, height: int) -> Image.Image:
    """An SVG of resources/icons in pixels, RGBA. Raises BuildError."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    application = QGuiApplication.instance() or QGuiApplication(["icons"])
    assert application is not None
    renderer = QSvgRenderer(str(FOLDER / f"{picture}.svg"))
    if not renderer.isValid():
        raise BuildError(f"resources/icons/{picture}.svg cannot be drawn")
    canvas = QImage(width, height, QImage.Format.Format_ARGB32_Premultiplied)
    canvas.fill(Qt.GlobalColor.transparent)
    painter = QPainter(canvas)
    renderer.render(painter)
    painter.end()
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    canvas.save(buffer, "PNG")
    return Image.open(BytesIO(data.data())).convert("RGBA")


def write_icns(path: Path) -> None:
    """The icon, in every size that macOS asks for."""
    pictures = {size: drawn(f"icon-{kind}", size, size) for size, kind in PICTURES.items()}
    pictures[1024].save(path, "ICNS", append_images=list(pictures.values()))


def write_background(path: Path, width: int, height: int) -> None:
    """Of the image's window, a TIFF with a picture for plain and one for sharp screens."""
    plain, sharp = drawn("disk-image", width, height), drawn("disk-image", 2 * width, 2 * height)
    plain.save(path, "TIFF", save_all=True, append_images=[sharp], compression="tiff_lzw")
