"""Messages of the engine and the hub are shown as sentences."""

import pytest

from app.window.common.sentence import sentence, without_backticks


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("lookup does not fit", "Lookup does not fit."),
        (" the engine stopped. ", "The engine stopped."),
        ("which one?", "Which one?"),
        ("config.json is missing", "config.json is missing."),
        (
            "o/model is not on this machine: `redline models pull o/model` fetches it",
            "o/model is not on this machine: redline models pull o/model fetches it.",
        ),
        ("`redline doctor` says why", "Redline doctor says why."),
        ("gpt-oss-120b does not fit", "gpt-oss-120b does not fit."),
        ("me@studio cannot be reached", "me@studio cannot be reached."),
        ("iTerm is in the way", "iTerm is in the way."),
        ("no folder here is called 'a`b`c'", "No folder here is called 'a`b`c'."),
        ("", ""),
        (" ", ""),
    ],
)
def test_a_message_is_shown_as_a_sentence_without_backticks(message: str, shown: str) -> None:
    assert sentence(message) == shown


def test_a_note_loses_its_backticks_only() -> None:
    assert without_backticks("small, `redline models pairs` says why") == "small, redline models pairs says why"
