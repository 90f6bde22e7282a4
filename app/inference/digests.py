"""What is kept of the state that a reply began in, to know it again: its prompt's ids and its model's weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path

from models.model_folder import ModelFolder

_SIZE = 8  # bytes of a digest
_SAMPLES, _SAMPLE = 256, 4096  # of the weights, evenly, and bytes of each: a megabyte is read
_BETWEEN = "."


def of_prompt(prompt: Sequence[int]) -> str:
    """Tells whether two prompts are the same ids, and nothing else of them."""
    return blake2b(b"".join(token.to_bytes(4, "little") for token in prompt), digest_size=_SIZE).hexdigest()


def of_model(folder: ModelFolder) -> str:
    """`of_files`, of a target or a draft model."""
    return of_files(folder.path, folder.weights)


def of_files(folder: Path, weights: Sequence[Path]) -> str:
    """Tells other weights, or another config.json, from those that there were, wherever the folder stands. Of each file
    of weights its name, size, beginning (a header that names the tensors) and samples: training changes them
    everywhere. "" where the files cannot be read any more.
    """
    try:
        digest = blake2b((folder / "config.json").read_bytes(), digest_size=_SIZE)
        for path in sorted(weights):
            for part in _parts(path, max(4, _SAMPLES // len(weights))):
                digest.update(part)
    except OSError:
        return ""
    return digest.hexdigest()


def _parts(path: Path, samples: int) -> Iterator[bytes]:
    size = path.stat().st_size
    yield f"{path.name}:{size}".encode()
    with path.open("rb") as file:
        for sample in range(samples):
            file.seek(size * sample // samples)
            yield file.read(_SAMPLE)


def together(prompt: str, model: str) -> str:
    """As a reply keeps them."""
    return f"{prompt}{_BETWEEN}{model}"


def apart(kept: str) -> tuple[str, str]:
    """(prompt, model) as they were kept, "" for what was not."""
    prompt, _, model = kept.partition(_BETWEEN)
    return prompt, model
