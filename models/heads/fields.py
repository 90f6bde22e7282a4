"""The fields of a head's config.json, read with suspicion: what is there is of the right type, or a ModelError."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ModelError


@dataclass(frozen=True)
class Fields:
    """path: of the folder, for messages. values: of the file, or of an object within it. One that is null says nothing:
    NVIDIA's ModelOpt writes it for what neither of its configs has (`modelopt/torch/export/plugins/hf_spec_export.py`).
    """

    path: Path
    values: Mapping[str, Any]

    def get(self, key: str, otherwise: Any = None) -> Any:
        """The value, whatever it is; `otherwise` where there is none."""
        value = self.values.get(key)
        return otherwise if value is None else value

    def count(self, key: str, otherwise: int | None = None) -> int:
        """A whole number above 0. Raises ModelError where it is missing and there is no `otherwise`."""
        value = self.get(key, otherwise)
        if type(value) is not int or value < 1:
            raise self.wrong(key, "a whole number above 0")
        return value

    def number(self, key: str, otherwise: float) -> float:
        """A finite number above 0."""
        value = self.get(key, otherwise)
        if type(value) not in (int, float) or not 0 < value < math.inf:
            raise self.wrong(key, "a number above 0")
        return float(value)

    def flag(self, key: str) -> bool:
        """True or false; false where it is missing."""
        value = self.get(key, False)
        if type(value) is not bool:
            raise self.wrong(key, "true or false")
        return value

    def places(self, key: str) -> tuple[int, ...]:
        """Whole numbers from 0; none where there is no such field."""
        value = self.get(key, [])
        if not isinstance(value, list) or not all(type(item) is int and item >= 0 for item in value):
            raise self.wrong(key, "a list of whole numbers")
        return tuple(value)

    def part(self, key: str) -> Fields:
        """The object under `key`, empty where there is none."""
        value = self.values.get(key) or {}
        if not isinstance(value, dict):
            raise self.wrong(key, "an object")
        return Fields(self.path, value)

    def wrong(self, key: str, wanted: str) -> ModelError:
        said = f"says {key} is {str(self.values[key])[:60]!r}" if self.get(key) is not None else f"does not say {key}"
        return ModelError(f"{self.path}: config.json {said}, not {wanted}; download the drafter again")
