"""Runs agents of other makers against the API: a first request, a call of a tool and its result, a second turn.

    npm install @anthropic-ai/claude-code@2.1.197 @openai/codex@0.171.0 opencode-ai@1.18.33    (in FOLDER)
    python -m tests.programs.agents FOLDER [claude|codex|opencode ...] [--record FILE]

Each runs in an empty home, in a folder with one file. A scripted engine with a context of 200,000 tokens stands in for
a model: it has the agent's own tool for commands print that file, and then says what came back. The program checks that
the agent shows it, that a second turn goes on from there, and that a reply is stopped when its agent is interrupted; it
prints how many tokens the first prompt has, and what each request left out. --record writes the requests for
tests/app/api/test_agents.py: their fields, types and names, with other texts in place of the agents'.
"""

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from app import protocol
from app.api.access import AccessRules
from app.api.agents import AGENTS, agent_lines
from app.api.api_errors import HEADER
from app.api.application import application
from app.api.engine_client import EngineClient
from app.api.loopback_server import LoopbackServer, open_socket
from app.api.reply_stream import Engine
from app.task_queue import Task, TaskQueue
from engine.events import Finished, PromptProgress, Round
from models.builtin import builtin_folder
from models.tokenizer import FolderTokenizer
from tests.waiting import HANG_S

MODEL, KEY, SECRET = "Scripted", "a-key-of-the-tests", "The secret word is heron."
HOLD = "Wait for me."  # a prompt whose reply does not end
COMMAND_TOOLS = ("Bash", "exec_command", "shell", "local_shell", "bash")  # that run a command
LOADED = protocol.Loaded(
    id=0, pair=protocol.Pair(), target=MODEL, drafter="none", speculation="off", note="", drafts_trees=False,
    context=200_000, tools=True,
)  # fmt: skip


class ScriptedEngine(TaskQueue):
    """A queue whose tasks are answered as a model would that calls a tool."""

    def __init__(self) -> None:
        super().__init__()
        self.replies: list[protocol.Reply] = []
        self.held, self.stopped = threading.Event(), threading.Event()

    def put(self, task: Task) -> bool:
        match task.request:
            case protocol.Count() as request:
                task.answer(protocol.Counted(id=request.id, tokens=1000, context=200_000))
            case protocol.Reply() as request:
                self.replies.append(request)
                for answer in _answers(request):
                    if isinstance(answer, protocol.ReplyDone) and HOLD in str(request.messages):
                        self.held.set()
                        break
                    task.answer(answer)
        return True

    def cancel(self, task: Task) -> None:
        self.stopped.set()


def _answers(request: protocol.Reply) -> Iterator[protocol.AnyAnswer]:
    number, last = request.id, request.messages[-1]
    offered = {tool.name: tool for tool in request.tools.offered} if request.tools else {}
    tool = next((offered[name] for name in COMMAND_TOOLS if name in offered), None)
    yield protocol.PrefillProgress(id=number, progress=PromptProgress(100, 100, 0, 0.1))
    results = [turn.content for turn in request.messages if turn.role == "tool"]
    if tool is not None and not results:
        call = protocol.ToolCall(id="call00001", name=tool.name, arguments=json.dumps(_arguments(tool)))
        yield protocol.RoundDone(id=number, round=_round("I look.", "answer"))
        yield protocol.Called(id=number, calls=(call,))
    else:
        found = next((line for text in results for line in text.splitlines() if "secret" in line), "")
        turns = sum(turn.role == "user" for turn in request.messages)
        text = f"{found} (turn {turns})" if last.role == "tool" or results else "A title"
        yield protocol.RoundDone(id=number, round=_round(text, "answer"))
    yield protocol.ReplyDone(id=number, finished=Finished("eos", 3, 0.2), seed=1)


def _arguments(tool: protocol.Tool) -> dict[str, Any]:
    """Returns arguments with which a tool for commands prints the file."""
    properties = json.loads(tool.parameters).get("properties", {})
    named = {"command": "cat note.txt", "cmd": "cat note.txt", "description": "print the note"}
    arguments: dict[str, Any] = {name: value for name, value in named.items() if name in properties}
    if properties.get("command", {}).get("type") == "array":
        arguments["command"] = ["bash", "-lc", "cat note.txt"]
    return arguments


def _round(text: str, channel: Any) -> Round:
    return Round(0, (1,), (), 0, (1.0,), (), 1, 0.1, texts=(text,), channels=(channel,))


class Recorder:
    """An ASGI application that keeps the requests to another one, and what that one left out."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.requests: list[dict[str, Any]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        kept: dict[str, Any] = {"path": scope["path"], "query": scope["query_string"].decode()}
        body = bytearray()

        async def read() -> Any:
            message = await receive()
            body.extend(message.get("body", b""))
            return message

        async def tell(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = dict(message["headers"])
                kept.update(status=message["status"], left_out=headers.get(HEADER.encode(), b"").decode())
            elif message.get("body") and kept["status"] != 200:
                kept["error"] = message["body"].decode()
            await send(message)

        await self._app(scope, read, tell)
        self.requests.append(kept | {"body": json.loads(bytes(body) or b"{}")})


@contextmanager
def serving() -> Iterator[tuple[str, Recorder, ScriptedEngine]]:
    """Serves the scripted engine; yields the address, the recorder of the requests, and the engine."""
    began = threading.Event()
    made: dict[str, Any] = {}

    async def run() -> None:
        engine = ScriptedEngine()
        client = EngineClient(engine, asyncio.get_running_loop())
        client.loaded = LOADED
        with open_socket(0) as listener:
            port = listener.getsockname()[1]
            recorder = Recorder(application(Engine(client), AccessRules(KEY, port)))
            server = LoopbackServer(recorder)
            made.update(url=f"http://127.0.0.1:{port}", recorder=recorder, server=server, engine=engine)
            began.set()
            await server._serve([listener])

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    began.wait()
    try:
        yield made["url"], made["recorder"], made["engine"]
    finally:
        made["server"].should_exit = True
        thread.join(30)


_TURNS = {  # the arguments of a first turn and of one that goes on
    "claude": (
        ["claude", "-p", "{}", "--dangerously-skip-permissions"],
        ["claude", "--continue", "-p", "{}", "--dangerously-skip-permissions"],
    ),
    "codex": (
        ["codex", "exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", "{}"],
        ["codex", "exec", "--skip-git-repo-check", "resume", "--last", "{}"],
    ),
    "opencode": (["opencode", "run", "{}"], ["opencode", "run", "--continue", "{}"]),
}


def run_agent(agent: str, folder: Path, url: str, engine: ScriptedEngine) -> tuple[list[str], bool]:
    """Runs two turns of an agent, and one that is interrupted; returns what it showed, and whether its reply was
    stopped then."""
    with tempfile.TemporaryDirectory() as home:
        work = Path(home) / "work"
        work.mkdir()
        (work / "note.txt").write_text(SECRET + "\n")
        path = f"{folder / 'node_modules' / '.bin'}:{os.environ['PATH']}"
        environment = {"HOME": home, "PATH": path, "IS_SANDBOX": "1", "TERM": "dumb"}

        def start(turn: int, prompt: str) -> subprocess.Popen[str]:
            return subprocess.Popen(
                ["bash", "-c", _script(agent, url, turn, prompt)], cwd=work, env=environment, text=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

        shown = [start(0, "Read the note.").communicate()[0], start(1, "And again?").communicate()[0]]
        interrupted = start(0, HOLD)
        engine.held.wait(HANG_S)
        os.killpg(interrupted.pid, signal.SIGINT)
        stopped = engine.stopped.wait(HANG_S)
        with suppress(ProcessLookupError):
            os.killpg(interrupted.pid, signal.SIGKILL)
        interrupted.communicate()
        return shown, stopped


def _script(agent: str, url: str, turn: int, prompt: str) -> str:
    """Returns the shell commands that run a turn: those of `redline serve --agent`, with the turn's arguments."""
    *exports, start = agent_lines(agent, LOADED, url, KEY).splitlines()
    words = [f"'{prompt}'" if word == "{}" else word for word in _TURNS[agent][turn]]
    return "\n".join([*exports, " ".join([start, *words[1:]])])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("agents", nargs="*")
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    for agent in args.agents or AGENTS:
        if not (args.folder / "node_modules" / ".bin" / agent).exists():
            parser.error(f"{agent} is not in {args.folder}: install it there with npm, as above")
    tokenizer, failed, recorded = FolderTokenizer(builtin_folder()), 0, {}
    for agent in args.agents or AGENTS:
        with serving() as (url, recorder, engine):
            shown, stopped = run_agent(agent, args.folder.resolve(), url, engine)
        first = max(engine.replies[:3], key=lambda reply: len(str(reply)), default=None)
        size = 0 if first is None else len(tokenizer.pieces(_text_of(first)))
        turns = [re.findall(r"heron\. \(turn (\d+)\)", text) for text in shown]
        works = bool(turns[0]) and bool(turns[1]) and int(turns[1][-1]) > int(turns[0][-1]) and stopped
        failed += not works
        statuses = [f"{one['path']}{'?' if one['query'] else ''} {one.get('status')}" for one in recorder.requests]
        print(f"{AGENTS[agent].name}: {'works' if works else 'FAILS'}; first prompt {size:,} tokens; {statuses}")
        for note in sorted({one.get("left_out") or one.get("error", "") for one in recorder.requests}):
            print(f"  {note}")
        if not works:
            print("\n".join(shown))
        recorded[agent] = [{"path": one["path"], "body": in_our_words(one["body"])} for one in recorder.requests]
    if args.record:
        lines = [json.dumps({"agent": agent, **one}) for agent, kept in recorded.items() for one in kept]
        args.record.write_text("".join(f"{line}\n" for line in lines))
    return 1 if failed else 0


OURS = (HOLD, "Read the note.", "And again?", "I look.", "cat note.txt", "heron")
NAMES = {"type", "role", "name", "id", "call_id", "tool_call_id", "tool_use_id"}
NAMES |= {"model", "effort", "tool_choice", "summary"}
MOST_TOOLS = 4


def in_our_words(value: Any, name: str = "") -> Any:
    """Returns a request with the same fields, and texts of our own. It keeps a few of its tools, those of other servers
    and the one for commands among them, and the names of some properties of their schemas."""
    match value:
        case dict() if name in ("metadata", "client_metadata"):
            return {}
        case dict() if name in ("parameters", "input_schema"):
            properties = {key: {"type": "string"} for key in list(value.get("properties", {}))[:3]}
            return {"type": "object", "properties": properties, "additionalProperties": False}
        case dict():
            return {key: in_our_words(one, key) for key, one in value.items()}
        case list() if name == "tools":
            return [in_our_words(one) for one in sorted(value, key=_rank)[:MOST_TOOLS]]
        case list():
            return [in_our_words(one, name) for one in value]
        case str() if name in NAMES or any(word in value for word in OURS) or not value:
            return value if len(value) < 200 else SECRET
        case str():
            return f"Some {name or 'words'}."
    return value


def _rank(tool: dict[str, Any]) -> int:
    function = tool.get("function", tool)
    return 0 if tool.get("type") not in (None, "function") else 1 if function["name"] in COMMAND_TOOLS else 2


def _text_of(reply: protocol.Reply) -> str:
    """Returns the texts of a request that a chat template would join, those of tools included."""
    tools = [tool.name + tool.description + tool.parameters for tool in reply.tools.offered] if reply.tools else []
    return "\n".join([*tools, *(turn.content for turn in reply.messages)])


if __name__ == "__main__":
    sys.exit(main())
