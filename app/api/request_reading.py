"""Reads the body of a request into its record. A field that asks for nothing is dropped, one for what Redline does not
have is left out and reported, and one that would change the meaning of the reply is refused by name.

Fields that change nothing about the reply (`user`, `metadata` and the like) are ignored.
"""

from collections.abc import Mapping
from itertools import chain
from typing import Any, TypeVar

import msgspec

from app.api.api_errors import ApiError, Omissions, unsupported

_TEMPLATES = "the model's own chat template is used"
_GRAMMARS = "ask for structured output with response_format"
# The fields that would change the meaning of the reply, and why each is refused.
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
# Values that ask for nothing, besides null and, for the fields above, _EMPTY.
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "max_tokens": (-1, 0),
    "max_completion_tokens": (-1, 0),
    "max_output_tokens": (-1, 0),
    "seed": (-1,),
    "top_k": (-1,),
    "best_of": (1,),
    "function_call": ("auto", "none"),
    "stop": ("", [], [""]),
    "stop_sequences": ([""],),
    "repetition_penalty": (0,),
    **dict.fromkeys(("typical_p", "typical", "tfs_z", "tfs"), (1,)),
}
DEEPEST_JSON = 64
_EMPTY: tuple[Any, ...] = (0, "", [], {})  # and false, which equals 0

T = TypeVar("T", bound=msgspec.Struct)


def read_request(body: bytes, kind: type[T], omissions: Omissions) -> T:
    """Returns the request in a body. Raises ApiError for anything else, and for fields of REFUSED."""
    try:
        fields = msgspec.json.decode(body)
        if not isinstance(fields, dict):
            raise msgspec.ValidationError("the body must be a JSON object")
        if _is_deep(fields):
            raise ApiError(400, "too_deep", f"the JSON is nested more than {DEEPEST_JSON} levels deep")
        return msgspec.convert(_asked(fields, kind, omissions), kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = str(error).encode(errors="replace").decode()
        raise ApiError(400, "invalid_request", f"the request cannot be read: {message}") from error


def _is_deep(value: Any) -> bool:
    """Whether objects and lists nest deeper than DEEPEST_JSON."""
    level = [value]
    for _ in range(DEEPEST_JSON):
        inner = chain.from_iterable(one.values() if isinstance(one, dict) else one for one in level)
        level = [one for one in inner if isinstance(one, dict | list)]
    return bool(level)


def _asked(fields: Mapping[str, Any], kind: type[msgspec.Struct], omissions: Omissions) -> dict[str, Any]:
    """Returns the fields that ask for something. Raises ApiError."""
    asked = {name: value for name, value in fields.items() if not _is_neutral(name, value)}
    for name in asked.keys() - set(kind.__struct_fields__):
        if name in REFUSED:
            raise unsupported(name, REFUSED[name])
        if name in LEFT_OUT:
            omissions.add(name, LEFT_OUT[name])
    return asked


def _is_neutral(name: str, value: Any) -> bool:
    known = NEUTRAL.get(name, ())
    if value is None:
        return True
    if name in REFUSED or name in LEFT_OUT:
        return value in (*known, *_EMPTY)
    return any(value == one and type(value) is type(one) for one in known)
