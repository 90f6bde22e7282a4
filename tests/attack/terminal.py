"""Hostile text in every field that comes from files, the hub, the protocol or a model, through every command that shows
it. A raw control character that comes out is counted; none may, whether a terminal or a pipe reads it."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import random
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from huggingface_hub import constants
from safetensors.numpy import load_file, save_file

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
from app.race.race_document import DEMONSTRATION
from engine.errors import RedlineError
from engine.events import Finished, Round
from models.hub.download_events import Done, DownloadProgress, Fetched, Planned, PlannedFile, Verifying, Waiting
from models.local.inventory import Installed
from models.training.pipeline import TrainingProgress
from tests.app.bench import bench_runs
from tests.app.receipts.exports import write_export
from tests.hostile_text import HOSTILE, count_raw
from tests.models.hub.loopback import Loopback, loopback
from tests.models.hub.tiny import NAME, tiny
from tests.models.local.model_placement import places_in
from tests.toys.folders import TEMPLATE, make_folder
from tests.toys.gguf_files import STRING, tiny_llama

TERMINAL = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "COLUMNS": "100", "LINES": "40"}
LONGEST = 2100  # characters of a line on standard error
WHOLE = ("a bug", "a warning", "a log message", "print", "a reply")  # shown as they are
LISTED = "models.local.inventory.installed"
Words = Sequence[str]
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
    for words in (
        *([text], ["--replay", text, "--data-dir"], ["models", text], ["verify", text], ["race", "--replay", text]),
        *(["race", "--prompt", "a", "--side", text], ["models", "import", text], ["models", "convert", text]),
        *(["models", "pull", text], ["models", "pull", NAME, "--revision", text], ["models", "fits", text]),
        *(["models", "remove", text], ["models", "search", text], ["models", "search", "--fits", text]),
        *(["models", "check", text], ["chat", "--prompt", "a", "--target", text], ["bench", "--prompts", text]),
        *(["chat", "--prompt", "a", "--drafter", text], ["chat", "--prompt", "a", "--draft-length", text]),
        *(["predict", text, text], ["fit", text], ["models", "pairs", text], ["models", "import", "x", "--name", text]),
    ):
        yield " ".join(words).replace(text, "TEXT"), _command(*words)


def _command(*words: str) -> Callable[[], object]:
    return lambda: main(list(words))


def every_folder(text: str, place: Place) -> Iterator[Case]:
    """Each field of a model folder, in the commands that read it."""
    for name, folder in _spoiled_folders(text, place):
        chat = _command("chat", "--prompt", "hi", "--max-tokens", "3", "--target", str(folder), "--drafter", "none")
        yield f"chat, {name}", chat
        yield f"fits, {name}", _command("models", "fits", str(folder))
        yield f"pairs, {name}", _command("models", "pairs", str(folder))


def _spoiled_folders(text: str, place: Place) -> Iterator[tuple[str, Path]]:
    source = place.model
    config = json.loads((source / "config.json").read_text())
    extra = {"rope_scaling": {"rope_type": text, "type": text, "factor": 2.0}, "quantization": {"mode": text}}
    extra |= {"quantization_config": {"quant_method": text}, "architectures": [text], "layer_types": [text, text]}
    for field in (*config, *extra):
        yield field, place.copy(source, {"config.json": json.dumps(config | {field: extra.get(field, text)})})
    yield "a field", place.copy(source, {"config.json": json.dumps({text: text} | config)})
    yield "no JSON", place.copy(source, {"config.json": f'{{"model_type": "{text}'})
    tokenizer = json.loads((source / "tokenizer_config.json").read_text())
    raising = f"{{{{ raise_exception({text!a}) }}}}"
    for template in (raising, f"{{% {text} %}}", f"{{{{ messages.{text} }}}}", TEMPLATE + text):
        content = {"tokenizer_config.json": json.dumps(tokenizer | {"chat_template": template})}
        yield f"template {ascii(template)[:20]}", place.copy(source, content)
    for field in tokenizer:
        yield field, place.copy(source, {"tokenizer_config.json": json.dumps(tokenizer | {field: text})})
    backend = json.loads((source / "tokenizer.json").read_text())
    for field in ("model", "decoder", "pre_tokenizer", "version"):
        spoiled = backend | {field: {"type": text}}
        yield f"tokenizer {field}", place.copy(source, {"tokenizer.json": json.dumps(spoiled)})
    folder = place.copy(source, {})
    weights = load_file(folder / "model.safetensors")
    save_file(weights | {text: next(iter(weights.values()))}, folder / "model.safetensors")
    yield "a tensor", folder


def every_gguf(text: str, place: Place) -> Iterator[Case]:
    """Each text in a GGUF file's metadata, and the name of a tensor."""
    sound = tiny_llama()
    for key, (code, _) in sound.metadata.items():
        if code == STRING:
            yield f"import, {key}", place.imports(replace(sound, metadata={**sound.metadata, key: (STRING, text)}))
    yield "import, a key", place.imports(replace(sound, metadata={**sound.metadata, text: (STRING, text)}))


def every_hub_answer(text: str, place: Place) -> Iterator[Case]:
    """What the hub may say: names, errors, an account."""
    listings: list[dict[str, Any]] = [{"id": text}, {"sha": text}, {"siblings": [{"rfilename": text}]}, {"gguf": text}]
    listings += [{"siblings": [{"rfilename": "config.json", "size": text, "blobId": text}]}]
    for listed in listings:
        yield f"pull, {next(iter(listed))}", lambda listed=listed: place.pull(listed=listed)
        yield f"pull --json, {next(iter(listed))}", lambda listed=listed: place.pull("--json", listed=listed)
    message = text.encode(errors="replace").decode("latin-1").replace("\r", "").replace("\n", "")
    for status, code in ((401, "GatedRepo"), (403, ""), (404, text), (404, "RevisionNotFound"), (418, ""), (500, "")):
        headers = {"X-Error-Message": message, "X-Error-Code": code if code != text else message}
        trouble = {"status": status, "headers": headers, "body": json.dumps({"error": text}).encode()}
        yield f"pull, {status} {ascii(code)[:9]}", lambda trouble=trouble: place.pull(trouble=trouble)
        yield f"check, {status}", lambda trouble=trouble: place.pull(words=("check", "smollm2"), trouble=trouble)
    account = {"status": 200, "body": json.dumps({"name": text}).encode()}
    yield "login", lambda: place.login(account)
    away = {"status": 302, "headers": {"Location": f"http://{ascii(text)[1:-1]}/"}}
    yield "pull, a redirect", lambda: place.pull(trouble=away)


def every_document(text: str, place: Place) -> Iterator[Case]:
    """Each text of a race and of an exported conversation."""
    race = json.loads(DEMONSTRATION.read_text())
    for path in _texts_in(race):
        file = place.write("race.json", json.dumps(_replaced(race, path, text)))
        for more in ([], ["--json"], ["--no-animation"]):
            yield f"race {_path(path)}", _command("race", "--replay", str(file), "--speed", "8", *more)
    export = json.loads(place.export.read_text())
    for path in _texts_in(export):
        file = place.write("chat.json", json.dumps(_replaced(export, path, text)))
        for more in ([], ["--json"]):
            yield f"verify {_path(path)}", _command("verify", str(file), *more)


def _texts_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of a document's texts; of a long list, its first entries."""
    if isinstance(value, str):
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, item in items:
        yield from _texts_in(item, (*path, key))


def _replaced(value: Any, path: tuple[Any, ...], text: str) -> Any:
    if not path:
        return text
    changed = dict(value) if isinstance(value, dict) else list(value)
    changed[path[0]] = _replaced(value[path[0]], path[1:], text)
    return changed


def _path(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path))


class Place:
    """A folder with a toy model, an export of its replies, places for models, and a hub on loopback."""

    def __init__(self, folder: Path, server: Loopback) -> None:
        self._folder, self._server, self._count = folder, server, 0
        self.model = make_folder(folder / "toy")
        self.export = write_export(self.model, make_folder(folder / "drafter", like=self.model), folder)

    def copy(self, source: Path, changed: dict[str, str]) -> Path:
        """A copy of a model folder in which some files are others."""
        folder = self._folder / "copy"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(source, folder)
        for name, content in changed.items():
            (folder / name).write_text(content, errors="surrogatepass")
        return folder

    def write(self, name: str, text: str) -> Path:
        path = self._folder / f"spoiled-{name}"
        path.write_text(text)
        return path

    def imports(self, gguf: Any) -> Callable[[], object]:
        path = self._folder / "toy.gguf"

        def run() -> None:
            gguf.write(path)
            main(["models", "import", str(path), "--cache-dir", str(self._folder / "imports"), "--replace"])

        return run

    def pull(
        self,
        *more: str,
        words: Words = ("pull", NAME),
        listed: dict[str, Any] | None = None,
        trouble: dict[str, Any] | None = None,
    ) -> None:
        """Asks the hub, which answers with these fields, or with this trouble."""
        repo = self._server.repos[NAME]
        repo.listed = listed or {}
        self._server.troubles.clear()
        if trouble is not None:
            self._server.trouble("/", times=None, **trouble)
        try:
            main(["models", *words, *more])
        finally:
            self._server.troubles.clear()

    def login(self, trouble: dict[str, Any]) -> None:
        with mock.patch("app.cli.models.hub.keep_token"), mock.patch("sys.stdin", io.StringIO("hf_x\n")):
            self.pull("--token-stdin", words=("login",), trouble=trouble)


@contextlib.contextmanager
def attacked_place() -> Iterator[Place]:
    """A place whose hub and models are none of this machine's."""
    with tempfile.TemporaryDirectory() as name, loopback(tiny()) as server, contextlib.ExitStack() as patches:
        folder = Path(name)
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.removeprefix(constants.ENDPOINT)
        cache, places = str(folder / "hub"), places_in(folder)
        for patch in (
            mock.patch.object(constants, "ENDPOINT", server.endpoint),
            mock.patch.object(constants, "HUGGINGFACE_CO_URL_TEMPLATE", f"{server.endpoint}{template}"),
            mock.patch.object(constants, "HF_HUB_CACHE", cache),
            mock.patch("models.local.locations.find_locations", lambda home, root=None: places),
            mock.patch("models.hub.client.RetryPolicy.wait_s", lambda *_: None),
            mock.patch.dict(os.environ, {"HF_TOKEN": ""}),
            mock.patch("app.inference.hub_token.read_token", lambda endpoint: None),
            mock.patch("app.inference.learnt_rounds.cache_dir", lambda root=None: root or folder / "cache"),
        ):
            patches.enter_context(patch)
            patches.enter_context(contextlib.chdir(folder))
        yield Place(folder, server)


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


# --- the count ------------------------------------------------------------------------------------


SOURCES: dict[str, Callable[[str, Place], Iterator[Case]]] = {
    "errors, warnings, logs": lambda text, _: every_error(text),
    "arguments": lambda text, _: every_argument(text),
    "replies, tables, progress": lambda text, _: every_view(text),
    "GGUF files": every_gguf,
    "the hub's answers": every_hub_answer,
    "model folders": every_folder,
    "races and conversations": every_document,
}
_QUICK = ("errors, warnings, logs", "arguments", "replies, tables, progress")  # whole in the short form too


def attack(seed: int, short: bool, count: int | None = None) -> list[str]:
    """Prints a count for each source of text; returns what did not hold. count: of the hostile texts, all unless
    given."""
    dice, failures = random.Random(seed), list[str]()
    kinds = dice.sample(list(HOSTILE), 1 if short else count or len(HOSTILE))
    print(f"texts: {', '.join(kinds)}", flush=True)
    with attacked_place() as place:
        for source, cases in SOURCES.items():
            runs, raw, before = 0, 0, len(failures)
            for kind in kinds:
                for name, show in cases(HOSTILE[kind], place):
                    if short and source not in _QUICK and dice.random() < 0.95:
                        continue
                    for terminal in (False, True):
                        found, wrong = fault_of(name, show, terminal)
                        runs, raw = runs + 1, raw + found
                        failures += [f"{source}, {name}, {kind}, terminal {terminal}: {wrong}"] if wrong else []
            said = f"{runs:,} runs, {raw:,} raw control characters, {len(failures) - before} failures"
            print(f"{source}: {said}", flush=True)
    return failures


def fault_of(name: str, show: Callable[[], object], terminal: bool) -> tuple[int, str]:
    """Returns how many raw control characters came out, and what did not hold."""
    out, err, escaped = shown(show, terminal)
    raw = count_raw(out, terminal) + count_raw(err, terminal)
    longest = max(map(len, err.splitlines()), default=0)
    wrong = [f"{raw} raw"] * bool(raw) + [escaped] * bool(escaped)
    wrong += [f"a line of {longest:,} characters"] * (longest > LONGEST and name not in WHOLE)
    return raw, "; ".join(wrong)
