"""Tries clients that others wrote against `redline serve` with the built-in model, and prints a table.

    uv run --with openai --with anthropic --with litellm --with llm --with langchain-openai python -m tests.api.clients

They are no dependencies of Redline. Each check asserts what a user of that client relies on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from tests.api.served import Served, served

MODEL = "SmolLM2-135M-Instruct"
SAY = [{"role": "user", "content": "Name three colours."}]
Check = Callable[[Served], str]  # what it saw


def openai_checks() -> Iterator[tuple[str, Check]]:
    """The `openai` package."""
    import openai

    def client(server: Served) -> Any:
        return openai.OpenAI(base_url=server.url, api_key=server.key, max_retries=0)

    def chat(server: Served) -> str:
        ask = client(server).chat.completions.create
        whole = ask(model=MODEL, messages=SAY, max_tokens=16, temperature=0, logprobs=True)
        parts = ask(model=MODEL, messages=SAY, max_tokens=16, temperature=0, stream=True)
        text = "".join(part.choices[0].delta.content or "" for part in parts)
        assert text == whole.choices[0].message.content and whole.usage.completion_tokens == 16
        assert whole.model_extra["timings"]["predicted_n"] == 16
        assert len(whole.choices[0].logprobs.content) == 16
        return "a stream equals the whole reply"

    def seeds(server: Served) -> str:
        ask = client(server).chat.completions.create
        once, again = (ask(model=MODEL, messages=SAY, max_tokens=12, temperature=1, seed=3, n=2) for _ in range(2))
        texts = [choice.message.content for choice in once.choices]
        assert texts == [choice.message.content for choice in again.choices] and texts[0] != texts[1]
        return "n=2; a seed repeats"

    def stop(server: Served) -> str:
        whole = client(server).completions.create(model=MODEL, prompt="1, 2, 3, 4,", max_tokens=20, temperature=0)
        end = whole.choices[0].text.strip()[2:5]
        cut = client(server).completions.create(
            model=MODEL, prompt="1, 2, 3, 4,", max_tokens=20, temperature=0, stop=[end]
        )
        assert cut.choices[0].finish_reason == "stop" and end not in cut.choices[0].text
        return f"completions, stop {end!r}"

    yield from {"chat": chat, "seeds": seeds, "completions": stop}.items()


def more_openai_checks() -> Iterator[tuple[str, Check]]:
    """The `openai` package: responses, and errors by their classes."""
    import openai

    def client(server: Served, key: str = "") -> Any:
        return openai.OpenAI(base_url=server.url, api_key=key or server.key, max_retries=0)

    def responses(server: Served) -> str:
        whole = client(server).responses.create(model=MODEL, input="Name three colours.", max_output_tokens=16)
        with client(server).responses.stream(model=MODEL, input="Name three colours.", max_output_tokens=16) as stream:
            text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        assert whole.output_text and text
        return f"responses, status {whole.status}"

    def errors(server: Served) -> str:
        ask = client(server).chat.completions.create
        expected: list[tuple[type[Exception], Callable[[], Any]]] = [
            (openai.NotFoundError, lambda: ask(model="gpt-4", messages=SAY)),
            (openai.BadRequestError, lambda: ask(model=MODEL, messages=SAY, temperature=9)),
            (openai.BadRequestError, lambda: ask(model=MODEL, messages=[{"role": "user", "content": "x " * 20000}])),
            (openai.BadRequestError, lambda: ask(model=MODEL, messages=SAY, response_format={"type": "grammar"})),
            (openai.AuthenticationError, lambda: client(server, "wrong").models.list()),
        ]
        for kind, call in expected:
            raises(kind, call)
        return f"{len(expected)} errors by their classes"

    def structured(server: Served) -> str:
        city = {"type": "string", "maxLength": 20}
        schema = {"type": "object", "properties": {"city": city}, "required": ["city"], "additionalProperties": False}
        asked = {"type": "json_schema", "json_schema": {"name": "place", "schema": schema, "strict": True}}
        whole = client(server).chat.completions.create(model=MODEL, messages=SAY, response_format=asked, max_tokens=60)
        found = json.loads(whole.choices[0].message.content)
        assert list(found) == ["city"] and isinstance(found["city"], str)
        return f"a reply by its schema, {whole.timings['draft_n']} tokens drafted"

    yield from {"responses": responses, "errors": errors, "structured output": structured}.items()


def anthropic_checks() -> Iterator[tuple[str, Check]]:
    """The `anthropic` package."""
    import anthropic

    def client(server: Served, key: str = "") -> Any:
        url = server.url.removesuffix("/v1")
        return anthropic.Anthropic(base_url=url, api_key=key or server.key, max_retries=0)

    def chat(server: Served) -> str:
        asked = {"model": MODEL, "messages": SAY, "max_tokens": 16, "system": "Be brief."}
        asked["extra_body"] = {"temperature": 0}  # which this client has no argument for
        whole = client(server).messages.create(**asked)
        with client(server).messages.stream(**asked) as stream:
            text = "".join(stream.text_stream)
            last = stream.get_final_message()
        assert text == whole.content[0].text == last.content[0].text and last.stop_reason == whole.stop_reason
        count = client(server).messages.count_tokens(model=MODEL, messages=SAY, system="Be brief.").input_tokens
        assert count == whole.usage.input_tokens + whole.usage.cache_read_input_tokens
        return "a stream equals the whole message; tokens are counted"

    def errors(server: Served) -> str:
        raises(anthropic.NotFoundError, lambda: client(server).messages.create(model="x", messages=SAY, max_tokens=2))
        raises(anthropic.AuthenticationError, lambda: client(server, "wrong").models.list())
        return "2 errors by their classes"

    yield from {"chat": chat, "errors": errors}.items()


def litellm_checks() -> Iterator[tuple[str, Check]]:
    """The `litellm` package."""
    import litellm

    def chat(server: Served) -> str:
        asked = {"model": f"openai/{MODEL}", "messages": SAY, "max_tokens": 16, "temperature": 0}
        asked |= {"api_base": server.url, "api_key": server.key}
        whole = litellm.completion(**asked).choices[0].message.content
        text = "".join(part.choices[0].delta.content or "" for part in litellm.completion(**asked, stream=True))
        assert text == whole
        raises(litellm.AuthenticationError, lambda: litellm.completion(**asked | {"api_key": "wrong"}))
        return "a stream equals the whole reply; 1 error"

    yield "chat", chat


def langchain_checks() -> Iterator[tuple[str, Check]]:
    """The `langchain-openai` package."""
    from langchain_openai import ChatOpenAI

    def chat(server: Served) -> str:
        model = ChatOpenAI(model=MODEL, base_url=server.url, api_key=server.key, max_tokens=16, temperature=0)
        whole = model.invoke("Name three colours.")
        assert "".join(part.text for part in model.stream("Name three colours.")) == whole.content
        assert whole.usage_metadata["output_tokens"] == 16
        return "a stream equals the whole reply; usage"

    yield "chat", chat


def llm_checks() -> Iterator[tuple[str, Check]]:
    """The command `llm`, with the server as a further OpenAI model."""

    def chat(server: Served) -> str:
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

    yield "chat", chat


def raises(kind: type[Exception], call: Callable[[], Any]) -> None:
    """Asserts that a call fails as its client says it does."""
    try:
        call()
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")


def main() -> int:
    """Prints a line for each check; returns how many failed."""
    clients = {
        "openai": lambda: chain(openai_checks(), more_openai_checks()),
        "anthropic": anthropic_checks,
        "litellm": litellm_checks,
        "langchain-openai": langchain_checks,
        "llm": llm_checks,
    }
    failed = 0
    with served() as server:
        for name, checks in clients.items():
            for what, check in checks():
                try:
                    line = f"passes | {check(server)}"
                except Exception as error:  # noqa: BLE001  broad: whatever a client raises is a line of the table
                    failed += 1
                    line = f"FAILS | {type(error).__name__}: {' '.join(str(error).split())[:300]}"
                print(f"| {name} | {what} | {line} |", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
