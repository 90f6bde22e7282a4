"""Texts per token, and stop strings, whatever rounds the tokens come in."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.events import Round
from engine.reply_text import ReplyText
from tests.engine.fakes import ByteStream


def round_of(tokens: Sequence[int], index: int = 0) -> Round:
    """A round in which all but the last token were drafted."""
    accepted = len(tokens) - 1
    chances = tuple(0.5 for _ in tokens)
    return Round(index, tuple(tokens), tuple(tokens[:-1]), accepted, chances, chances[:-1], len(tokens), 0.0)


def rounds_of(pieces: int, sizes: Sequence[int]) -> list[Round]:
    """Tokens 0, 1, 2, ... (each its own id) in rounds of the given sizes, the last taking the rest."""
    rounds, start = [], 0
    for size in sizes:
        if start + size < pieces:
            rounds.append(round_of(range(start, start + size), len(rounds)))
            start += size
    return [*rounds, round_of(range(start, pieces), len(rounds))]


class TextRecord:
    """Everything a ReplyText told of `pieces`, and when."""

    def __init__(self, pieces: Sequence[bytes], stops: Sequence[str], sizes: Sequence[int] = ()) -> None:
        reply = ReplyText(ByteStream(pieces), stops)
        self.rounds: list[Round] = []
        self.after: list[int] = []  # how many rounds were told after each push
        for round_ in rounds_of(len(pieces), sizes):
            self.rounds += reply.push(round_)
            self.after.append(len(self.rounds))
            if reply.stopped:
                break
        rest, self.tail = reply.finish()
        self.rounds += rest
        self.stopped, self.count = reply.stopped, reply.tokens
        self.texts = [text for r in self.rounds for text in r.texts]
        self.tokens = [token for r in self.rounds for token in r.tokens]
        self.text = "".join(self.texts) + self.tail


def pieces_of(*texts: str) -> list[bytes]:
    return [text.encode() for text in texts]


ONES = [1] * 30


def test_each_token_has_the_text_it_completed() -> None:
    told = TextRecord(pieces_of("Hel", "lo", "", " you"), [], [2])
    assert told.texts == ["Hel", "lo", "", " you"]
    assert [r.texts for r in told.rounds] == [("Hel", "lo"), ("", " you")]
    assert (told.tail, told.stopped, told.count) == ("", False, 4)


def test_a_character_belongs_to_the_token_that_completes_it() -> None:
    euro = "€".encode()
    told = TextRecord([b"a", euro[:1], euro[1:2], euro[2:] + b"b", b"c"], [], [2])
    assert told.texts == ["a", "", "", "€b", "c"]


def test_a_character_that_stays_unfinished_is_told_at_the_end() -> None:
    told = TextRecord([b"a", "€".encode()[:2]], [], ONES)
    assert (told.texts, told.tail) == (["a", ""], "?")


@pytest.mark.parametrize("sizes", [[], ONES, [2, 2], [3, 1]])
@pytest.mark.parametrize(
    ("texts", "stops", "wanted", "count"),
    [
        (["one", " ST", "OP two", "three"], ["STOP"], ["one", " ", ""], 3),
        (["STOP", "two"], ["STOP"], [""], 1),
        (["abcd", "e"], ["cd", "bc"], ["a"], 1),
        (["xab", "cd", "e"], ["abcd", "bc"], ["x", ""], 2),
        (["xab", "c", "d"], ["abcd", "bc"], ["xa", ""], 2),
        (["ST", "ONE", "S", "T", "x"], ["STOP"], ["ST", "ONE", "S", "T", "x"], 5),
        (["a", "aa", "b", "c"], ["aab"], ["a", "", ""], 3),
        (["one", "ST"], ["STOP"], ["one", "ST"], 2),
    ],
)
def test_the_text_ends_before_the_stop(
    texts: list[str], stops: list[str], wanted: list[str], count: int, sizes: list[int]
) -> None:
    told = TextRecord(pieces_of(*texts), stops, sizes)
    assert told.texts == wanted
    assert told.count == count == len(told.tokens)
    assert told.stopped == (len(texts) > count)
    assert told.tail == ""


def test_a_stop_cuts_its_round_and_what_it_says_of_the_cut_tokens() -> None:
    reply = ReplyText(ByteStream(pieces_of("a", "b", "END", "c", "d")), ["END"])
    (told,) = reply.push(round_of(range(5)))
    assert (told.tokens, told.texts, told.accepted) == ((0, 1, 2), ("a", "b", ""), 3)
    assert (len(told.p), told.drafted) == (3, (0, 1, 2, 3))


def test_a_stop_on_the_targets_own_token_does_not_count_it_as_accepted() -> None:
    reply = ReplyText(ByteStream(pieces_of("a", "b", "END")), ["END"])
    (told,) = reply.push(round_of(range(3)))
    assert told.accepted == 2
    assert told.origins == ("accepted", "accepted", "bonus")


# --- any pieces, any stops, any rounds -----------------------------------------------------------

ALPHABET = "abé"
PIECES = st.lists(
    st.text(ALPHABET, max_size=4).map(str.encode) | st.sampled_from([b"\xc3", b"\xa9"]), min_size=1, max_size=14
)
SIZES = st.lists(st.integers(1, 5), max_size=14)


@st.composite
def replies(draw: st.DrawFn) -> tuple[list[bytes], list[str], list[int]]:
    """Pieces, stops and sizes of rounds. Most stops stand in the text, or nearly."""
    pieces = draw(PIECES)
    text = b"".join(pieces).decode(errors="replace")
    places = st.tuples(st.integers(0, len(text)), st.integers(1, 5), st.sampled_from(["", "", "a"]))
    cut = places.map(lambda place: text[place[0] : place[0] + place[1]] + place[2])
    stops = draw(st.lists((cut | st.text(ALPHABET, max_size=5)).filter(bool), max_size=3))
    return pieces, stops, draw(SIZES)


def expected(pieces: Sequence[bytes], stops: Sequence[str]) -> tuple[str, int]:
    """The text up to the first stop and how many tokens it takes to complete one, token after token."""
    stream, text = ByteStream(pieces), ""
    for i in range(len(pieces)):
        text += stream.push(i)
        found = [text.index(s) for s in stops if s in text]
        if found:
            return text[: min(found)], i + 1
    return text + stream.finish(), len(pieces)


def unsure(text: str, stops: Sequence[str]) -> int:
    """Length of the longest end of `text` with which a stop begins but does not end."""
    return max(
        (n for n in range(1, len(text) + 1) for s in stops if len(s) > n and s.startswith(text[-n:])),
        default=0,
    )


@settings(deadline=None, max_examples=200, derandomize=True)
@given(replies())
def test_the_reply_is_the_same_for_all_rounds(reply: tuple[list[bytes], list[str], list[int]]) -> None:
    pieces, stops, sizes = reply
    told = TextRecord(pieces, stops, sizes)
    text, count = expected(pieces, stops)
    assert told.text == text
    assert told.count == count
    assert told.tokens == list(range(count))
    alone = TextRecord(pieces, stops, [1] * len(pieces))
    assert (told.texts, told.tail, told.stopped) == (alone.texts, alone.tail, alone.stopped)


@settings(deadline=None, max_examples=150, derandomize=True)
@given(replies())
def test_a_round_is_told_as_soon_as_none_of_its_text_can_belong_to_a_stop(
    case: tuple[list[bytes], list[str], list[int]],
) -> None:
    pieces, stops, sizes = case
    reply, stream = ReplyText(ByteStream(pieces), stops), ByteStream(pieces)
    text, told, ends = "", 0, []
    for round_ in rounds_of(len(pieces), sizes):
        text += "".join(stream.push(token) for token in round_.tokens)
        ends.append(len(text))
        told += len(reply.push(round_))
        if reply.stopped:
            return
        certain = len(text) - unsure(text, stops)
        assert told == next((i for i, end in enumerate(ends) if end > certain), len(ends))
