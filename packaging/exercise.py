"""One run of the app, as a user would: the window, a message to the built-in model, every page, a request from another
program, a command; then quit.

`python packaging/exercise.py FOLDER [--tokens N]` prints one JSON object: the reply, its token count, and the modules
that all processes of the run imported. FOLDER takes the conversations. Needs no screen, and nothing but what
Redline itself needs, so that the Python inside a bundle can run it (`bundling.launch_check`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.window.chat import Controller

QUESTION = "Why is the sky blue?"
PATIENCE_S = 240.0
# Runs a module and, when the process ends, writes down what it has imported, a name a line.
_WATCHED = """
import atexit, os, runpy, sys
def told(place={place!r}):
    names = [n for n, m in list(sys.modules.items()) if getattr(m, "__spec__", None) is not None]
    with open(os.path.join(place, "modules-%d" % os.getpid()), "w") as file:
        file.write("\\n".join(names))
atexit.register(told)
sys.argv = {argv!r} + sys.argv[1:]
runpy.run_module({argv!r}[0], run_name="__main__", alter_sys=True)
"""
# What another program asks, through the local API: an answer of a given form, in as few tokens as possible.
FORM = {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"], "additionalProperties": False}
ASKED = {
    "messages": [{"role": "user", "content": QUESTION}],
    "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": FORM}},
    "max_tokens": 40,
    "temperature": 0,
}
COMMANDS = (
    ("app", "chat", "--prompt", QUESTION, "--max-tokens", "3", "--draft-length", "1", "--json"),
    ("app", "models", "list"),
    ("app", "doctor", "--json"),
)


def main() -> int:
    """Run, and print what came of it."""
    args = _parser().parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    reply, tokens = _window(args.folder, args.tokens)
    for command in COMMANDS[: args.commands]:
        _run(args.folder, *command)
    _write_modules(args.folder)
    modules = {name for file in args.folder.glob("modules-*") for name in file.read_text().splitlines()}
    print(json.dumps({"reply": reply, "tokens": tokens, "modules": sorted(modules)}))
    return 0


def recording_command(folder: Path, *argv: str) -> list[str]:
    """The command that runs module `argv[0]` in this Python and has it tell its modules. Further arguments
    are passed on to it."""
    return [sys.executable, "-c", _WATCHED.format(place=str(folder), argv=list(argv))]


def _window(folder: Path, tokens: int) -> tuple[str, int]:
    """Ask in the window; the reply's text and its tokens."""
    from app.protocol import SamplingSettings
    from app.store import Store
    from app.store.records import ChatSettings
    from app.window.chat import Controller
    from app.window.chat.host_process import HostProcess
    from app.window.main_window.application import Application
    from app.window.main_window.main_window import MainWindow
    from app.window.settings.settings_window import PAGES

    application = Application(["redline"])
    place = folder / "conversations.db"
    controller = Controller(Store.open(place).store, HostProcess(recording_command(folder, "app.host")))
    window = MainWindow(controller, place)
    controller.open_last()
    window.show()
    controller.change_settings(
        ChatSettings(sampling=SamplingSettings(max_tokens=tokens, temperature=0.0, draft_length=1))
    )
    controller.start()
    for side in ("inspector", "chat settings", "inspector"):
        window.show_side(side)
    for page in PAGES:
        window.settings.show(page)
    window.races.show(QUESTION)
    _until(application.processEvents, lambda: controller.send(QUESTION))
    _until(application.processEvents, lambda: len(controller.path) == 2 and controller.path[1].state != "streaming")
    reply = controller.path[1]
    statistics = reply.statistics
    _serve(controller, folder, application.processEvents)
    window.close()
    controller.close()
    return (reply.text if reply.state == "complete" else f"{reply.state}: {reply.note}"), (
        statistics.tokens if statistics else 0
    )


def _serve(controller: Controller, folder: Path, process_events: Callable[[], None]) -> None:
    """Has another program ask through the local API. Raises RuntimeError if the answer does not have the form asked
    for."""
    from app.window.api.api_server import ApiServer

    server = ApiServer(controller, folder / "api-key")
    server.serve(0)
    _until(process_events, lambda: server.state().phase in ("on", "failed"))
    if server.state().phase == "failed":
        raise RuntimeError(f"other programs are not served: {server.state().error}")
    answers: list[Any] = []
    asking = threading.Thread(target=lambda: answers.append(_asked(server.state().address, server.state().key)))
    asking.start()
    _until(process_events, lambda: not asking.is_alive())
    server.serve(None)
    if answers != [{"a": 1}]:
        raise RuntimeError(f"another program asked for {FORM} and got {answers}")


def _asked(address: str, key: str) -> Any:
    """Returns the value in the answer to what another program asks, or the server's reason against it."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{address}/chat/completions", json.dumps(ASKED).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return json.loads(json.load(answer)["choices"][0]["message"]["content"])
    except urllib.error.HTTPError as error:
        return error.read().decode()


def _until(process_events: Callable[[], None], holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        process_events()
        time.sleep(0.01)
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing came of it in {PATIENCE_S:.0f} s")


def _run(folder: Path, *argv: str) -> None:
    done = subprocess.run(
        recording_command(folder, *argv), capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)} ended with {done.returncode}: {done.stderr[-800:]}")


def _write_modules(folder: Path) -> None:
    """Of this process."""
    names = [name for name, module in list(sys.modules.items()) if getattr(module, "__spec__", None) is not None]
    (folder / f"modules-{os.getpid()}").write_text("\n".join(names))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="exercise.py", description="One run of the app, and what it imported.")
    add = parser.add_argument
    add("folder", type=Path, metavar="FOLDER", help="for conversations")
    add("--tokens", type=int, default=5, help="of the reply (default: 5)")
    add("--commands", type=int, default=len(COMMANDS), help="how many of the terminal's commands to run as well")
    return parser


if __name__ == "__main__":
    sys.exit(main())
