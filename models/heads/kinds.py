"""Which kind of drafter a folder holds, and what it is expected to bring."""

from pathlib import Path

from models.disk import read_json_object
from models.heads.fields import Fields
from models.kinds import Kind, kind_of

__all__ = ["Kind", "acceptance", "kind_of", "tree_tau"]


def acceptance(path: Path) -> tuple[float, ...]:
    """The chance of each drafted token to be kept where those before it were, as measured when the drafter at `path`
    was made; empty where config.json does not say. Raises ModelError where it says nonsense."""
    config = _said(path)
    said = config.values.get("acceptance_by_position", [])
    if not isinstance(said, list) or not all(type(chance) in (int, float) and 0 <= chance <= 1 for chance in said):
        raise config.wrong("acceptance_by_position", "a list of numbers from 0 to 1")
    return tuple(map(float, said))


def tree_tau(path: Path) -> dict[int, float]:
    """Mean acceptance length by the nodes of a tree, from 1, as measured when the head at `path` was made; empty where
    config.json does not say. Raises ModelError where it says nonsense."""
    config = _said(path)
    said = config.values.get("tree_tau", [])
    if not isinstance(said, list) or not all(type(tau) in (int, float) and tau >= 1 for tau in said):
        raise config.wrong("tree_tau", "a list of numbers from 1")
    return {nodes: float(tau) for nodes, tau in enumerate(said) if nodes}


def _said(path: Path) -> Fields:
    """What config.json says under "redline"."""
    return Fields(path, read_json_object(path / "config.json")).part("redline")
