"""The app's icon and the image's background: from the SVG files in resources/icons, drawn by Qt, packed by Pillow."""

import os
import struct
from io import BytesIO
from pathlib import Path

from PIL import Image
from PySide6.QtCore import QBuffer, QByteArray, QIODevice, Qt
from PySide6.QtGui import QGuiApplication, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

from bundling.layout import ROOT
from bundling.tools import BuildError

FOLDER = ROOT / "resources" / "icons"
# In pixels. The two smallest, for 16 points, are a simpler picture: the large one's lines would blur there.
PICTURES = {16: "small", 32: "small", 64: "large", 128: "large", 256: "large", 512: "large", 1024: "large"}


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
    """Writes the icon in every size that macOS asks for. Pillow leaves out 16 pixels, for plain screens."""
    pictures = {size: drawn(f"icon-{kind}", size, size) for size, kind in PICTURES.items()}
    made = BytesIO()
    pictures[1024].save(made, "ICNS", append_images=list(pictures.values()))
    path.write_bytes(_with_entry(made.getvalue(), b"ic04", _argb(pictures[16])))


def _with_entry(icns: bytes, kind: bytes, data: bytes) -> bytes:
    """Returns an icon file with one more picture. Format: magic, length, table of contents, then (kind, length, data);
    lengths are big-endian and include their own eight bytes of head."""
    (contents_bytes,) = struct.unpack_from(">I", icns, 12)
    entry = kind + struct.pack(">I", 8 + len(data))
    table = b"TOC " + struct.pack(">I", contents_bytes + 8) + icns[16 : 8 + contents_bytes] + entry
    body = table + icns[8 + contents_bytes :] + entry + data
    return b"icns" + struct.pack(">I", 8 + len(body)) + body


def _argb(picture: Image.Image) -> bytes:
    """Returns a picture as `ic04` holds it: "ARGB", then one channel after the other, packed in literal runs of at most
    128 bytes, each preceded by its length less one."""
    red, green, blue, alpha = (channel.tobytes() for channel in picture.split())
    packed = b"ARGB"
    for channel in (alpha, red, green, blue):
        for start in range(0, len(channel), 128):
            run = channel[start : start + 128]
            packed += bytes([len(run) - 1]) + run
    return packed


def write_background(path: Path, width: int, height: int) -> None:
    """Of the image's window, a TIFF with a picture for plain and one for sharp screens."""
    plain, sharp = drawn("disk-image", width, height), drawn("disk-image", 2 * width, 2 * height)
    plain.save(path, "TIFF", save_all=True, append_images=[sharp], compression="tiff_lzw")
