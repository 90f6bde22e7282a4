"""The tiny model, put where models lie."""

from pathlib import Path

from models.local.locations import ModelLocations
from tests.models.hub.tiny import NAME, tiny, wanted


def places_in(root: Path) -> ModelLocations:
    """Places with nothing in them."""
    return ModelLocations(root / "hub", (root / "lmstudio" / "models",), root / "cache" / "models", root / "cache")


def write_folder(folder: Path) -> Path:
    """Write the tiny model into an ordinary folder."""
    folder.mkdir(parents=True)
    for name, data in wanted(tiny()).items():
        (folder / name).write_bytes(data)
    return folder


def write_in_hub(cache: Path, name: str = NAME, config: bytes = b"", main: bool = True) -> Path:
    """Write it into the Hugging Face cache as another tool would: blobs, links, a ref. config: more bytes for its
    config.json, which makes it another revision. main: whether main means it."""
    repo = tiny(name)
    repo.files["config.json"] += config
    root = cache / f"models--{name.replace('/', '--')}"
    folder = root / "snapshots" / repo.commit
    for part in (folder, root / "blobs", root / "refs"):
        part.mkdir(parents=True, exist_ok=True)
    for file, data in wanted(repo).items():
        (root / "blobs" / repo.etag(file)).write_bytes(data)
        (folder / file).symlink_to(f"../../blobs/{repo.etag(file)}")
    if main:
        (root / "refs" / "main").write_text(repo.commit)
    return folder
