"""Where things live on disk. Nothing is read from the environment here: app/ passes a root if the user set one."""

from pathlib import Path

from platformdirs import user_cache_path


def cache_dir(root: Path | None = None) -> Path:
    """Returns the folder for what can be made again: `root`, else Redline's folder in the user's cache. Not created."""
    return root if root is not None else user_cache_path("redline", appauthor=False)


def models_dir(root: Path | None = None) -> Path:
    """Returns the folder with one MLX model folder per imported model. Names with a leading dot are unfinished work."""
    return cache_dir(root) / "models"


def name_of(folder: Path) -> str:
    """Returns the name of a model's folder, also where it is given as `.` or `..`; a link's own name."""
    return (folder if folder.name not in ("", "..") else folder.resolve()).name
