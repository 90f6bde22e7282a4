"""Markdown at random: what a model may write, and what it may not."""

from hypothesis import strategies as st

WORDS = st.text("abcdefghijklmnopqrstuvwxyzABCXYZ0123456789äßéλ中文😀", min_size=1, max_size=8)
MARKS = st.sampled_from(
    ["*", "**", "_", "__", "~~", "`", "``", "[", "](", ")", "!", "\\", "&amp;", "&#65;", "<b>", "$", "|"]
)


@st.composite
def lines(draw: st.DrawFn) -> str:
    """A line of words, with marks that match."""
    return " ".join(draw(st.lists(_parts(), min_size=1, max_size=6)))


def _parts() -> st.SearchStrategy[str]:
    return st.one_of(
        WORDS,
        WORDS,
        WORDS.map(lambda word: f"**{word}**"),
        WORDS.map(lambda word: f"*{word} {word}*"),
        WORDS.map(lambda word: f"***{word}***"),
        WORDS.map(lambda word: f"~~{word}~~"),
        WORDS.map(lambda word: f"`{word}`"),
        WORDS.map(lambda word: f"`` {word}`x ``"),
        WORDS.map(lambda word: f"[{word} *{word}*](http://example.com/{len(word)})"),
        WORDS.map(lambda word: f"![{word} **b**](x.png)"),
        WORDS.map(lambda word: f"<https://example.com/{len(word)}>"),
        WORDS.map(lambda word: f"\\*{word}\\_ \\q"),
        WORDS.map(lambda word: f"{word}&amp;{word}&copy;{word}"),
        WORDS.map(lambda word: f"{word}  \n{word}"),
        WORDS.map(lambda word: f"{word}\\\n{word}"),
        st.tuples(WORDS, MARKS).map("".join),
        st.tuples(MARKS, WORDS).map("".join),
    )


def _indented(text: str, first: str, rest: str) -> str:
    head, *tail = text.split("\n")
    return "\n".join([first + head, *(rest + line if line else rest.rstrip() for line in tail)])


def _quoted(text: str) -> str:
    return _indented(text, "> ", "> ")


def _listed(items: list[str], marker: str, loose: bool) -> str:
    gap = "\n\n" if loose else "\n"
    return gap.join(_indented(item, marker, " " * len(marker)) for item in items)


@st.composite
def tables(draw: st.DrawFn) -> str:
    """Some with pipes that are escaped, some with rows too short."""
    columns = draw(st.integers(1, 4))
    cells = st.one_of(
        _parts().filter(lambda part: "\n" not in part and "|" not in part), WORDS.map(lambda w: f"{w}\\|{w}")
    )
    rows = draw(st.lists(st.lists(cells, min_size=1, max_size=columns), min_size=1, max_size=4))
    head = draw(st.lists(WORDS, min_size=columns, max_size=columns))
    marks = draw(st.lists(st.sampled_from(["---", ":--", "--:", ":-:"]), min_size=columns, max_size=columns))
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, marks, *rows])


def leaves() -> st.SearchStrategy[str]:
    """Blocks without blocks in them."""
    return st.one_of(
        lines(),
        lines(),
        st.lists(lines(), min_size=2, max_size=3).map("\n".join),
        st.tuples(st.integers(1, 6), lines()).map(lambda pair: "#" * pair[0] + " " + pair[1].replace("\n", " ")),
        lines().map(lambda line: line.replace("\n", " ") + "\n==="),
        st.lists(WORDS, max_size=4).map(
            lambda words: "```python\n" + "\n".join(f"  {w} = {w}" for w in words) + "\n```"
        ),
        st.lists(WORDS, min_size=1, max_size=3).map(lambda words: "\n".join(f"    {word}" for word in words)),
        tables(),
        st.just("---"),
        WORDS.map(lambda word: f"$$\n{word}^2\n$$"),
    )


def documents(most: int = 6) -> st.SearchStrategy[str]:
    """Blocks within blocks, between empty lines or, at times, not."""
    blocks = st.recursive(
        leaves(),
        lambda inner: st.one_of(
            inner.map(_quoted),
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: _quoted("\n\n".join(parts))),
            st.builds(
                _listed,
                st.lists(st.lists(inner, min_size=1, max_size=2).map("\n\n".join), min_size=1, max_size=4),
                st.sampled_from(["- ", "* ", "1. ", "7) ", "10. ", "- [ ] ", "-   "]),
                st.booleans(),
            ),
        ),
        max_leaves=5,
    )
    return st.lists(
        st.tuples(blocks, st.sampled_from(["\n\n", "\n\n", "\n\n", "\n", "\n\n\n"])), min_size=1, max_size=most
    ).map(lambda pairs: "".join(block + gap for block, gap in pairs))


# What comes when nobody takes care: marks, indents and words in any order.
_INDENTS = [" ", "  ", "    ", "\t", "\n", "\n\n"]
_BEGINNINGS = ["- ", "1. ", "> ", "# ", "```\n", "~~~", "---", "$$\n", "\\[\n", "===\n"]
NOISE = st.lists(st.one_of(WORDS, MARKS, st.sampled_from(_INDENTS + _BEGINNINGS)), max_size=40).map("".join)
