"""Speculative equals plain equals mlx-lm on every architecture that can be built: see `tests.sweep`."""

from pathlib import Path

import pytest

from tests.sweep import BEGIN, END, README, examine, names

KNOWN = {"muse_spark": "not built", "olmo": "not built", "phi3small": "refused"}


@pytest.mark.parametrize("name", names())
def test_every_architecture_is_exact_or_says_why_not(name: str) -> None:
    row = examine(name)
    assert row.verdict == KNOWN.get(name, "exact"), row.reason
    assert row.verdict == "exact" or row.reason


def test_the_readme_lists_every_architecture() -> None:
    section = Path(README).read_text().split(BEGIN)[1].split(END)[0]
    words = set(section.replace("|", " ").replace(",", " ").split())
    assert set(names()) <= words
