"""Where things live on disk. Nothing is read from the environment here: app/ passes a root if the user set one."""

from pathlib import Path

from platformdirs import user_cache_path

BUILTIN = "builtin"  # what the built-in model is called


def cache_dir(root: Path | None = None) -> Path:
    """Returns the folder for what can be made again: `root`, else Redline's folder in the user's cache. Not created."""
    return root if root is not None else user_cache_path("redline", appauthor=False)


def models_dir(root: Path | None = None) -> Path:
    """Returns the folder with one MLX model folder per imported model. Names with a leading dot are unfinished work."""
    return cache_dir(root) / "models"


def exists(spec: str) -> bool:
    """Returns whether `spec` names a place on disk, whatever it holds."""
    try:
        return bool(spec) and Path(spec).exists()
    except (OSError, ValueError):  # too long, or with a NUL in it
        return False


def name_of(folder: Path) -> str:
    """Returns the name of a model's folder, also where it is given as `.` or `..`; a link's own name. Of a snapshot in
    the Hugging Face cache, the repository's without its owner."""
    if folder.parent.name == "snapshots" and folder.parents[1].name.startswith("models--"):
        return folder.parents[1].name.rpartition("--")[2]
    return (folder if folder.name not in ("", "..") else folder.resolve()).name
