"""The chat templates of a model folder, read from the files in which people keep them.

transformers writes chat_template.jinja, with further ones by name in additional_chat_templates/; before 2025 it wrote
"chat_template" into tokenizer_config.json, a text or a list of named texts; processors wrote chat_template.json. The
first of these that a folder has counts, as transformers 5 reads them. DeepSeek V3.2 has none: its conversations are
written by a program of its makers, of which mlx-lm has a copy. Folders made with mlx-lm name it as "chat_template_type"
in tokenizer_config.json, and that counts before any file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from engine.errors import ModelError
from models.durable_files import read_json_object

TEMPLATE_FILE, TEMPLATE_FOLDER = "chat_template.jinja", "additional_chat_templates"
_JSON_FILES = ("tokenizer_config.json", "chat_template.json")
_DEFAULT, _TOOLS = "default", "tool_use"
PROGRAMS = ("deepseek_v32",)  # of `mlx_lm.chat_templates`
# Stands for the program where a template is expected, and names the variables that it reads.
_PROGRAM = "{{# mlx_lm.chat_templates.{name} #}}{{{{ messages, tools, enable_thinking }}}}"


@dataclass(frozen=True)
class ChatTemplates:
    """default: for a conversation, None where the folder has no template. tool_use: for one that offers tools, the
    default where the folder has no other. file: the name of the file with the default, "" without one."""

    default: str | None = None
    tool_use: str | None = None
    file: str = ""


def read_templates(folder: Path) -> ChatTemplates:
    """Reads the chat templates of a model folder. Raises ModelError for files that are damaged or cannot be read."""
    about_tokenizer = read_json_object(folder / _JSON_FILES[0]) if (folder / _JSON_FILES[0]).is_file() else {}
    if (name := about_tokenizer.get("chat_template_type")) in PROGRAMS:
        template = _PROGRAM.format(name=name)
        return ChatTemplates(template, template, _JSON_FILES[0])
    sources = {TEMPLATE_FILE: _in_files(folder)} | {name: _in_json(folder / name) for name in _JSON_FILES}
    for file, named in sources.items():
        if named:
            default = named.get(_DEFAULT, next(iter(named.values())))
            return ChatTemplates(default, named.get(_TOOLS, default), file)
    return ChatTemplates()


def program_of(template: str) -> str:
    """Returns the name of the program that a template stands for, "" for a template that is one."""
    return next((name for name in PROGRAMS if template == _PROGRAM.format(name=name)), "")


@cache
def load_program(name: str) -> ModuleType:
    """Returns one of PROGRAMS. Its file is read alone: to import mlx_lm would start a device in this process."""
    package = find_spec("mlx_lm")
    assert package is not None and package.submodule_search_locations
    path = Path(next(iter(package.submodule_search_locations))) / "chat_templates" / f"{name}.py"
    spec = spec_from_file_location(f"redline_mlx_lm_{name}", path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _in_files(folder: Path) -> dict[str, str]:
    files = {_DEFAULT: folder / TEMPLATE_FILE}
    files |= {path.stem: path for path in sorted((folder / TEMPLATE_FOLDER).glob("*.jinja"))}
    try:
        return {name: path.read_text(encoding="utf-8") for name, path in files.items() if path.is_file()}
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{folder}: its chat template cannot be read ({error}); download it again") from error


def _in_json(path: Path) -> dict[str, str]:
    return _named(read_json_object(path).get("chat_template")) if path.is_file() else {}


def _named(value: Any) -> dict[str, str]:
    """Returns the templates in one field by name: a text, a list of {"name", "template"}, or names and texts."""
    if isinstance(value, str):
        return {_DEFAULT: value}
    if isinstance(value, list):
        value = {one.get("name"): one.get("template") for one in value if isinstance(one, Mapping)}
    if not isinstance(value, Mapping):
        return {}
    return {name: text for name, text in value.items() if isinstance(name, str) and isinstance(text, str)}
