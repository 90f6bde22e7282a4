"""Only plain addresses become links, and none opens without consent."""

from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication, QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QPlainTextEdit, QPushButton, QWidget

from app.window.common.appearance import LIGHT
from app.window.markdown import Reader, ask_to_open, write
from app.window.markdown.links import OpenLink, safe_link
from tests.app.window.markdown.documents import characters, rendered
from tests.app.window.markdown.hostile import LINKS

pytestmark = pytest.mark.usefixtures("app")

SAFE = {
    "http://example.com": "http://example.com",
    "HTTPS://Example.com/A?b=c#d": "https://example.com/A?b=c#d",
    "https://ex\u00e4mple.com/": "https://xn--exmple-cua.com/",
    "http://\u0430\u0440\u0440\u04cf\u0435.com/": "http://xn--80ak6aa92e.com/",
    "http://example.com/\u65e5": "http://example.com/%E6%97%A5",
    "http://example.com:8080/a_(b)'c": "http://example.com:8080/a_(b)'c",
    "http://localhost/x@y": "http://localhost/x@y",
    "mailto:a.b@example.com?subject=hi%20there": "mailto:a.b@example.com?subject=hi%20there",
}


def encoded(url: QUrl | None) -> str | None:
    return None if url is None else url.toString(QUrl.ComponentFormattingOption.FullyEncoded)


@pytest.mark.parametrize("address", SAFE)
def test_plain_addresses_are_normalised(address: str) -> None:
    assert encoded(safe_link(address)) == SAFE[address]
    assert encoded(safe_link(SAFE[address])) == SAFE[address]


@pytest.mark.parametrize("name", LINKS)
def test_disguised_addresses_are_refused_and_their_links_are_inert_text(name: str) -> None:
    assert safe_link(LINKS[name]) is None
    for source in (f"[label](<{LINKS[name]}>)", f"[label]({LINKS[name]})"):
        assert not [one for one in characters(rendered(source)) if one.shape.isAnchor() or one.shape.anchorHref()]


def test_links_carry_their_normalised_address() -> None:
    (address,) = {one.shape.anchorHref() for one in characters(rendered("[a **b** `c`](HTTP://Example.com/%20x)"))}
    assert address == "http://example.com/%20x"


def reader_with(source: str) -> tuple[Reader, list[str]]:
    reader, asked = Reader(), []  # type: tuple[Reader, list[str]]
    reader.resize(400, 200)
    reader.link_clicked.connect(lambda url: asked.append(str(encoded(url))))
    write(reader.document(), source, [], LIGHT, False)
    reader.moveCursor(QTextCursor.MoveOperation.Start)
    reader.show()
    return reader, asked


def test_a_click_asks_and_loads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", opened.append)
    reader, asked = reader_with("[label](https://example.com/a)")
    before = reader.toPlainText()
    QTest.mouseClick(reader.viewport(), Qt.MouseButton.LeftButton, pos=reader.cursorRect().center() + QPoint(12, 0))
    assert asked == ["https://example.com/a"]
    assert reader.toPlainText() == before
    assert not opened


def test_links_are_reached_by_keyboard() -> None:
    reader, asked = reader_with("before [label](https://example.com/a) after")
    reader.setFocus()
    QTest.keyClick(reader, Qt.Key.Key_Tab)
    QTest.keyClick(reader, Qt.Key.Key_Return)
    assert asked == ["https://example.com/a"]


def test_what_is_not_safe_is_not_asked_about() -> None:
    reader, asked = reader_with("x")
    for address in ("javascript:alert(1)", "file:///etc/hosts", "http://a@b.com", "x.html"):
        reader.anchorClicked.emit(QUrl(address))
        reader.setSource(QUrl(address))
    assert not asked
    assert reader.toPlainText() == "x"


def test_asking_shows_the_whole_address_and_its_host_in_punycode() -> None:
    path = "/" + "a" * 300
    asking = OpenLink(QUrl("https://\u0430\u0440\u0440\u04cf\u0435.com" + path), None)
    assert asking.findChild(QPlainTextEdit).toPlainText() == "https://xn--80ak6aa92e.com" + path
    assert any("xn--80ak6aa92e.com" in label.text() for label in asking.findChildren(QLabel))


@pytest.mark.parametrize(
    ("button", "expected"), [("Open", ["https://example.com/"]), ("Cancel", []), ("Copy Address", [])]
)
def test_only_consent_opens(button: str, expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str | None] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(encoded(url)))
    parent = QWidget()
    ask_to_open(parent, QUrl("https://example.com/"))
    (asking,) = parent.findChildren(OpenLink)
    (pressed,) = [b for b in asking.findChildren(QPushButton) if b.accessibleName() == button]
    pressed.click()
    assert opened == expected
    ask_to_open(parent, QUrl("file:///etc/hosts"))
    assert parent.findChildren(OpenLink) == [asking]
    if button == "Copy Address":
        assert QGuiApplication.clipboard().text() == "https://example.com/"
