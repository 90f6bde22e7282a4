"""Tries clients that others wrote against `redline serve` with the built-in model, and prints a table.

    uv run --with openai --with anthropic --with litellm --with llm --with langchain-openai
        python -m tests.programs.api_clients

Names of clients try these alone. They are no dependencies of Redline; aider and those of `clients` get environments of
their own, which uv and npm make. Each check asserts what a user of that client relies on.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.app.api.serve_process import Served, served, tool_model

MODEL = "SmolLM2-135M-Instruct"
TOOLS_MODEL = "SmolLM2-with-tools"
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER = {"name": "weather", "description": "tells the weather of a city", "parameters": CITY}
SAY = [{"role": "user", "content": "Name three colours."}]
Check = Callable[[Served], str]  # what it saw
CHECKS: list[tuple[str, str, str, Check]] = []  # the client, what is checked, the model


def check(client: str, what: str, model: str = MODEL) -> Callable[[Check], Check]:
    """Makes a function a check of a client: a package, or a command."""

    def add(function: Check) -> Check:
        CHECKS.append((client, what, model, function))
        return function

    return add


def _openai(server: Served, key: str = "") -> Any:
    import openai

    return openai.OpenAI(base_url=server.url, api_key=key or server.key, max_retries=0)


def _anthropic(server: Served, key: str = "") -> Any:
    import anthropic

    return anthropic.Anthropic(base_url=server.url.removesuffix("/v1"), api_key=key or server.key, max_retries=0)


@check("openai", "chat")
def openai_chat(server: Served) -> str:
    ask = _openai(server).chat.completions.create
    whole = ask(model=MODEL, messages=SAY, max_tokens=16, temperature=0, logprobs=True)
    parts = ask(model=MODEL, messages=SAY, max_tokens=16, temperature=0, stream=True)
    text = "".join(part.choices[0].delta.content or "" for part in parts)
    assert text == whole.choices[0].message.content and whole.usage.completion_tokens == 16
    assert whole.model_extra["timings"]["predicted_n"] == 16
    assert len(whole.choices[0].logprobs.content) == 16
    return "a stream equals the whole reply"


@check("openai", "seeds")
def openai_seeds(server: Served) -> str:
    ask = _openai(server).chat.completions.create
    once, again = (ask(model=MODEL, messages=SAY, max_tokens=12, temperature=1, seed=3, n=2) for _ in range(2))
    texts = [choice.message.content for choice in once.choices]
    assert texts == [choice.message.content for choice in again.choices] and texts[0] != texts[1]
    return "n=2; a seed repeats"


@check("openai", "completions")
def openai_completions(server: Served) -> str:
    whole = _openai(server).completions.create(model=MODEL, prompt="1, 2, 3, 4,", max_tokens=20, temperature=0)
    end = whole.choices[0].text.strip()[2:5]
    cut = _openai(server).completions.create(
        model=MODEL, prompt="1, 2, 3, 4,", max_tokens=20, temperature=0, stop=[end]
    )
    assert cut.choices[0].finish_reason == "stop" and end not in cut.choices[0].text
    return f"completions, stop {end!r}"


@check("openai", "responses")
def openai_responses(server: Served) -> str:
    whole = _openai(server).responses.create(model=MODEL, input="Name three colours.", max_output_tokens=16)
    with _openai(server).responses.stream(model=MODEL, input="Name three colours.", max_output_tokens=16) as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
    assert whole.output_text and text
    return f"responses, status {whole.status}"


@check("openai", "errors")
def openai_errors(server: Served) -> str:
    import openai

    ask = _openai(server).chat.completions.create
    expected: list[tuple[type[Exception], Callable[[], Any]]] = [
        (openai.NotFoundError, lambda: ask(model="gpt-4", messages=SAY)),
        (openai.BadRequestError, lambda: ask(model=MODEL, messages=SAY, temperature=9)),
        (openai.BadRequestError, lambda: ask(model=MODEL, messages=[{"role": "user", "content": "x " * 20000}])),
        (openai.BadRequestError, lambda: ask(model=MODEL, messages=SAY, response_format={"type": "grammar"})),
        (openai.AuthenticationError, lambda: _openai(server, "wrong").models.list()),
    ]
    for kind, call in expected:
        raises(kind, call)
    return f"{len(expected)} errors by their classes"


@check("openai", "structured output")
def openai_structured_output(server: Served) -> str:
    city = {"type": "string", "maxLength": 20}
    schema = {"type": "object", "properties": {"city": city}, "required": ["city"], "additionalProperties": False}
    asked = {"type": "json_schema", "json_schema": {"name": "place", "schema": schema, "strict": True}}
    whole = _openai(server).chat.completions.create(model=MODEL, messages=SAY, response_format=asked, max_tokens=60)
    found = json.loads(whole.choices[0].message.content)
    assert list(found) == ["city"] and isinstance(found["city"], str)
    return f"a reply by its schema, {whole.timings['draft_n']} tokens drafted"


@check("anthropic", "chat")
def anthropic_chat(server: Served) -> str:
    asked = {"model": MODEL, "messages": SAY, "max_tokens": 16, "system": "Be brief."}
    asked["extra_body"] = {"temperature": 0}  # which this client has no argument for
    whole = _anthropic(server).messages.create(**asked)
    with _anthropic(server).messages.stream(**asked) as stream:
        text = "".join(stream.text_stream)
        last = stream.get_final_message()
    assert text == whole.content[0].text == last.content[0].text and last.stop_reason == whole.stop_reason
    count = _anthropic(server).messages.count_tokens(model=MODEL, messages=SAY, system="Be brief.").input_tokens
    assert count == whole.usage.input_tokens + whole.usage.cache_read_input_tokens
    return "a stream equals the whole message; tokens are counted"


@check("anthropic", "errors")
def anthropic_errors(server: Served) -> str:
    import anthropic

    raises(anthropic.NotFoundError, lambda: _anthropic(server).messages.create(model="x", messages=SAY, max_tokens=2))
    raises(anthropic.AuthenticationError, lambda: _anthropic(server, "wrong").models.list())
    return "2 errors by their classes"


@check("litellm", "chat")
def litellm_chat(server: Served) -> str:
    import litellm

    asked = {"model": f"openai/{MODEL}", "messages": SAY, "max_tokens": 16, "temperature": 0}
    asked |= {"api_base": server.url, "api_key": server.key}
    whole = litellm.completion(**asked).choices[0].message.content
    text = "".join(part.choices[0].delta.content or "" for part in litellm.completion(**asked, stream=True))
    assert text == whole
    raises(litellm.AuthenticationError, lambda: litellm.completion(**asked | {"api_key": "wrong"}))
    return "a stream equals the whole reply; 1 error"


@check("langchain-openai", "chat")
def langchain_chat(server: Served) -> str:
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model=MODEL, base_url=server.url, api_key=server.key, max_tokens=16, temperature=0)
    whole = model.invoke("Name three colours.")
    assert "".join(part.text for part in model.stream("Name three colours.")) == whole.content
    assert whole.usage_metadata["output_tokens"] == 16
    return "a stream equals the whole reply; usage"


@check("llm", "chat")
def llm_chat(server: Served) -> str:
    with tempfile.TemporaryDirectory() as folder:
        model = {"model_id": "redline", "model_name": MODEL, "api_base": server.url, "api_key_name": "redline"}
        Path(folder, "extra-openai-models.yaml").write_text(json.dumps([model]))
        command = [sys.executable, "-m", "llm", "-m", "redline", "--key", server.key, "-o", "max_tokens", "8"]
        own = os.environ | {"LLM_USER_PATH": folder, "LLM_LOAD_PLUGINS": ""}
        command += ["Name three colours."]
        done = subprocess.run(
            command, env=own, capture_output=True, text=True, check=False, timeout=120, stdin=subprocess.DEVNULL
        )
    assert done.returncode == 0 and done.stdout.strip(), done.stderr[-300:]
    return "the command prints a streamed reply"


@check("openai", "tools", TOOLS_MODEL)
def openai_tools(server: Served) -> str:
    tools = [{"type": "function", "function": {**WEATHER, "strict": True}}]
    asked = {"model": TOOLS_MODEL, "messages": SAY, "tools": tools, "tool_choice": "required", "temperature": 0}
    asked |= {"max_tokens": 100, "parallel_tool_calls": False}
    whole = _openai(server).chat.completions.create(**asked).choices[0]
    (call,) = whole.message.tool_calls
    assert whole.finish_reason == "tool_calls" and whole.message.content is None
    check_city(call.function.name, json.loads(call.function.arguments))
    with _openai(server).chat.completions.stream(**asked) as stream:
        (streamed,) = stream.get_final_completion().choices[0].message.tool_calls
    assert streamed.function.arguments == call.function.arguments
    result = {"role": "tool", "tool_call_id": call.id, "content": "rain"}
    turns = [*SAY, whole.message.model_dump(exclude_none=True), result]
    last = _openai(server).chat.completions.create(**asked | {"messages": turns, "tool_choice": "none"})
    assert last.choices[0].message.content
    return f"a call whole and streamed, {call.function.arguments}; its result goes back"


@check("openai", "tools, responses", TOOLS_MODEL)
def openai_tools_responses(server: Served) -> str:
    tool = {"type": "function", "strict": True, **WEATHER}
    asked = {"model": TOOLS_MODEL, "input": "x", "tools": [tool]}
    asked |= {"max_output_tokens": 100, "tool_choice": {"type": "function", "name": "weather"}}
    (call,) = _openai(server).responses.create(**asked).output
    check_city(call.name, json.loads(call.arguments))
    with _openai(server).responses.stream(**asked) as stream:
        done = [event for event in stream if event.type == "response.function_call_arguments.done"]
    check_city("weather", json.loads(done[0].arguments))
    turns = [{"role": "user", "content": "x"}, call.model_dump(exclude_none=True)]
    turns += [{"type": "function_call_output", "call_id": call.call_id, "output": "rain"}]
    last = _openai(server).responses.create(**asked | {"input": turns, "tool_choice": "none"})
    assert last.output_text
    return "a call whole and streamed; its result goes back"


@check("openai", "tools, errors", TOOLS_MODEL)
def openai_tools_errors(server: Served) -> str:
    import openai

    client = _openai(server)
    tools = [{"type": "function", "function": {**WEATHER, "parameters": {"type": "foo"}, "strict": True}}]
    ask = client.chat.completions.create
    raises(openai.BadRequestError, lambda: ask(model=TOOLS_MODEL, messages=SAY, tools=tools))
    return "a schema that cannot be followed"


@check("anthropic", "tools", TOOLS_MODEL)
def anthropic_tools(server: Served) -> str:
    client = _anthropic(server)
    tool = {"name": "weather", "description": "tells the weather", "input_schema": CITY}
    asked = {"model": TOOLS_MODEL, "messages": SAY, "max_tokens": 100, "tools": [tool]}
    asked["tool_choice"] = {"type": "tool", "name": "weather"}
    whole = client.messages.create(**asked)
    (call,) = whole.content
    assert whole.stop_reason == "tool_use"
    check_city(call.name, call.input)
    with client.messages.stream(**asked) as stream:
        (streamed,) = stream.get_final_message().content
    check_city(streamed.name, streamed.input)
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "rain"}
    turns = [*SAY, {"role": "assistant", "content": whole.content}, {"role": "user", "content": [result]}]
    last = client.messages.create(**asked | {"messages": turns, "tool_choice": {"type": "none"}})
    assert last.content[0].text
    return "a call whole and streamed; its result goes back"


@check("litellm", "tools", TOOLS_MODEL)
def litellm_tools(server: Served) -> str:
    import litellm

    asked = {"model": f"openai/{TOOLS_MODEL}", "messages": SAY, "max_tokens": 100, "temperature": 0}
    asked |= {"api_base": server.url, "api_key": server.key, "tool_choice": "required"}
    asked["tools"] = [{"type": "function", "function": WEATHER}]
    call = litellm.completion(**asked).choices[0].message.tool_calls[0]
    check_city(call.function.name, json.loads(call.function.arguments))
    parts = list(litellm.completion(**asked, stream=True))
    built = litellm.stream_chunk_builder(parts).choices[0].message.tool_calls[0]
    assert built.function.arguments == call.function.arguments
    return "a call whole and streamed"


@check("langchain-openai", "tools", TOOLS_MODEL)
def langchain_tools(server: Served) -> str:
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model=TOOLS_MODEL, base_url=server.url, api_key=server.key, max_tokens=100, temperature=0)
    bound = model.bind_tools([{"type": "function", "function": WEATHER}], tool_choice="weather")
    (call,) = bound.invoke("the weather?").tool_calls
    check_city(call["name"], call["args"])
    schema = {"title": "weather", "description": "a city", **CITY}
    found = model.with_structured_output(schema, method="json_schema").invoke("a city?")
    assert set(found) == {"city"}
    found = model.with_structured_output(schema, method="function_calling").invoke("a city?")
    assert set(found) == {"city"}
    return "a call; structured output in both ways"


@check("aider", "chat")
def aider_chat(server: Served) -> str:
    with tempfile.TemporaryDirectory() as folder:
        settings = [{"name": f"openai/{MODEL}", "extra_params": {"max_tokens": 200, "stop": [".", "!", "\n"]}}]
        Path(folder, ".aider.model.settings.yml").write_text(json.dumps(settings))
        Path(folder, "hello.py").write_text('print("hello")\n')
        command = ["uv", "tool", "run", "--from", "aider-chat", "aider"]
        command += ["--model", f"openai/{MODEL}", "--openai-api-base", server.url, "--openai-api-key", server.key]
        command += [
            "--no-git",
            "--yes-always",
            "--no-check-update",
            "--no-show-model-warnings",
            "--analytics-disable",
        ]
        command += ["--map-tokens", "0", "--edit-format", "ask", "--message", "Say hello.", "hello.py"]
        cache = os.environ.get("UV_CACHE_DIR", str(Path.home() / ".cache" / "uv"))
        own = os.environ | {"HOME": folder, "UV_CACHE_DIR": cache}
        done = subprocess.run(
            command, env=own, cwd=folder, capture_output=True, text=True, timeout=400, stdin=subprocess.DEVNULL
        )
    assert done.returncode == 0 and "Tokens:" in done.stdout, (done.stdout + done.stderr)[-400:]
    return "the command has a reply, and its count of tokens"


def check_city(name: str, arguments: Any) -> None:
    """Asserts that a call is the one that was offered."""
    assert name == "weather" and set(arguments) == {"city"} and len(arguments["city"]) <= 20


def raises(kind: type[Exception], call: Callable[[], Any]) -> None:
    """Asserts that a call fails as its client says it does."""
    try:
        call()
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")


def check_file(path: Path) -> Check:
    """Returns a check that runs a script of `clients` against a model that takes tools."""

    def run(server: Served) -> str:
        with tempfile.TemporaryDirectory() as folder:
            command = ["uv", "run", "--no-project", "--quiet", str(path)]
            if path.suffix == ".mjs":
                packages = path.read_text().splitlines()[0].removeprefix("// npm: ").split(".")[0].split()
                subprocess.run(["npm", "install", "--silent", *packages], cwd=folder, check=True, timeout=400)
                command = ["node", shutil.copy(path, folder)]
            own = os.environ | {"URL": server.url, "KEY": server.key, "MODEL": TOOLS_MODEL, "HOME": folder}
            own["UV_CACHE_DIR"] = os.environ.get("UV_CACHE_DIR", str(Path.home() / ".cache" / "uv"))
            done = subprocess.run(command, env=own, cwd=folder, capture_output=True, text=True, timeout=400)
        assert done.returncode == 0, (done.stdout + done.stderr)[-600:]
        return done.stdout.strip().splitlines()[-1]

    return run


for file in sorted(Path(__file__).with_name("clients").glob("*_client.*")):
    client = file.stem.removesuffix("_client").replace("_", "-")
    CHECKS.append((client, "npm" if file.suffix == ".mjs" else "PyPI", TOOLS_MODEL, check_file(file)))


def try_clients(server: Served, model: str, wanted: list[str]) -> int:
    """Prints a line for each check that this model is for; returns how many failed."""
    failed = 0
    for client, what, for_model, function in CHECKS:
        if for_model != model or (wanted and client not in wanted):
            continue
        try:
            line = f"passes | {function(server)}"
        except Exception as error:  # noqa: BLE001  broad: whatever a client raises is a line of the table
            failed += 1
            line = f"FAILS | {type(error).__name__}: {' '.join(str(error).split())[:300]}"
        print(f"| {client} | {what} | {line} |", flush=True)
    return failed


def main() -> int:
    """Tries all clients with the built-in model, and those that know tools with one that takes them."""
    wanted = sys.argv[1:]
    with served() as server:
        failed = try_clients(server, MODEL, wanted)
    with tempfile.TemporaryDirectory() as folder, served(str(tool_model(Path(folder, TOOLS_MODEL)))) as server:
        return failed + try_clients(server, TOOLS_MODEL, wanted)


if __name__ == "__main__":
    sys.exit(main())
