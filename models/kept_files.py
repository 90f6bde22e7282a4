"""Small files of which a folder keeps the latest, such as what a measurement found: what is not there is made again."""

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from models.durable_files import keep_newest, replace_file


@dataclass(frozen=True)
class KeptFiles:
    """The files in `folder`, one for each key, of which the `most` that were written last are kept. A key says what the
    content depends on. A disk that refuses costs only the time to make the content again."""

    folder: Path
    most: int

    def read(self, key: str) -> bytes | None:
        """Returns the content for a key, None where there is none that can be read."""
        with suppress(OSError):
            return self._path(key).read_bytes()
        return None

    def write(self, key: str, content: bytes) -> None:
        """Keeps the content for a key, and removes files that have not been written for longest."""
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            replace_file(self._path(key), content)
            keep_newest(self.folder.glob("[!.]*.json"), self.most)

    def _path(self, key: str) -> Path:
        return self.folder / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"
