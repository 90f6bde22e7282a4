"""Blocks of Markdown that hold any text: one that viewers show collapsed, and a fenced one that the text cannot end."""


def details_block(summary: str, text: str) -> str:
    """Returns a block that viewers of Markdown show collapsed under its summary, with the text in a fence."""
    return f"<details><summary>{summary}</summary>\n\n{fenced(text)}\n\n</details>"


def fenced(text: str) -> str:
    """Returns `text` in a fence longer than any that it contains."""
    longest = max((len(line) - len(line.lstrip("`")) for line in text.splitlines()), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"
