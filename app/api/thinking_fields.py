"""How much a model thinks: the many fields by which clients ask for it, as the switches of its chat template."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from app import protocol
from app.api.api_errors import ApiError, Omissions, unsupported
from engine.settings import LONGEST_EFFORT

_OFF, _ON = ("none", "off", "disabled", "no_think"), ("enabled", "adaptive", "auto", "on")
_LEVELS = ("minimal", "low", "medium", "high", "xhigh", "max")  # from little to much
_SWITCHES = ("enable_thinking", "thinking", "reasoning_effort", "thinking_effort", "thinking_budget")


class ThinkingFields(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of any endpoint.

    reasoning_effort: OpenAI's. reasoning: OpenAI's on /v1/responses, and OpenRouter's. thinking: Anthropic's. think:
    Ollama's. enable_thinking, thinking_budget: Qwen's. chat_template_kwargs: switches of the template, as vLLM and
    llama.cpp have them; other names than _SWITCHES are refused, since they could set any variable of the template.
    output_config: Anthropic's, whose `effort` is read here and whose `format` is the answer's.
    """

    reasoning_effort: str | None = None
    reasoning: Mapping[str, Any] | None = None
    thinking: Mapping[str, Any] | bool | None = None
    think: bool | str | None = None
    enable_thinking: bool | None = None
    thinking_budget: int | None = None
    chat_template_kwargs: Mapping[str, Any] | None = None
    output_config: Mapping[str, Any] | None = None


def thinking_settings(body: ThinkingFields, loaded: protocol.Loaded, omissions: Omissions) -> dict[str, Any]:
    """Returns `thinking`, `effort` and `max_thought_tokens` of SamplingSettings, as far as the request asks for them
    and the model has them. Raises ApiError for invalid values, and for other switches of the template."""
    found: dict[str, Any] = {}
    for name, wanted in _given(body):
        if name.endswith(("budget", "tokens")):
            found |= _budget(name, wanted)
        else:
            found |= _amount(name, wanted, loaded, omissions)
    if found.get("thinking") is False:
        found.pop("effort", None)
        found.pop("max_thought_tokens", None)
    return found


def _given(body: ThinkingFields) -> Iterator[tuple[str, Any]]:
    """Yields the names and values of the fields that are given; of those for the same setting the last one counts."""
    kwargs = body.chat_template_kwargs or {}
    if others := sorted(set(kwargs) - set(_SWITCHES)):
        raise unsupported("chat_template_kwargs", f"{others[0][:40]!r} is not a switch for thinking")
    config, reasoning = body.output_config or {}, body.reasoning or {}
    thinking = body.thinking if isinstance(body.thinking, Mapping) else {"type": body.thinking}
    every = [
        ("output_config.effort", config.get("effort")),
        ("thinking", thinking.get("type")),
        ("thinking.budget_tokens", thinking.get("budget_tokens")),
        ("reasoning.enabled", reasoning.get("enabled")),
        ("reasoning.max_tokens", reasoning.get("max_tokens")),
        ("reasoning.effort", reasoning.get("effort")),
        ("think", body.think),
        *((f"chat_template_kwargs.{name}", value) for name, value in kwargs.items()),
        ("thinking_budget", body.thinking_budget),
        ("enable_thinking", body.enable_thinking),
        ("reasoning_effort", body.reasoning_effort),
    ]
    return ((name, value) for name, value in every if value is not None)


def _budget(name: str, wanted: Any) -> dict[str, Any]:
    if not isinstance(wanted, int) or isinstance(wanted, bool):
        raise ApiError(400, "invalid_value", f"{name} is not a number of tokens", name)
    if wanted == 0:
        return {"thinking": False}
    return {"max_thought_tokens": wanted} if wanted > 0 else {}


def _amount(name: str, wanted: Any, loaded: protocol.Loaded, omissions: Omissions) -> dict[str, Any]:
    """Returns the settings for a field that says whether to think, or by its level how much."""
    if not isinstance(wanted, bool | str) or len(str(wanted)) > LONGEST_EFFORT:
        raise ApiError(400, "invalid_value", f"{name} is neither true or false nor a level such as low or high", name)
    if wanted in loaded.efforts:
        return {"effort": wanted}
    if wanted is False or wanted in _OFF:
        if loaded.thinking:
            return {"thinking": False}
        if loaded.efforts:
            omissions.add(name, f"this model always thinks; its levels: {', '.join(loaded.efforts)}")
        return {}
    known = [level for level in _LEVELS if level in loaded.efforts]
    if wanted in _LEVELS and known:
        nearest = min(known, key=lambda level: abs(_LEVELS.index(level) - _LEVELS.index(wanted)))
        omissions.add(name, f"this model has no level {wanted}: {nearest} is used")
        return {"effort": nearest}
    if wanted is True or wanted in _ON or wanted in _LEVELS:
        return {"thinking": True} if loaded.thinking else {}
    omissions.add(name, f"this model has no level {wanted!r}")
    return {}
