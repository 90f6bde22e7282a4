"""Which kind of drafter a folder holds, and what its trees are expected to bring."""

from pathlib import Path

from models.disk import read_json_object
from models.heads.fields import Fields
from models.kinds import Kind, kind_of

__all__ = ["Kind", "kind_of", "tree_tau"]


def tree_tau(path: Path) -> dict[int, float]:
    """Mean acceptance length by the nodes of a tree, from 1, as measured when the head at `path` was made; empty where
    config.json does not say. Raises ModelError where it says nonsense."""
    config = Fields(path, read_json_object(path / "config.json")).part("redline")
    said = config.values.get("tree_tau", [])
    if not isinstance(said, list) or not all(type(tau) in (int, float) and tau >= 1 for tau in said):
        raise config.wrong("tree_tau", "a list of numbers from 1")
    return {nodes: float(tau) for nodes, tau in enumerate(said) if nodes}
