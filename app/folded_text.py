"""Text that viewers of Markdown show folded, and text in a fence that nothing in it ends."""

from __future__ import annotations


def folded(summary: str, text: str) -> str:
    """Returns text that viewers of Markdown show folded under a line: in a fence, so that nothing in it ends that."""
    return f"<details><summary>{summary}</summary>\n\n{fenced(text)}\n\n</details>"


def fenced(text: str) -> str:
    """Returns `text` in a fence longer than any that it contains."""
    longest = max((len(line) - len(line.lstrip("`")) for line in text.splitlines()), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"
