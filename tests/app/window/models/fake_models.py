"""The answers of the child processes in tests and pictures: a machine, models and downloads that are made up."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from app.window.models import model_library
from models.catalogue.search import MachineMemory, wired_bytes

CHILD = Path(__file__).with_name("child.py")
GIB = 1 << 30
QWEN, LARGE, SMALL = (f"mlx-community/Qwen3-{size}-4bit" for size in ("8B", "32B", "0.6B"))
EAGLE = "RedHatAI/Qwen3-8B-speculator.eagle3"
WAIT = {"wait": True}


class FakeModels:
    """Writes answers to a folder that the child reads. gb: the memory of the machine."""

    def __init__(self, folder: Path, gb: int = 36, processor: str = "Apple M3 Pro") -> None:
        self.folder = folder
        self.models: list[dict[str, Any]] = []
        self.pairs: list[dict[str, Any]] = []
        folder.mkdir(parents=True, exist_ok=True)
        limit = wired_bytes(gb * GIB)
        self.machine = MachineMemory(processor=processor, memory_bytes=gb * GIB, for_models_bytes=limit)
        self.put(BUILTIN)
        self.judge("builtin", auto="lookup+eagle3", why="prompt lookup and eagle3, which is shipped for this model")
        self.fit("builtin", "good", 1.2, round(limit / GIB, 1))

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> FakeModels:
        """Has each library that is made see this machine."""
        monkeypatch.setattr(model_library, "this_machine", lambda: self.machine)
        return self

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-S", "-E", str(CHILD), str(self.folder)]

    @property
    def calls(self) -> list[str]:
        """The command lines that the child was started with, in order."""
        calls = self.folder / "calls"
        return calls.read_text().splitlines() if calls.exists() else []

    def answer(self, words: str, value: object) -> None:
        name = words.replace("/", "-")
        (self.folder / f"{name}.json").write_text(json.dumps(value))

    def put(self, model: dict[str, Any]) -> None:
        """Installs a model."""
        self.models = [one for one in self.models if one["name"] != model["name"]] + [model]
        self.answer("list", {"models": self.models})

    def take(self, name: str) -> None:
        """Removes a model."""
        self.models = [one for one in self.models if one["name"] != name]
        self.answer("list", {"models": self.models})

    def judge(self, target: str, *pairs: dict[str, Any], auto: str, why: str) -> None:
        judged = {"target": target, "path": "", "pairs": list(pairs), "auto": auto, "auto_why": why, "trouble": None}
        self.pairs = [one for one in self.pairs if one["target"] != target] + [judged]
        self.answer("pairs", {"targets": self.pairs})

    def fit(self, name: str, level: str, needed_gb: float, most_gb: float = 24.0, **more: Any) -> None:
        """Says how a model fits with 8,192 tokens; four fifths of its memory are weights."""
        needed, most = int(needed_gb * GIB), int(most_gb * GIB)
        reason = f"needs {needed_gb} GB for a context of 8,192 tokens; {most_gb} GB can be used here"
        contexts = [
            {"context": tokens, "needed_bytes": int(needed * (0.8 + 0.2 * tokens / 8192)), "level": level}
            for tokens in (512, 2048, 8192)
        ]
        value = {"target": name, "drafter": "lookup+eagle3", "context": 8192, "wanted": 8192, "level": level}
        value |= {"reason": reason, "remedies": [], "needed_bytes": needed, "most_bytes": most, "contexts": contexts}
        value |= {"weights_bytes": int(needed * 0.8), "cache_bytes": int(needed * 0.12)}
        self.answer(f"fits {name}", value | more)

    def pull(self, repo: str, *events: dict[str, Any]) -> None:
        """Sets the events of a download."""
        path = self.folder / f"pull {repo.replace('/', '-')}.jsonl"
        path.write_text("".join(json.dumps(event) + "\n" for event in events))


def model(name: str, gb: float, kind: str = "model", **more: Any) -> dict[str, Any]:
    """Returns a complete model of the hub."""
    size = int(gb * 1e9)
    path = f"~/.cache/huggingface/hub/models--{name.replace('/', '--')}/snapshots/1234567"
    shared = ["other programs that use the Hugging Face cache (such as mlx-lm and transformers)"]
    value = {"name": name, "path": path, "origin": "hub", "kind": kind, "size_bytes": size, "total_bytes": size}
    value |= {"last_used_s": None, "complete": True, "trouble": "", "revision": "1234567", "shared_with": shared}
    return value | more


def pair(drafter: str, kind: str, fits: bool, why: str) -> dict[str, Any]:
    return {"drafter": drafter, "path": f"/drafters/{drafter}", "kind": kind, "fits": fits, "why": why, "notes": []}


def planned(repo: str, sizes: dict[str, int], present: int = 0) -> dict[str, Any]:
    """present: the bytes of the first file that are here."""
    files = [{"name": name, "size_bytes": size, "present_bytes": 0} for name, size in sizes.items()]
    files[0]["present_bytes"] = present
    value = {"type": "Planned", "repo": repo, "revision": "main", "commit": "1" * 40, "files": files, "left_out": 2}
    return value | {"total_bytes": sum(sizes.values()), "present_bytes": present, "free_bytes": 10**12}


def progress(name: str, done: int, size: int, done_bytes: int, total_bytes: int) -> dict[str, Any]:
    value = {
        "type": "DownloadProgress",
        "file": name,
        "file_bytes": done,
        "file_total_bytes": size,
        "done_bytes": done_bytes,
    }
    return value | {"total_bytes": total_bytes, "bytes_per_s": 48.5e6, "eta_s": (total_bytes - done_bytes) / 48.5e6}


def fetched(name: str, size: int) -> dict[str, Any]:
    return {"type": "Fetched", "file": name, "size_bytes": size}


def done(repo: str, total: int) -> dict[str, Any]:
    value = {"type": "Done", "repo": repo, "commit": "1" * 40, "path": "/m", "total_bytes": total, "seconds": 1.0}
    return value | {"fetched_bytes": total, "verified_bytes": total}


def failed(reason: str, message: str) -> dict[str, Any]:
    return {"type": "Failed", "reason": reason, "message": message}


def asking(repo: str) -> dict[str, Any]:
    return {"type": "Resolving", "repo": repo, "revision": "main"}


BUILTIN = model("builtin", 0.1) | {
    "path": "~/.cache/redline/models/SmolLM2-135M-Instruct.Q4_1",
    "origin": "builtin",
    "revision": "",
    "shared_with": [],
}
