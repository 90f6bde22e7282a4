"""JSON Schemas as far as a grammar can enforce them.

Schemas that generators write have words that llguidance does not know. What a grammar cannot enforce is let through: a
schema describes more values without such a word, so every value that is right can still be written. `enforceable` says
which words these are.
"""

import re
from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]
_UNKNOWN = (
    *("propertyNames", "uniqueItems", "not", "if", "then", "else", "contains", "minContains", "maxContains"),
    *("dependentRequired", "dependentSchemas", "dependencies", "unevaluatedProperties", "unevaluatedItems"),
    "$dynamicRef",
)
_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri")
_NO_EXPRESSION = re.compile(r"\(\?[=!<]|\\[bB1-9]|\\[kpP]")  # look-around, word borders, references, classes of signs
_DEEPEST = 64  # references that lead to references, or schemas within each other
_LARGEST = 2**53  # integers beyond it have no expression, and most readers of JSON round them
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_MAPS, _LISTS = ("properties", "patternProperties", "$defs", "definitions"), ("anyOf", "oneOf", "allOf", "prefixItems")
_ONE = ("items", "additionalProperties")


def enforceable(schema: Any) -> tuple[Any, list[str]]:
    """Returns a schema without the words that a grammar cannot enforce, and these words with their places."""
    left_out: list[str] = []
    return _walked(schema, "", left_out), left_out


def _walked(schema: Any, place: str, left_out: list[str]) -> Any:
    if isinstance(schema, list):  # of the items of a tuple, as older drafts have it
        return [_walked(one, f"{place}/{i}", left_out) for i, one in enumerate(schema)]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for word, value in schema.items():
        if _is_unenforceable(word, value):
            left_out.append(f"{word} at {place or '/'}")
        elif word in _MAPS and isinstance(value, dict):
            kept[word] = {name: _walked(one, f"{place}/{name}", left_out) for name, one in value.items()}
        elif word in _LISTS or word in _ONE:
            kept[word] = _walked(value, f"{place}/{word}", left_out)
        else:
            kept[word] = value
    return kept


def _is_unenforceable(word: str, value: Any) -> bool:
    """Whether a word of a schema with this value cannot be enforced."""
    if word == "format":
        return value not in _FORMATS
    if word == "pattern":
        return isinstance(value, str) and _NO_EXPRESSION.search(value) is not None
    if word in _BOUNDS:
        return isinstance(value, int | float) and abs(value) > _LARGEST
    return word in _UNKNOWN


def resolved(schema: Any, root: Schema, depth: int = 0) -> Schema | None:
    """Returns a schema in place of a reference to it within `root`, None where there is none."""
    if not isinstance(schema, dict):
        return None
    reference = schema.get("$ref")
    if not isinstance(reference, str) or depth > _DEEPEST:
        return schema
    found: Any = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        step = step.replace("~1", "/").replace("~0", "~")
        found = found.get(step) if isinstance(found, dict) else None
    return resolved(found, root, depth + 1)


def properties_of(schema: Any, root: Schema, depth: int = 0) -> tuple[dict[str, Any], frozenset[str]] | None:
    """Returns the properties that an object has by a schema, and those that it must have, over all branches of an
    `allOf`; None where the schema names none. root: that its references are within."""
    found = resolved(schema, root)
    if found is None or depth > _DEEPEST:
        return None
    own = found.get("properties")
    properties: dict[str, Any] | None = dict(own) if isinstance(own, dict) else None
    needed = found.get("required")
    required = frozenset(name for name in needed if isinstance(name, str)) if isinstance(needed, list) else frozenset()
    branches = found.get("allOf")
    for branch in branches if isinstance(branches, list) else ():
        if (more := properties_of(branch, root, depth + 1)) is not None:
            properties = {**(properties or {}), **more[0]}
            required |= more[1]
    if properties is None:
        return None
    return {**properties, **{name: {} for name in required - set(properties)}}, required


def types_of(schema: Any, root: Schema, depth: int = 0) -> set[str] | None:
    """Returns the types that a schema allows, None for any. root: that its references are within."""
    found = resolved(schema, root)
    if found is None or depth > _DEEPEST:
        return None
    kinds = found.get("type")
    if isinstance(kinds, str | list):
        return {kind for kind in ([kinds] if isinstance(kinds, str) else kinds) if isinstance(kind, str)}
    values = [found["const"]] if "const" in found else found.get("enum")
    if isinstance(values, list):
        return {_type_of(value) for value in values}
    for several in ("anyOf", "oneOf", "allOf"):
        if isinstance(found.get(several), list):
            each = [types_of(one, root, depth + 1) for one in found[several]]
            known = [kinds for kinds in each if kinds is not None]
            if not known or (len(known) < len(each) and several != "allOf"):
                return None
            return set().union(*known)
    return None


def _type_of(value: Any) -> str:
    names = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "array"}
    return names.get(type(value), "null")
