"""Where things live on disk. Nothing is read from the environment here: app/ passes a root if the user set one."""

from pathlib import Path

from platformdirs import user_cache_path


def cache_dir(root: Path | None = None) -> Path:
    """The folder for what can be made again: `root`, else the user's cache folder for Redline. Not created here."""
    return root if root is not None else user_cache_path("redline", appauthor=False)


def models_dir(root: Path | None = None) -> Path:
    """The folder with one MLX model folder per imported model. Names that start with a dot are unfinished work."""
    return cache_dir(root) / "models"


def name_of(folder: Path) -> str:
    """What to call a model's folder, also where it is given as `.` or `..`; a link by its own name."""
    return (folder if folder.name not in ("", "..") else folder.resolve()).name
