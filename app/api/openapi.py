"""The page `/openapi.json`: what can be requested, from the records that requests are read into."""

from functools import cache
from typing import Any

import msgspec

from app.api.request_schema import ChatRequest, CompletionRequest, MessagesRequest, ResponsesRequest

_REQUESTS = {
    "/v1/chat/completions": ChatRequest,
    "/v1/completions": CompletionRequest,
    "/v1/responses": ResponsesRequest,
    "/v1/messages": MessagesRequest,
    "/v1/messages/count_tokens": MessagesRequest,
}
_ERRORS = {
    "400": "invalid",
    "401": "no key",
    "403": "foreign host or origin",
    "404": "no such model",
    "408": "the body took too long",
    "413": "too large",
    "415": "no JSON",
    "429": "busy",
    "503": "the engine is not available",
}


@cache
def openapi_page() -> dict[str, Any]:
    """Returns the page. Answers are described in words: their shapes are OpenAI's and Anthropic's."""
    template = "#/components/schemas/{name}"
    bodies, schemas = msgspec.json.schema_components(list(_REQUESTS.values()), ref_template=template)
    responses = {"200": {"description": "the reply, or its events"}}
    responses |= {status: {"description": text} for status, text in _ERRORS.items()}
    paths: dict[str, Any] = {
        path: {
            "post": {
                "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
                "responses": responses,
            }
        }
        for path, body in zip(_REQUESTS, bodies, strict=True)
    }
    answers: dict[str, Any] = {"200": {"description": "JSON"}, "403": {"description": _ERRORS["403"]}}
    keyed = answers | {"401": {"description": _ERRORS["401"]}}
    paths |= {path: {"get": {"responses": keyed}} for path in ("/openapi.json", "/v1/models")}
    health = answers | {"503": {"description": _ERRORS["503"]}}
    paths["/health"] = {"get": {"responses": health, "security": []}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Redline", "version": "1"},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        "security": [{"key": []}],
    }
