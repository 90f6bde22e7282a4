"""A seeded fuzzer over model files, in a process of its own, so that a crash is seen: `python -m` SEED COUNT PLACE.

Each case spoils one file of a small whole model, then does with it all that Redline does: look, import or convert,
load, render a chat, run the network over the ids. Prints a line for each: what was spoiled, and how it ended.
"""

from __future__ import annotations

import json
import random
import shutil
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import engine.backend  # before MLX
from engine.errors import ModelError

EXTREMES: tuple[Any, ...] = (
    *(0, -1, 1, 7, 2**31 - 1, 2**32, 2**63, -(2**63), 10**30, 0.5, 1e308, float("nan"), float("inf")),
    *("", "x", "../../../etc/passwd", "ü" * 40, "x" * 5000, "\x00", "\ud800", None, True, False),
    *([], {}, [[]], [0] * 50, {"a": {"b": 1}}, ["a", "b"], [None]),
)
KINDS = ("gguf", "gguf", "safetensors", "safetensors", "config.json", "tokenizer.json", "tokenizer_config.json")


def spoil_bytes(rng: random.Random, content: bytes, head_bytes: int) -> bytes:
    """One to three faults, mostly in the first `head_bytes`: flipped, cut out, put in, made extreme, cut off."""
    damaged = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(min(head_bytes, len(damaged))) if rng.random() < 0.9 else rng.randrange(len(damaged))
        fault = rng.randrange(5)
        if fault == 0:
            damaged[place] = rng.randrange(256)
        elif fault == 1:
            del damaged[place : place + rng.randint(1, 40)]
        elif fault == 2:
            damaged[place:place] = rng.randbytes(rng.randint(1, 40))
        elif fault == 3:
            damaged[place : place + 8] = struct.pack(
                "<Q", rng.choice([0, 1, 2**20, 2**31, 2**32 - 1, 2**63, 2**64 - 1])
            )
        else:
            del damaged[max(place, 1) :]
    return bytes(damaged)


def spoil_number(rng: random.Random, content: bytes) -> bytes:
    """One of the numbers in a text, such as a safetensors header, made another one, in as many digits if it can be."""
    places = [place for place, byte in enumerate(content[:4000]) if chr(byte).isdigit()]
    place = rng.choice(places)
    return content[:place] + str(rng.randrange(10)).encode() + content[place + 1 :]


def spoil_json(rng: random.Random, text: bytes) -> bytes:
    """A value somewhere inside replaced, dropped, or doubled under another name."""
    whole = json.loads(text)
    for _ in range(rng.randint(1, 2)):
        inner: Any = whole
        while True:
            keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
            key = rng.choice(keys)
            deeper = isinstance(inner[key], dict | list) and len(inner[key]) > 0
            if not deeper or rng.random() < 0.3:
                break
            inner = inner[key]
        if rng.random() < 0.15:
            del inner[key]
        else:
            inner[key] = rng.choice(EXTREMES)
        if not whole:
            break
    return json.dumps(whole).encode("utf-8", "surrogatepass")


def spoil(rng: random.Random, kind: str, content: bytes) -> bytes:
    if kind == "gguf":
        return spoil_bytes(rng, content, 12_000)
    if kind == "safetensors":
        return spoil_number(rng, content) if rng.random() < 0.4 else spoil_bytes(rng, content, 2_500)
    return spoil_json(rng, content) if rng.random() < 0.8 else spoil_bytes(rng, content, len(content))


def use(source: Path, made: Path, bits: int | None) -> None:
    """Everything that is done with a model: brought in, loaded, asked. Raises ModelError."""
    import mlx.core as mx

    from models.convert.model_import import import_model, inspect
    from models.loader import load, not_loading
    from models.storage_options import StorageOptions

    folder = import_model(inspect(source), made, StorageOptions(bits, 32))
    loaded = load(folder)
    ids = loaded.tokenizer.chat([{"role": "user", "content": "hello <tool> 12"}]) or [0]
    loaded.tokenizer.decode(ids)
    with not_loading(folder):
        mx.eval(loaded.network(mx.array([ids[:40]])))


def outcome(deed: Callable[[], None]) -> str:
    """ "used", or the one line of a ModelError; anything else is a traceback, and the end of the process."""
    try:
        deed()
    except ModelError as error:
        assert str(error) and "\n" not in str(error), repr(str(error))
        return f"refused: {error}"
    return "used"


def main(seed: int, count: int, place: Path) -> None:
    from tests.toys.folders import make_folder
    from tests.toys.gguf_files import tiny_llama
    from tests.toys.gguf_models import FAMILIES, tiny

    rng = random.Random(seed)
    ggufs = [tiny_llama().to_bytes(), *(tiny(family).to_bytes() for family in FAMILIES)]
    whole = make_folder(place / "whole")
    for number in range(count):
        kind, case = rng.choice(KINDS), place / f"case-{number}"
        bits = None if rng.random() < 0.8 else 4
        case.mkdir()
        if kind == "gguf":
            source = case / "model.gguf"
            source.write_bytes(spoil(rng, kind, rng.choice(ggufs)))
        else:
            source = Path(shutil.copytree(whole, case / "model"))
            name = "model.safetensors" if kind == "safetensors" else kind
            (source / name).write_bytes(spoil(rng, kind, (source / name).read_bytes()))
        print(f"{number} {kind}", end=" ", flush=True)
        print(outcome(lambda source=source, case=case, bits=bits: use(source, case / "made" / "m", bits)), flush=True)  # type: ignore[misc]
        shutil.rmtree(case)


if __name__ == "__main__":
    engine.backend.describe()
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
