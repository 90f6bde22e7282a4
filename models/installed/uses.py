"""When a model was last used: a small file that every process of Redline may write."""

import os
import time
from pathlib import Path

from filelock import FileLock

from engine.errors import ModelError
from models.disk import read_json_object, replace_json
from models.paths import cache_dir

_NAME = "models-used.json"
_LOCK_WAIT_S = 5.0


def note_use(folder: Path, root: Path | None = None, now_s: float | None = None) -> None:
    """Remember that the model in `folder` is used now; folders that are gone are forgotten. now_s: seconds since the
    epoch. Raises OSError."""
    record = cache_dir(root) / _NAME
    record.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(record.with_name(f".{_NAME}.lock"), timeout=_LOCK_WAIT_S):
        uses = {path: used_s for path, used_s in read_uses(root).items() if Path(path).is_dir()}
        uses[os.path.realpath(folder)] = time.time() if now_s is None else now_s
        replace_json(record, {"used_s": uses})


def read_uses(root: Path | None = None) -> dict[str, float]:
    """Seconds since the epoch, by the real path of the folder. What cannot be read was never used."""
    try:
        used = read_json_object(cache_dir(root) / _NAME).get("used_s")
    except ModelError:
        return {}
    if not isinstance(used, dict):
        return {}
    return {path: float(used_s) for path, used_s in used.items() if type(used_s) in (int, float)}
