"""The drafters that come with Redline, for the built-in model: folders in resources/drafters."""

from importlib import resources
from pathlib import Path

from engine.errors import ModelError

SHIPPED = ("eagle3", "medusa", "draft")


def shipped_folder(name: str) -> Path:
    """The folder of the shipped drafter `name`. Raises ModelError when it is not there."""
    folder = _folder(name)
    if not (folder / "config.json").is_file():
        raise ModelError(f"redline's own drafter {name!r} is missing: install redline again, or take another")
    return folder


def is_shipped(name: str) -> bool:
    """Whether `name` is one of `SHIPPED` and there."""
    return name in SHIPPED and (_folder(name) / "config.json").is_file()


def _folder(name: str) -> Path:
    return Path(str(resources.files("resources"))) / "drafters" / name
