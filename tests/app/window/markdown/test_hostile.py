"""Nothing that a model writes is fetched, run, opened, believed or waited for."""

import re
import time
from typing import Any

import pytest
from PySide6.QtCore import QUrl
from PySide6.QtGui import QTextDocument, QTextFormat, QTextTable

from app.reply import Span
from app.window.common.appearance import LIGHT
from app.window.markdown import GrowingDocument, Reader, code_blocks, plain_text
from app.window.markdown.formula_object import formula_source
from app.window.markdown.links import safe_link
from app.window.markdown.source_pieces import LONGEST, SourcePieces, parse_cost
from app.window.markdown.text_blocks import OBJECT
from tests.app.window.markdown.documents import blocks, described, rendered, runs
from tests.app.window.markdown.hostile import CASES
from tests.machine_speed import assert_quick

pytestmark = pytest.mark.usefixtures("app")

# Scripts need single marks of direction and invisible characters; the third in a row carries a message.
DECEIVING = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u206f\ufffc\ud800-\udfff]"
    "|[\u00ad\u034f\u061c\u200b-\u200f\u2060-\u2064\ufeff]{3}|[\U000e0000-\U000e0fff]"
)
MAX_S = 1.0  # of the processor, to show a case
LINES = ("signs", "stress: line", "stress: space", "stress: empty", "stress: code", "stress: pipes", "stress: emoji")


class Watched(Reader):
    """Counts what a document asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []

    def loadResource(self, kind: int, name: QUrl | str) -> Any:
        self.loads.append(str(name))
        return super().loadResource(kind, name)


def spans_of(source: str) -> list[Span]:
    return [Span(i, min(i + 3, len(source)), "accepted", i) for i in range(0, len(source), 3)]


def open_reader(source: str, raw: bool = False) -> Watched:
    reader = Watched()
    reader.resize(600, 400)
    GrowingDocument(reader.document(), LIGHT, True, raw).grow(source, spans_of(source))
    reader.grab()
    return reader


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_hostile_text_is_shown_and_no_more(name: str) -> None:
    for raw in (False, True) if name.startswith(LINES) else (False,):
        reader = open_reader(CASES[name], raw)
        assert not reader.loads
        assert_harmless(reader)


@pytest.mark.timing
@pytest.mark.parametrize(
    ("name", "raw"),
    [(name, raw) for raw in (False, True) for name in CASES if name.startswith(LINES if raw else ("stress", "signs"))],
)
def test_hostile_text_is_shown_in_time(name: str, raw: bool) -> None:
    def seconds() -> float:
        began_s = time.process_time()
        open_reader(CASES[name], raw)
        return time.process_time() - began_s

    assert_quick(seconds, MAX_S)


def assert_harmless(reader: Reader) -> None:
    """No objects but formulas, no frames but tables, no link that is not safe, no character that hides or reorders."""
    document = reader.document()
    for block in blocks(document):
        frame = document.frameAt(block.position())
        assert frame == document.rootFrame() or isinstance(frame, QTextTable)
        assert block.textList() is None
        for text, shape in runs(block):
            formula = formula_source(shape)
            assert not DECEIVING.search(text if formula is None else text.replace(OBJECT, formula))
            assert formula is not None or shape.objectType() == QTextFormat.ObjectTypes.NoObject.value
            assert not shape.isAnchor() or safe_link(shape.anchorHref()) is not None


def a_sixth(names: list[str]) -> list[Any]:
    """Parameters for a test of each: every sixth is tested every time, the others are slow."""
    return [pytest.param(name, marks=pytest.mark.slow if i % 6 else ()) for i, name in enumerate(names)]


@pytest.mark.parametrize("name", a_sixth([name for name in CASES if name.startswith(("stress", "signs"))]))
def test_hostile_text_is_divided_at_a_cost_that_its_length_bounds(name: str) -> None:
    divided = SourcePieces()
    pieces = divided.follow(CASES[name], len(CASES[name]), whole=True)
    assert max(piece.end - piece.start for piece in pieces) <= LONGEST
    assert divided.cost <= 5 * parse_cost(CASES[name])


@pytest.mark.parametrize(
    "name", a_sixth([name for name in CASES if not name.startswith(("link", "image")) and "]:" not in CASES[name]])
)
def test_hostile_text_grows_to_what_it_is_at_once(name: str) -> None:
    source = CASES[name][:600]
    document = QTextDocument()
    growing = GrowingDocument(document, LIGHT, True)
    spans = spans_of(source)
    for end in [*range(1, len(source), 173), len(source)]:
        growing.grow(source[:end], [span for span in spans if span.start < end])
    assert described(document) == described(rendered(source, spans))


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("html: ") and " in " not in name])
def test_html_is_shown_as_it_is_written(name: str) -> None:
    document = rendered(CASES[name])
    text = plain_text(document, 0, document.characterCount())
    assert text.count("<") == CASES[name].count("<")


def test_code_that_is_copied_is_what_was_written() -> None:
    (block,) = code_blocks(rendered("```html\n<img src=x>\u202e\0\n```\n"))
    assert block.code == "<img src=x>\u202e\0"
