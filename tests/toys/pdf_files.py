"""Small PDF files: pages with a line of text each, protected ones, and hostile ones."""

import io
import zlib
from collections.abc import Sequence
from pathlib import Path

from pypdf import PdfReader, PdfWriter


def pdf(*pages: str, content: Sequence[bytes] = ()) -> bytes:
    """Returns a PDF with these lines, or with these content streams, compressed."""
    streams = [zlib.compress(one) for one in content or [_line(text) for text in pages]]
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(streams)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(streams)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, stream in enumerate(streams):
        box = "/Parent 2 0 R /MediaBox [0 0 300 300] /Resources << /Font << /F1 3 0 R >> >>"
        objects.append(f"<< /Type /Page {box} /Contents {5 + 2 * number} 0 R >>".encode())
        head = f"<< /Length {len(stream)} /Filter /FlateDecode >>".encode()
        objects.append(head + b"\nstream\n" + stream + b"\nendstream")
    out, places = bytearray(b"%PDF-1.7\n"), []
    for number, value in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n".encode() + value + b"\nendobj\n"
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}".encode()
    out += f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n".encode()
    return bytes(out)


def protected(data: bytes, password: str, algorithm: str = "RC4-128") -> bytes:
    """Returns the same document, protected by a password, which may be empty."""
    writer, made = PdfWriter(clone_from=PdfReader(io.BytesIO(data))), io.BytesIO()
    writer.encrypt(password, algorithm=algorithm)
    writer.write(made)
    return made.getvalue()


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def _line(text: str) -> bytes:
    escaped = text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
    return f"BT /F1 12 Tf 20 200 Td ({escaped}) Tj ET".encode("latin-1")
