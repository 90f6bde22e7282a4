"""Messages of the engine, the hub and the store as sentences for a label. No Qt."""

import re

_COMMAND = re.compile(r"`((?:redline|uv|pip|sudo) [^`]*)`")
_NAME = re.compile(r"[/.@_\d-]|.[A-Z]")  # in a first word: a path, a file, a model or a machine


def sentence(text: str) -> str:
    """Returns a message that begins with a capital, unless it begins with a name, and ends with a full stop."""
    text = without_backticks(text).strip()
    begun = text if _NAME.search(text.partition(" ")[0]) else capitalised(text)
    return f"{begun}{'' if text[-1:] in '.!?:' else '.'}" if text else ""


def capitalised(text: str) -> str:
    """Returns a text that begins with a capital."""
    return f"{text[:1].upper()}{text[1:]}"


def without_backticks(text: str) -> str:
    """Returns a message without the backticks around commands, which a terminal shows but a label has no use for."""
    return _COMMAND.sub(r"\1", text)
