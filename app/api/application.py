"""The routes of the API behind its gate."""

from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from app.api.access import Access, AccessRules
from app.api.anthropic_messages import CountTokens, MessageForm
from app.api.api_errors import ApiError
from app.api.chat_completions import ChatForm
from app.api.completions import CompletionForm
from app.api.endpoint import Endpoint
from app.api.http_replies import json_response, until_gone
from app.api.openapi import openapi_page
from app.api.recent_responses import RecentResponses
from app.api.reply_stream import Engine
from app.api.request_schema import ChatRequest, CompletionRequest, MessagesRequest, ResponsesRequest
from app.api.responses import ResponseForm


def application(engine: Engine, rules: AccessRules) -> ASGIApp:
    """Returns the API of a pair as an ASGI application."""
    post: dict[str, Any] = {
        "/v1/chat/completions": Endpoint(engine, ChatRequest, ChatForm),
        "/v1/completions": Endpoint(engine, CompletionRequest, CompletionForm),
        "/v1/responses": Endpoint(engine, ResponsesRequest, partial(ResponseForm, RecentResponses())),
        "/v1/messages": Endpoint(engine, MessagesRequest, MessageForm),
        "/v1/messages/count_tokens": CountTokens(engine),
    }

    async def health(_: Request) -> Response:
        engine.client.check()
        return json_response({"status": "ok"})

    async def openapi(_: Request) -> Response:
        return json_response(openapi_page())

    async def models(_: Request) -> Response:
        return json_response({"object": "list", "data": [_card(engine)]})

    async def model(request: Request) -> Response:
        engine.check_model(request.path_params["name"])
        return json_response(_card(engine))

    get = {
        "/health": health,
        "/openapi.json": openapi,
        "/v1/models": _once_loaded(models, engine),
        "/v1/models/{name:path}": _once_loaded(model, engine),
    }
    get["/v1/models/"] = get["/v1/models"]
    post |= {f"{path}/": endpoint for path, endpoint in post.items()}
    routes = [Route(path, _once_loaded(endpoint, engine), methods=["POST"]) for path, endpoint in post.items()]
    routes += [Route(path, endpoint, methods=["GET"]) for path, endpoint in reversed(get.items())]
    handlers: Any = {ApiError: _api_error, HTTPException: _http_error, Exception: _unexpected}
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return Access(app, rules, routes)


def _card(engine: Engine) -> dict[str, Any]:
    """Returns what is told of the model that is loaded."""
    loaded = engine.loaded
    about = {"context": loaded.context, "drafter": loaded.drafter, "speculation": loaded.speculation}
    about |= {"note": loaded.note} if loaded.note else {}
    card = {"id": loaded.target, "object": "model", "created": engine.created, "owned_by": "redline"}
    return {**card, "max_model_len": loaded.context, "redline": about}


def _once_loaded(endpoint: Any, engine: Engine) -> Any:
    """Returns the endpoint as a coroutine function, which is how Starlette tells endpoints from applications. It waits
    for a model first, as long as its client does."""

    async def answer(request: Request) -> Response:
        if engine.client.loaded is None:
            await request.body()  # which is kept
            await until_gone(request.receive, engine.client.until_loaded())
        response: Response = await endpoint(request)
        return response

    return answer


def _shaped(request: Request, error: ApiError) -> Response:
    response = json_response(error.body(request.scope["path"].startswith("/v1/messages")), error.status)
    response.headers.update(error.headers)
    return response


async def _api_error(request: Request, error: ApiError) -> Response:
    return _shaped(request, error)


async def _http_error(request: Request, error: HTTPException) -> Response:
    code = "not_found" if error.status_code == 404 else "http_error"
    return _shaped(request, ApiError(error.status_code, code, str(error.detail)))


async def _unexpected(request: Request, _: Exception) -> Response:
    return _shaped(request, ApiError(500, "internal_error", "something unexpected went wrong in the server"))
