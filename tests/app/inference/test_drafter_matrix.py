"""Every kind of drafter with every feature works, or is off and says why; models/drafters/README.md has the table."""

from pathlib import Path

import pytest

from models.drafters import KINDS, LOOKUP
from tests.programs.drafter_matrix import FEATURES, PAGE, TOYS, cells, column_of


def test_every_kind_of_the_registry_has_its_toy() -> None:
    assert {kind.name for kind in TOYS} == {LOOKUP, *(kind.name for kind in KINDS)}


@pytest.mark.slow_for("eagle3", "medusa", "mlp-speculator", "mtp", "dflash", "gemma4-assistant", "model")
@pytest.mark.parametrize("kind", TOYS, ids=lambda kind: kind.name)
def test_every_cell_is_as_the_page_says(kind: object, tmp_path: Path) -> None:
    """Where it is not: mend what is broken, or write the page anew by `python -m tests.programs.drafter_matrix`."""
    found = cells(kind, tmp_path)  # type: ignore[arg-type]
    assert found.keys() == FEATURES.keys()
    assert found == column_of(PAGE.read_text(), kind.name)  # type: ignore[attr-defined]
