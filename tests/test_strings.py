"""What users read is plain English; `python -m tests.strings` prints all of it on one page."""

import re

import pytest

from tests.strings import texts

pytestmark = pytest.mark.style

# Words of an earlier private language, and riddles that nobody says.
STRANGE = re.compile(
    r"\b(whoever|whose turn|the law|laws? of|chances that|nobody|somebody|serves? it|is told|was told"
    r"|is asked|were asked|not sure to|comes? of|of late|hitherto|beforehand what|purse|drafting would not pay)\b",
    re.IGNORECASE,
)


def test_the_strings_of_the_interface_use_the_words_of_the_glossary() -> None:
    found = texts("app", "models", "engine")
    assert len(found) > 500
    assert not [f"{text.file}:{text.line} {text.text}" for text in found if STRANGE.search(text.text)]


def test_no_string_of_the_interface_has_odd_spacing_or_dots() -> None:
    odd = re.compile(r"\S  \S|\.\.\.(?!\})(?<!\{\.\.\.)| [,.;:!?](\s|$)")
    assert not [f"{text.file}:{text.line} {text.text!r}" for text in texts("app/window") if odd.search(text.text)]
