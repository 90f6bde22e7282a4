"""What was probably meant by a word that is not known."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Returns the end of an error about the word `given`: the known word that looks like it, or "" if none does."""
    close = get_close_matches(given, [word for word in known if word != given], n=1)
    return f"; did you mean {close[0]}?" if close else ""
