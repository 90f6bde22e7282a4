"""`redline serve` in a process of its own, with the built-in model, for what must be tried on a real server."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from models.builtin import builtin_folder
from tests.toys.tool_families import HERMES
from tests.waiting import HANG_S

ROOT = Path(__file__).parents[3]
_REDLINE = "from app.cli.main import main; raise SystemExit(main())"


@dataclass(frozen=True)
class Served:
    """A running server. process: of the command."""

    url: str
    key: str
    process: psutil.Process

    @property
    def port(self) -> int:
        return int(self.url.split(":")[2].split("/")[0])

    @property
    def megabytes(self) -> float:
        """Its resident memory."""
        return self.process.memory_info().rss / 1e6


def tool_model(folder: Path) -> Path:
    """Makes a copy of the built-in model whose chat template takes tools, as Qwen's does: it has none of its own. Left
    to itself, so small a model calls nothing; where it must, its calls are constrained."""
    shutil.copytree(builtin_folder(), folder)
    (folder / "chat_template.jinja").write_text(HERMES)
    about = folder / "tokenizer_config.json"
    config = json.loads(about.read_text())
    about.write_text(json.dumps({name: value for name, value in config.items() if name != "chat_template"}))
    return folder


@contextmanager
def served(*arguments: str, program: tuple[str, ...] = ("-c", _REDLINE)) -> Iterator[Served]:
    """Runs `redline serve` on a free port. program: what Python runs. Raises RuntimeError where it does not start."""
    with TemporaryDirectory() as folder:
        command = [sys.executable, *program, "serve", "--port", "0", "--key-file", f"{folder}/key"]
        process = subprocess.Popen([*command, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            lines = []
            while not lines or "Ctrl-C" not in lines[-1]:
                lines.append(process.stdout.readline())
                if not lines[-1]:
                    raise RuntimeError(f"the server did not start: {lines}")
            found = {line.split()[-2]: line.split()[-1] for line in lines[1:-1] if line.startswith("  ")}
            yield Served(found["URL"], found["key"], psutil.Process(process.pid))
        finally:
            process.terminate()
            process.wait(HANG_S)
