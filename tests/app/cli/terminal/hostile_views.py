"""What the terminal shows of text that comes from elsewhere: errors, arguments, replies, tables and progress. Each case
shows a text that it is given; whatever shows it writes through the one guard, so no field of a file needs its own."""

import io
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

from app.bench import bench_table
from app.cli.doctor import Finding
from app.cli.main import COMMANDS, main
from app.cli.models import SUBCOMMANDS
from app.cli.models.pull import Bars
from app.cli.terminal.output import output_console
from app.cli.terminal.progress import Status, progress, show_stages
from app.cli.terminal.reply_view import Terminal
from app.cli.terminal.token_style import output_look
from app.inference.reply_events import FellBack
from engine.errors import RedlineError
from engine.events import Finished, Round
from models.hub.download_events import Done, DownloadProgress, Fetched, Planned, PlannedFile, Verifying, Waiting
from models.local.inventory import Installed
from models.training.pipeline import TrainingProgress
from tests.app.bench import bench_runs

TERMINAL = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "COLUMNS": "100", "LINES": "40"}
LISTED = "models.local.inventory.installed"
Case = tuple[str, Callable[[], object]]  # its name, and what shows the text


class Screen(io.StringIO):
    """A terminal, or a pipe, that keeps what is written to it."""

    encoding = "utf-8"

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


def shown(show: Callable[[], object], terminal: bool) -> tuple[str, str, str]:
    """What came out on both streams, and what escaped from the command though it should not have."""
    out, err, escaped = Screen(terminal), Screen(terminal), ""
    with mock.patch.multiple(sys, stdout=out, stderr=err, stdin=io.StringIO()), mock.patch.dict(os.environ, TERMINAL):
        try:
            show()
        except SystemExit:
            pass
        except Exception as error:  # noqa: BLE001 - whatever would be a traceback is looked for
            escaped = f"{type(error).__name__}: {ascii(str(error))[:200]}"
    return out.getvalue(), err.getvalue(), escaped


# --- what shows it --------------------------------------------------------------------------------


def every_error(text: str) -> Iterator[Case]:
    """Each class of error, a library that cannot be loaded, a bug, a warning and a log message."""
    kinds = [RedlineError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    raised = [kind(f"a{text}b\n{text}") for kind in kinds] + [ImportError(text, name="mlx.core")]
    for error in raised:
        yield f"raised {type(error).__name__}", lambda error=error: _raise(error)
    yield "a bug", lambda: _traceback(RuntimeError(text))
    yield "a warning", lambda: _guarded(lambda: _warn(text))
    yield "a log message", lambda: _guarded(lambda: _log(text))
    yield "print", lambda: _guarded(lambda: print(text, text, file=sys.stderr))


def _raise(error: Exception) -> None:
    with mock.patch("app.cli.main._run", side_effect=error):
        main([])


def _traceback(error: Exception) -> None:
    try:
        _raise(error)
    except RuntimeError as bug:
        sys.excepthook(type(bug), bug, bug.__traceback__)


def _guarded(show: Callable[[], object]) -> None:
    """Within the process of a command, once it has begun."""
    with mock.patch("app.cli.main._run", side_effect=lambda words: show() or 0):
        main([])


def _warn(text: str) -> None:
    """As Python does; not by `warnings.warn`, which pytest keeps to itself."""
    sys.stderr.write(warnings.formatwarning(text, UserWarning, text, 1))


def _log(text: str) -> None:
    handler = logging.StreamHandler()
    logging.getLogger("attack").addHandler(handler)
    logging.getLogger("attack").error("%s", text)
    logging.getLogger("attack").removeHandler(handler)


def every_argument(text: str) -> Iterator[Case]:
    """Arguments are pasted, and may be names of files."""
    usual = {"chat": ["--prompt", "hi"], "race": ["--prompt", "hi"], "verify": ["chat.json"], "predict": ["a", "b"]}
    for command in COMMANDS:
        yield command, _command(command, f"--{text}")
        yield command, _command(command, *usual.get(command, ()), "--theme", text, "--seed", text)
    for name in SUBCOMMANDS:
        yield f"models {name}", _command("models", name, f"--{text}")
    for words in ([text], ["models", text], ["race", "--prompt", "a", "--side", text]):
        yield " ".join(words).replace(text, "TEXT"), _command(*words)


def _command(*words: str) -> Callable[[], object]:
    return lambda: main(list(words))


def every_view(text: str) -> Iterator[Case]:
    """What commands show of models and replies, and while they run: each is given the text directly."""
    finding = Finding(text, "warning", text, text)
    rest = {"origin": "hub", "kind": "model", "size_bytes": 1, "total_bytes": 1, "last_used_s": 1.0, "complete": True}
    model = Installed(text, Path("/x", text[:200].replace("\0", "")), **rest, trouble=text, revision=text)  # type: ignore[arg-type]
    models = [model, replace(model, complete=False), replace(model, complete=False, kind="gguf")]
    for more in ([], ["--json"]):
        yield f"doctor {more}", lambda more=more: _patched("app.cli.doctor.examine", [finding], "doctor", *more)
        yield f"list {more}", lambda more=more: _patched(LISTED, models, "models", "list", *more)
        words = ("models", "remove", text, "--dry-run", *more)
        yield f"remove {more}", lambda words=words: _patched(LISTED, [model], *words)
    yield "a reply", lambda: _guarded(lambda: _reply(text))
    yield "a status", lambda: _guarded(lambda: Status(sys.stderr)(text))
    yield "progress", lambda: _guarded(lambda: _progress(text))
    yield "stages", lambda: _guarded(lambda: show_stages([TrainingProgress(text, 1, 2, text, text)], {text: 1.0}))
    yield "bars of a download", lambda: _guarded(lambda: _download(text))
    spoiled = bench_runs.row(text, text, text, 1.1, category=text)
    bench = bench_runs.document_of([bench_runs.row("none", None, text, 1.0), spoiled])
    yield "a benchmark", lambda: _guarded(lambda: bench_table.show(output_console(wide=True), text, bench))


def _patched(what: str, found: object, *words: str) -> None:
    with mock.patch(what, lambda *_: found):
        main(list(words))


def _reply(text: str) -> None:
    """A reply whose tokens are the text and then its characters, and the lines beside it."""
    texts = (text, *text[:50])
    some = tuple(range(len(texts)))
    one = Round(0, some, some, len(some), (0.5,) * len(some), (0.5,) * len(some), 1, 0.1, texts=texts)
    terminal = Terminal(sys.stdout, sys.stderr, output_look("auto"))
    terminal.introduce(text)
    terminal.play([one, FellBack(text), Finished("eos", len(some), 0.2, text)], text)


def _progress(text: str) -> None:
    with progress(3, "steps", text) as step:
        step(1, text)


def _download(text: str) -> None:
    with Bars(output_console()) as bars:
        for event in (
            Planned(text, text, text, (PlannedFile(text, 9, 0),), 9, 0, 9, 0),
            DownloadProgress(text, 1, 9, 1, 9, 1.0, 1.0),
            *(Verifying(text, 9), Waiting(text, 1.0, 1, 2), Fetched(text, 9), Done(text, text, text, 9, 9, 9, 1.0)),
        ):
            bars.show(event)
