"""Search finds what people type, in titles and texts, and nothing that they type is syntax."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.store import Store
from app.store.message_search import fold, matches_in, snippet_of, terms_of
from app.store.records import Attachment, Ending, SearchHit
from app.store.shown_text import shown_text
from tests.app.store.toys import SETTINGS, converse, prose, round_done, say


def put(store: Store, *texts: str, title: str = "") -> list[int]:
    """A conversation with these questions; their ids."""
    conversation = store.create(SETTINGS).id
    store.rename(conversation, title)
    return [store.add_question(conversation, None, text).id for text in texts]


def said(store: Store, text: str, question: str = "Well?") -> tuple[int, int]:
    """Returns the ids of a question and of a reply with this text."""
    asked = store.add_question(store.create(SETTINGS).id, None, question)
    return asked.id, say(store, asked.conversation, asked.id, [round_done(0, [text])]).id


def found(store: Store, query: str) -> list[int | None]:
    return [hit.message for hit in store.search(query)]


def marked(hit: SearchHit) -> list[str]:
    return [hit.snippet[start : start + length] for start, length in hit.matches]


MEANT = [
    ("spec", "Speculative decoding"),
    ("DECODING specul", "Speculative decoding"),
    ("CAFÉ", "un cafe"),
    ("cafe\u0301", "un café"),
    ("naïve", "nai\u0308ve"),
    ("istanbul", "İSTANBUL"),
    ("file", "the \ufb01le"),
    ("don't", "they don\u2019t"),
    ("\u201csmart quotes\u201d", "with smart quotes"),
    ('"in a row"', "words in a\nrow"),
    ("main()", "def main():\n    pass"),
    ("a_b->c", "x = a_b->c;"),
    ("東京", "私は東京に住む"),
    ("ガ", "カ\u3099ラス"),
    ("мир", "Привет, МИР!"),
    ("🙂", "hello 🙂"),
    ("👍🏽", "yes 👍🏽"),
    ('say "hi', 'to say "hi" twice'),
    ("soft\u00adhyphen", "softhyphen"),
]


def test_what_people_type_finds_what_they_mean(store: Store) -> None:
    for query, text in MEANT:
        wanted = put(store, "nothing of it, кот", text, "nor here")[1]
        hits = store.search(query)
        assert [hit.message for hit in hits] == [wanted] and hits[0].matches, query
        store.delete(hits[0].conversation)


def test_different_letters_are_not_the_same(store: Store) -> None:
    put(store, "カラス 9 ab-c")
    for query in ("ガラス", "abc", "x"):
        assert found(store, query) == []


HOSTILE = ['"', "'", '""', "* OR 1", "NEAR(", "a AND", "^x", "folded:", "-", "(", "\0", "%", "_", "\\", "'; DROP TABLE",
           "a" * 100_000, "a b " * 1000, '"' * 1000, "\ud800", "🙂" * 500, "\u0301", " \n\t ", ""]  # fmt: skip


def test_hostile_queries_find_only_what_contains_them(store: Store) -> None:
    put(store, "an ordinary text with words")
    for query in HOSTILE:
        assert found(store, query) == [], query
        (containing,) = put(store, f"x{query}y")
        assert set(found(store, query)) <= {containing}
        store.delete(store.conversations()[0].id)


@pytest.mark.slow
def test_every_query_finds_exactly_the_messages_that_contain_it(store: Store) -> None:
    """Against the definition, over all of Unicode."""

    @settings(deadline=None)
    @given(st.lists(st.text(max_size=12), max_size=6), st.text(max_size=6))
    def check(texts: list[str], query: str) -> None:
        ids = put(store, *texts)
        terms = terms_of(query)
        expected = [id for id, text in zip(ids, texts, strict=True) if terms and all(t in fold(text) for t in terms)]
        assert found(store, query) == expected[::-1]
        store.delete(store.conversations()[0].id)

    check()


def test_replies_attachments_and_titles_are_found(store: Store) -> None:
    conversation = converse(store, 1)
    question, reply = store.path(conversation)
    store.rename(conversation, "About the sky")
    file = store.add_question(conversation, reply.id, "See", [Attachment(name="log.txt", text="x\nSegmentation fault")])
    assert found(store, "blue today") == [reply.id]
    assert found(store, "log.txt segm") == [file.id]
    hits = store.search("sky")
    assert [hit.message for hit in hits] == [None, reply.id, question.id]
    assert (hits[0].conversation, hits[0].title, hits[0].snippet, hits[0].matches) == (
        *(conversation, "About the sky", "See"),  # the last message, since the title is shown anyway
        ((10, 3),),
    )
    assert {hit.title for hit in hits} == {"About the sky"}


def test_the_newest_come_first_and_no_more_than_asked(store: Store) -> None:
    ids = put(store, *[f"needle {n}" for n in range(20)])
    assert [hit.message for hit in store.search("needle", 7)] == ids[:-8:-1]
    assert store.search("needle", 0) == []
    store.rename(store.conversations()[0].id, "needle")
    assert [hit.message for hit in store.search("needle", 2)] == [None, ids[-1]]


def test_deleted_conversations_are_not_found_until_they_are_back(store: Store) -> None:
    (message,) = put(store, "needle", title="haystack")
    conversation = store.conversations()[0].id
    store.delete(conversation)
    assert store.search("needle") == store.search("haystack") == []
    store.undelete(conversation)
    assert found(store, "needle") == [message]
    store.delete(conversation)
    store.purge()
    assert store.search("needle") == []


def test_a_reply_that_goes_on_is_found_by_all_of_it(store: Store) -> None:
    conversation = converse(store, 0)
    reply = say(store, conversation, store.add_question(conversation, None, "?").id)
    store.resume_reply(reply.id)
    store.append(reply.id, [round_done(9, [" And grey", " tomorrow."])])
    store.end_reply(reply.id, Ending("complete"))
    assert found(store, "blue tomorrow") == [reply.id]


def test_snippets_show_the_match_and_say_where() -> None:
    text = f"{prose(1, 300)}\n\nHere the NÉEDLE\tlies. {prose(2, 300)}"
    snippet, matches = snippet_of(text, ["needle"])
    assert snippet.startswith("…") and snippet.endswith("…") and len(snippet) < 180
    assert "\n" not in snippet and "Here the NÉEDLE lies." in snippet
    assert [snippet[start : start + length] for start, length in matches] == ["NÉEDLE"]
    assert snippet_of("all of a short text", ["short"]) == ("all of a short text", ((9, 5),))


@settings(deadline=None)
@given(st.text(max_size=30), st.text(min_size=1, max_size=3))
def test_matches_are_places_in_the_text_itself(text: str, term: str) -> None:
    terms = terms_of(term)
    for start, length in matches_in(text, terms):
        assert 0 <= start < start + length <= len(text)
        assert any(term in fold(text[start : start + length]) for term in terms)


def test_overlapping_matches_are_one() -> None:
    assert matches_in("abcabd", ["abc", "ca"]) == ((0, 4),)
    assert matches_in("ﬁx", ["f"]) == matches_in("ﬁx", ["i"]) == ((0, 1),)
    assert marked(
        SearchHit(conversation=1, title="", message=1, snippet="ab ab", matches=matches_in("ab ab", ["b"]))
    ) == [*("b", "b")]


# --- replies are found as they are shown ------------------------------------------------------

REPLY = (
    "the **brain *research*** is [documented](https://hidden.example/address) and ~~not~~ `x_y*z`\n\n"
    "# A **big** heading\n\n| cell | 大脑**研究**是 |\n|--|--|\n| H<sub>2</sub>O<br>wet | ![a picture](img.png) |\n\n"
    "**结论\uff1a**该方法 <https://seen.example> 2 * 3 * 4\n\n```py\ny = x**2 + __init__\n```\n"
)


@pytest.mark.parametrize(
    "query",
    [
        '"brain research is documented and not x_y*z"',
        '"a big heading"',
        "大脑研究是",
        "h2o",
        '"a picture"',
        "结论\uff1a该方法",
        "https://seen.example",
        '"2 * 3 * 4"',
        '"x**2 + __init__"',
    ],
)
def test_a_reply_is_found_across_its_marks(store: Store, query: str) -> None:
    _, reply = said(store, REPLY)
    hits = store.search(query)
    assert [hit.message for hit in hits] == [reply]
    assert "**brain" not in hits[0].snippet and marked(hits[0])


def test_what_a_reply_hides_is_not_found_and_a_question_is_searched_as_it_was_typed(store: Store) -> None:
    question, _ = said(store, REPLY, "What is **x**?")
    assert found(store, "hidden.example") == found(store, "img.png") == found(store, "<sub>") == []
    assert found(store, "**x**?") == [question]


@pytest.mark.parametrize("written", ["价格*数量", "$x*y*z$", "$USER/$HOST", "2 * 3 * 4"])
def test_signs_that_are_no_marks_stay(written: str) -> None:
    assert shown_text(written).strip() == written


def test_long_and_hostile_texts_are_shown_within_their_time() -> None:
    long = "a **b** c.\n\n" * 30_000
    assert shown_text(long).split() == ["a", "b", "c."] * 30_000
    for hostile in ("*a " * 100_000, "[" * 100_000, "> " * 20_000 + "x", "`" * 100_001, "| a " * 50_000):
        assert len(shown_text(hostile)) <= 2 * len(hostile)
