"""From the body of a request to its record: what asks for nothing goes, what Redline does not have is left out and
told, and what would change the meaning of the reply is refused by name.

Fields that change nothing about the reply (`user`, `metadata` and the like) are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from app.api.api_errors import ApiError, unsupported
from app.api.omissions import Omissions

_TEMPLATES = "the model's own chat template is used"
_GRAMMARS = "ask for structured output with response_format"
# What would change the meaning of the reply, and why it is refused.
REFUSED = {
    "chat_template": _TEMPLATES,
    "documents": _TEMPLATES,
    "grammar": _GRAMMARS,
    "json_schema": _GRAMMARS,
    "guided_json": _GRAMMARS,
    "guided_regex": _GRAMMARS,
    "guided_choice": _GRAMMARS,
    "guided_grammar": _GRAMMARS,
    "structured_outputs": _GRAMMARS,
    "functions": "give them as tools",
    "function_call": "give it as tool_choice",
    "audio": "replies are text",
    "suffix": "the model continues text and does not fill gaps",
    "best_of": "ask for n replies instead",
    "echo": "the prompt is not repeated",
    "n_discard": "the context is never shifted",
    "stop_token_ids": "give the texts that end the reply as stop",
    "bad_words": "give the ids of their tokens as logit_bias",
    "conversation": "conversations are not kept: send the whole conversation",
    "background": "the reply is sent while the client waits",
    "mcp_servers": "Redline does not connect to other servers",
}
# Ways of sampling and lengths that other servers have. Replies mean the same without them.
_SAMPLERS = "this way of sampling is not available"
LEFT_OUT = {
    **dict.fromkeys(("typical_p", "typical", "tfs_z", "tfs", "top_a", "eta_cutoff", "epsilon_cutoff"), _SAMPLERS),
    **dict.fromkeys(("xtc_probability", "dry_multiplier", "mirostat", "mirostat_mode", "dynatemp_range"), _SAMPLERS),
    **dict.fromkeys(("smoothing_factor", "top_n_sigma", "no_repeat_ngram_size"), _SAMPLERS),
    "min_tokens": "a reply ends where the model ends it",
    "ignore_eos": "a reply ends where the model ends it",
}
_NEUTRAL_SAMPLERS = {"typical_p": 1, "typical": 1, "tfs_z": 1, "tfs": 1}
# Values that ask for nothing, beside null, false, "", [], {} and, where they are left out, 0.
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "max_tokens": (-1, 0),
    "max_completion_tokens": (-1, 0),
    "max_output_tokens": (-1, 0),
    "n_predict": (-1,),
    "seed": (-1,),
    "top_k": (-1,),
    "best_of": (1,),
    "function_call": ("auto", "none"),
    "stop": ("", [], [""]),
    "stop_sequences": ([""],),
    "repetition_penalty": (0,),
}
_EMPTY: tuple[Any, ...] = (None, False, "", [], {})

T = TypeVar("T", bound=msgspec.Struct)


def read_request(body: bytes, kind: type[T], omissions: Omissions) -> T:
    """Returns the request in a body. Raises ApiError for what is no such request, and for fields of REFUSED."""
    try:
        fields = msgspec.json.decode(body)
        if not isinstance(fields, dict):
            raise msgspec.ValidationError("the body must be a JSON object")
        return msgspec.convert(_asked(fields, kind, omissions), kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = str(error).encode(errors="replace").decode()
        raise ApiError(400, "invalid_request", f"the request cannot be read: {message}") from error


def _asked(fields: Mapping[str, Any], kind: type[msgspec.Struct], omissions: Omissions) -> dict[str, Any]:
    """Returns the fields that ask for something. Raises ApiError."""
    asked = {name: value for name, value in fields.items() if not _is_neutral(name, value)}
    for name in asked.keys() - set(kind.__struct_fields__):
        if name in REFUSED:
            raise unsupported(name, REFUSED[name])
        if name in LEFT_OUT and asked[name] not in (0, _NEUTRAL_SAMPLERS.get(name, 0)):
            omissions.add(name, LEFT_OUT[name])
    return asked


def _is_neutral(name: str, value: Any) -> bool:
    known = NEUTRAL.get(name, ())
    if value is None:
        return True
    if name in REFUSED or name in LEFT_OUT:
        return value in (*known, *_EMPTY)
    return any(value == one and type(value) is type(one) for one in known)
