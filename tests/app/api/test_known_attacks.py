"""Attacks that other local servers fell to, and the rules that keep this one from them."""

import json
from pathlib import Path
from unittest import mock

import pytest

from app.api.access import LONGEST_BODY
from app.api.key_file import read_or_make_key
from app.api.loopback_server import open_socket
from app.cli.serve import add_parser
from app.command_line import Parser
from engine.errors import UsageError
from tests.app.api.api_calls import CHAT, KEY, PORT, Api, post, with_api

NESTED = b'{"messages": [{"role": "user", "content": "[[[["}], "user": %s%s}'
FOREIGN_HOSTS = [
    "attacker.example",
    f"attacker.example:{PORT}",
    "127.0.0.1:1",
    f"127.0.0.1.x:{PORT}",
    f"0.0.0.0:{PORT}",
    f"127.0.0.1:{PORT}/health?",
    f"127.0.0.1:{PORT}#@x",
    f"x@127.0.0.1:{PORT}",
    "a/health",
]


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_a_name_that_was_rebound_to_loopback_is_refused(host: str):
    """CVE-2024-28224 (Ollama), CVE-2025-66414, CVE-2025-66416 and CVE-2026-34742 (the MCP SDKs for TypeScript, Python
    and Go): a web page reaches a server on loopback under its own name, by DNS rebinding, because the Host header is
    not checked. CVE-2026-48710 (Starlette): a malformed Host changes the path of `request.url`. Here the Host is one of
    a few exact texts, on every route and before the key, and paths come from the scope."""

    async def scenario(api: Api) -> None:
        for method, path in (("GET", "/health"), ("GET", "/v1/models"), ("POST", "/v1/chat/completions")):
            answer = await api.call(method, path, json.dumps(CHAT).encode(), {"host": host})
            assert (answer.status, answer.json["error"]["code"]) == (403, "foreign_host")
        assert api.engine.requests == []

    with_api(scenario)


@pytest.mark.parametrize("origin", ["https://attacker.example", "null", "http://127.0.0.1.attacker.example", "file://"])
def test_other_web_pages_are_refused_and_no_page_may_read(origin: str):
    """CVE-2026-2611 (MLflow): the check of the Origin header covered an enumeration of paths, and the local assistant
    stood under others, so that any web page could have it run commands. Here an Origin that is not loopback is refused
    whatever the path is, even with the key, and no answer carries CORS headers."""

    async def scenario(api: Api) -> None:
        seen = set()
        for path in ("/v1/chat/completions", "/v1/messages", "/health", "/ajax-api/3.0/x", "/"):
            refused = await api.post(path, CHAT, headers={"origin": origin})
            assert refused.status == 403
            seen |= set(refused.headers)
        own = await api.post("/v1/chat/completions", CHAT, headers={"origin": f"http://localhost:{PORT}"})
        assert own.status == 200
        assert not [name for name in seen | set(own.headers) if name.startswith("access-control")]

    with_api(scenario)


@pytest.mark.parametrize(
    "given", ["", "Bearer ", f"Bearer {KEY}x", f"Bearer {KEY[:-1]}", f"Basic {KEY}", "Bearer \xff"]
)
def test_every_route_but_health_needs_the_key(given: str):
    """Servers without authentication are what makes the attacks above work."""

    async def scenario(api: Api) -> None:
        paths = ("/v1/models", "/openapi.json", "/docs", "/", "/health/", "//health", "/v1/../health")
        for path in paths:
            assert (await api.call("GET", path, headers={"authorization": given})).status == 401
        assert (await api.call("GET", "/health", headers={"authorization": given})).status == 200
        assert (await api.post("/v1/messages", CHAT, headers={"authorization": given})).json["type"] == "error"
        named = await api.call("GET", "/v1/models", headers={"authorization": "", "x-api-key": KEY})
        assert named.status == 200

    with_api(scenario)


def test_numbers_that_shift_the_context_are_refused():
    """CVE-2026-21869 (llama.cpp): a negative n_discard writes out of bounds once the context is full. There is no such
    parameter, and every number that there is has bounds."""
    assert post("/v1/completions", {"prompt": "x", "n_discard": -9}).status == 400
    for name in ("max_tokens", "n", "seed", "top_k", "top_p", "min_p", "temperature", "repetition_penalty"):
        for value in (-2, -(2**63), 2**64, 1e308, "1"):
            assert post("/v1/completions", {"prompt": "x", name: value}).status == 400, (name, value)


@pytest.mark.parametrize("name", ["chat_template", "chat_template_kwargs", "documents"])
def test_clients_give_no_templates(name: str):
    """CVE-2025-62426 (vLLM): chat_template_kwargs override arguments of the function that applies the template, and
    block the event loop. Neither templates nor their arguments are taken from clients, but for the known switches of
    thinking, which are read as such."""
    answer = post("/v1/chat/completions", {**CHAT, name: {"tokenize": True}})
    assert (answer.status, answer.json["error"]["param"]) == (400, name)


@pytest.mark.parametrize("parameters", [{"type": "something", "pattern": "("}, {"$ref": "#"}, 3, None, []])
def test_schemas_of_tools_cannot_end_the_engine(parameters: object):
    """CVE-2025-48944 (vLLM): an invalid `pattern` or `type` in the parameters of a tool ends the worker. Here a schema
    is a text to the host, which refuses what llguidance does not compile (tests/app/host/test_tools.py)."""

    async def scenario(api: Api) -> None:
        tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
        answer = await api.post("/v1/chat/completions", {**CHAT, "tools": tools})
        if parameters is None or isinstance(parameters, dict):
            (request,) = api.engine.requests
            assert answer.status == 200 and isinstance(request.tools.offered[0].parameters, str)
        else:
            assert answer.status == 400 and api.engine.requests == []

    with_api(scenario)


def test_there_are_no_routes_that_change_what_is_installed():
    """Families of Ollama's and LM Studio's faults: models that are pulled, pushed, created or deleted by a request."""

    async def scenario(api: Api) -> None:
        for path in ("/api/pull", "/api/delete", "/api/create", "/v1/models", "/v1/load_lora_adapter", "/slots/0"):
            assert (await api.post(path, {"name": "x"})).status in (404, 405)
        assert (await api.call("DELETE", "/v1/models/x")).status == 405
        assert (await api.call("OPTIONS", "/v1/chat/completions")).status == 405

    with_api(scenario)


# --- bodies -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16"]
)
def test_only_json_is_read(kind: str):
    """A form of another web page may post text/plain without asking first."""
    assert post("/v1/chat/completions", CHAT, headers={"content-type": kind}).status == 415
    assert post("/v1/chat/completions", CHAT, headers={"content-encoding": "gzip"}).status == 415


def test_bodies_are_bounded_in_size_time_and_depth():
    async def scenario(api: Api) -> list[int]:
        path = "/v1/chat/completions"
        return [
            (await api.call("POST", path, b"", {"content-length": str(LONGEST_BODY + 1)})).status,
            (await api.call("POST", path, [b"x" * (LONGEST_BODY // 2)] * 4 + [b""])).status,
            (await api.call("POST", path, [b"{"])).status,
            (await api.call("POST", path, b"[" * 100_000 + b"]" * 100_000)).status,
            (await api.call("POST", path, b'{"messages": "\xff"}')).status,
            (await api.call("POST", path, b'{"messages": [{"role": "user", "content": "\\ud800"}]}')).status,
        ]

    assert with_api(scenario, body_time_s=0.0) == [413, 413, 408, 400, 400, 400]


@pytest.mark.parametrize(("depth", "status"), [(63, 200), (64, 400)])
def test_objects_and_lists_nest_to_a_bound(depth: int, status: int):
    answer = with_api(lambda api: api.call("POST", "/v1/chat/completions", NESTED % (b"[" * depth, b"]" * depth)))
    assert answer.status == status and (status == 200 or answer.json["error"]["code"] == "too_deep")


# --- the socket and the key -------------------------------------------------------------------


def test_no_option_opens_the_server_to_other_machines():
    """0.0.0.0 is what made most of the above reachable: there is no option for an address."""
    commands = Parser().add_subparsers(parser_class=Parser)
    add_parser(commands)
    with pytest.raises(SystemExit):
        commands.choices["serve"].parse_args(["--host", "0.0.0.0"])
    with open_socket(0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


def test_the_key_is_private_and_stays(tmp_path: Path):
    path = tmp_path / "new" / "key"
    key = read_or_make_key(path)
    assert len(key) >= 32 and read_or_make_key(path) == key and path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    with pytest.raises(UsageError, match="chmod 600"):
        read_or_make_key(path)


def test_a_request_may_not_name_two_hosts():
    async def scenario(api: Api) -> int:
        scope = {"type": "http", "method": "GET", "path": "/health", "headers": [(b"host", b"127.0.0.1:8080")] * 2}
        send, receive = mock.AsyncMock(), mock.AsyncMock(return_value={"type": "http.disconnect"})
        await api.app(scope, receive, send)
        return send.await_args_list[0].args[0]["status"]

    assert with_api(scenario) == 403
