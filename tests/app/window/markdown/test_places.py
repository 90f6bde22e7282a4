"""Every rendered character says which source character it came from."""

import re
from unicodedata import normalize

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from app.window.markdown.markdown_writer import IMAGE_NOTE
from app.window.markdown.text_formats import CODE_HEAD, KIND, LANGUAGE, MARKER, noted
from tests.app.window.markdown.documents import Shown, blocks, characters_of, each, rendered
from tests.app.window.markdown.texts import NOISE, documents

FORMULA = re.compile(r"\$|\\[(\[]")

pytestmark = pytest.mark.usefixtures("app")


def wrong(source: str) -> list[tuple[str, str]]:
    """Rendered characters that claim a source character they did not come from, or none."""
    found = []
    for block in blocks(rendered(source, each(source))):
        if block.blockFormat().property(KIND) == CODE_HEAD and not noted(block.blockFormat(), LANGUAGE):
            continue
        characters = list(characters_of(block))[int(block.blockFormat().property(MARKER) or 0) :]
        text = "".join(one.character for one in characters)
        at = text.find(IMAGE_NOTE)
        while at >= 0:
            characters[at : at + len(IMAGE_NOTE)] = []
            text = text.replace(IMAGE_NOTE, "", 1)
            at = text.find(IMAGE_NOTE)
        if not FORMULA.search(source):
            places = [one.token for one in characters if one.token is not None and source[one.token] != "&"]
            found += [("order", text)] if places != sorted(set(places)) else []
        found += [(one.character, text) for one in characters if not _is_right(one, source)]
    return found


def _is_right(one: Shown, source: str) -> bool:
    """Of an entity the ampersand counts, of a digit set small the digit. Signs of formulas come from macros."""
    if one.character.isspace() or (not one.character.isalnum() and FORMULA.search(source)):
        return True
    return one.token is not None and source[one.token] in (one.character, "&", normalize("NFKC", one.character))


@settings(max_examples=8, deadline=None)
@given(documents(4))
@example("> - a *b\n>   c* `d\n>   e`\n")
@example("- a\n\n\tb\n\n\t\tc\n")
@example("| a\\|b | `c\\|d` |\n|---|---|\n| \\\\| e |\n")
@example("1. # a\n   b\n   ===\n")
@example(">\ta\n>\t\tcode\n")
@example("* *a***b** c***\n")
@example("~~~~~a~~~~~ ~~b~\n")
def test_letters_claim_the_characters_they_came_from(source: str) -> None:
    assert not wrong(source)


@settings(max_examples=20, deadline=None)
@given(NOISE)
@example("*a* \nb")
@example("a\\*b **c")
@example("\t\t- a\n")
@example("- \ta\n -\tb\n\t\tc")
def test_letters_of_noise_claim_the_characters_they_came_from(source: str) -> None:
    assert not wrong(source)


# --- and every character that markdown-it renders is there ------------------------------------------


def letters_by_markdown_it(source: str) -> str:
    """Letters and digits of what plain markdown-it makes of `source`, with the words that are added to it."""
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    said = "".join(_said(token) for token in parser.parse(source))
    return "".join(character for character in said if character.isalnum())


def _said(token: Token) -> str:
    if token.type == "inline":
        return "".join(map(_said, token.children or []))
    if token.type == "image":
        return ("".join(map(_said, token.children or [])) or "image") + IMAGE_NOTE
    if token.type in ("fence", "code_block"):
        return (token.info.split() or ["code"])[0] + token.content
    return token.content


def letters_shown(source: str) -> str:
    """Of the document, markers of lists left out."""
    document = rendered(source)
    texts = [block.text()[int(block.blockFormat().property(MARKER) or 0) :] for block in blocks(document)]
    return "".join(character for character in "".join(texts) if character.isalnum())


NO_FORMULAS = st.one_of(documents(4), NOISE).filter(lambda source: not FORMULA.search(source))


@settings(max_examples=10, deadline=None)
@given(NO_FORMULAS)
@example("- [ ] a\n")
def test_no_letter_is_lost_and_none_made_up(source: str) -> None:
    assert letters_shown(source) == letters_by_markdown_it(source)
