"""Digests that recognise what a reply was made with: the ids of its prompt and the weights of its model."""

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from models.model_folder import ModelFolder

_SIZE = 8  # bytes of a digest
_SAMPLES, _SAMPLE_BYTES = 256, 4096  # of all weights together: a megabyte is read


def of_prompt(prompt: Sequence[int]) -> str:
    """Returns the digest of a prompt's ids."""
    return blake2b(b"".join(token.to_bytes(4, "little") for token in prompt), digest_size=_SIZE).hexdigest()


def of_model(folder: ModelFolder) -> str:
    """Returns the digest of a target or a draft model."""
    return of_files(folder.path, folder.weights)


def of_folder(folder: Path) -> str:
    """Returns the digest of any drafter with files."""
    return of_files(folder, list(folder.glob("*.safetensors")))


def of_files(folder: Path, weights: Sequence[Path]) -> str:
    """Returns a digest of config.json and `weights`, wherever the folder is: of each file its name, size, and samples
    from its beginning on, as training changes weights everywhere. "" where the files cannot be read any more."""
    try:
        digest = blake2b((folder / "config.json").read_bytes(), digest_size=_SIZE)
        for path in sorted(weights):
            size, samples = path.stat().st_size, max(4, _SAMPLES // len(weights))
            digest.update(f"{path.name}:{size}".encode())
            with path.open("rb") as file:
                for sample in range(samples):
                    file.seek(size * sample // samples)
                    digest.update(file.read(_SAMPLE_BYTES))
    except OSError:
        return ""
    return digest.hexdigest()
