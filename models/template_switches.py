"""The switches of a chat template: whether to think, and how much.

Templates share no names for them. Variables whose names are about thinking are found in a template's syntax tree, with
the values that it compares them with; then they are tried: a value is offered where the text that the template writes
changes with it.
"""

import re
from collections.abc import Callable, Iterable, Iterator

import msgspec
from jinja2 import Environment, TemplateError, nodes
from jinja2.meta import find_undeclared_variables

Value = bool | int | str
Variables = dict[str, Value]
Render = Callable[[Variables], str | None]  # of a question, None where the template fails

_GENERATION = re.compile(r"{%[-+]?\s*(?:end)?generation\s*[-+]?%}")  # a tag of transformers, for training
_ABOUT_THINKING = re.compile(r"think|reason|effort")
_LEVEL = re.compile(r"effort|strength|level")
_USUAL_NAMES = ("enable_thinking", "thinking")
_NEGATIVE = re.compile(r"(^|_)(no|not|disable|skip|without)_?|nothink")
_OFF, _ON = ("none", "off", "no", "disabled", "disable", "no_think"), ("on", "yes", "enabled", "enable", "think")
USUAL_EFFORTS = ("low", "medium", "high")
_ORDER = ("none", "no_think", "off", "minimal", "low", "medium", "high", "xhigh", "max")
_UNKNOWN = "value-of-the-probe"
_TOOL_VARIABLES = ("tools", "xml_tools", "functions")  # the second of SmolLM3, the third, as text, of Firefunction


class Switches(msgspec.Struct, frozen=True):
    """What a chat template lets one choose. on, off: what it is told to think or not to; empty without that choice.
    levels: what it is told for each effort, in the order to show. tools: the name under which it reads tools, ""
    where it reads none."""

    on: Variables = {}
    off: Variables = {}
    levels: dict[str, Variables] = {}
    tools: str = ""

    @property
    def thinking(self) -> str:
        """The name of the variable for whether to think, "" without one."""
        return next(iter(self.off), "")

    @property
    def efforts(self) -> tuple[str, ...]:
        return tuple(self.levels)

    def variables(self, thinking: bool | None = None, effort: str = "") -> Variables:
        """Returns the variables to give to the template; what it does not know is left out."""
        chosen = {} if thinking is None else self.on if thinking else self.off
        return {**self.levels.get(effort, {}), **chosen}


def switches_of(template: str, render: Render) -> Switches:
    """Returns the switches of a chat template. render: writes a question with it, given variables."""
    tree = _tree(template)
    if tree is None:
        return Switches()
    values, tools = _values(tree), _tools_variable(tree)
    trial = _Trial(render)
    on, off, used = _thinking(trial, values)
    levels = _levels(trial, values, on, used)
    if {trial.text(level) for level in levels.values()} <= {trial.text(on), trial.text(off)}:
        levels = {}  # another name for the same choice
    return Switches(on, off, levels, tools)


def _tools_variable(tree: nodes.Template) -> str:
    """Returns the name under which a template reads tools, "" where it reads none."""
    variables = find_undeclared_variables(tree)
    return next((name for name in _TOOL_VARIABLES if name in variables), "")


def _tree(template: str) -> nodes.Template | None:
    try:
        return Environment(extensions=["jinja2.ext.loopcontrols"]).parse(_GENERATION.sub("", template))
    except (TemplateError, RecursionError):
        return None


def _values(tree: nodes.Template) -> dict[str, list[Value]]:
    """Returns the variables of a template whose names are about thinking, the usual names first, each with the
    texts and numbers that stand beside it: in comparisons, lists, defaults and assignments."""
    names = {one.name for one in tree.find_all(nodes.Name) if _ABOUT_THINKING.search(one.name)}
    found: dict[str, dict[Value, None]] = {}
    for name in sorted(names, key=lambda name: (name not in _USUAL_NAMES, name)):
        found[name] = {}
        for node in _beside(tree, name):
            found[name] |= dict.fromkeys(_constants(node))
        if any(type(value) is int for value in found[name]):  # a budget: its steps are the keys of a table
            keys = (pair.key for table in tree.find_all(nodes.Dict) for pair in table.items)
            numbers = (key.value for key in keys if isinstance(key, nodes.Const))
            steps = [number for number in numbers if type(number) is int and number > 0]
            found[name] = dict.fromkeys([value for value in found[name] if value in (0, -1)] + steps)
    return {name: list(values) for name, values in found.items()}


def _beside(tree: nodes.Template, name: str) -> Iterator[nodes.Node]:
    """Yields the expressions and assignments in which values of a variable may stand."""
    for kind in (nodes.Compare, nodes.CondExpr, nodes.Assign, nodes.Filter):
        for node in tree.find_all(kind):
            if isinstance(node, nodes.Filter) and node.name != "default":
                continue
            read = [node]
            if isinstance(node, nodes.Assign):
                read = [node.target]
            elif isinstance(node, nodes.CondExpr):  # of a default; a condition alone compares nothing
                read = [one for one in (node.expr1, node.expr2) if one is not None]
            names = (one for part in read for one in [part, *part.find_all(nodes.Name)])
            if any(isinstance(one, nodes.Name) and one.name == name for one in names):
                yield node


def _constants(node: nodes.Node) -> Iterator[Value]:
    """Yields the whole numbers and single words within a node."""
    for negative in node.find_all(nodes.Neg):
        if isinstance(negative.node, nodes.Const) and type(negative.node.value) is int:
            yield -negative.node.value
    for one in node.find_all(nodes.Const):
        if type(one.value) is int or (type(one.value) is str and re.fullmatch(r"[A-Za-z_]{2,20}", one.value)):
            yield one.value


class _Trial:
    """Renders a question with variables, each only once."""

    def __init__(self, render: Render) -> None:
        self._render = render
        self._known: dict[tuple[tuple[str, Value], ...], str | None] = {}

    def text(self, *parts: Variables) -> str | None:
        """Returns the text, None where the template fails."""
        variables = {name: value for part in parts for name, value in part.items()}
        key = tuple((name, repr(value)) for name, value in variables.items())
        if key not in self._known:
            self._known[key] = self._render(variables)
        return self._known[key]

    def differ(self, one: Variables, other: Variables) -> bool:
        """Returns whether both are written, and not alike."""
        texts = self.text(one), self.text(other)
        return None not in texts and texts[0] != texts[1]


def _thinking(trial: _Trial, values: dict[str, list[Value]]) -> tuple[Variables, Variables, str]:
    """Returns what to tell the template to think and not to, and the name of the variable for it."""
    for name, beside in values.items():
        words = [value for value in beside if isinstance(value, str)]
        numbers = [value for value in beside if isinstance(value, int)]
        if not words and not numbers:
            no, yes = (True, False) if _NEGATIVE.search(name) else (False, True)
            if trial.differ({name: yes}, {name: no}) and not _prints(trial, name, yes):
                return {name: yes}, {name: no}, name
        on, off = (next((word for word in words if word in known), None) for known in (_ON, _OFF))
        if on is not None and off is not None and trial.differ({name: on}, {name: off}):
            return {name: on}, {name: off}, name
        if 0 in numbers and -1 in numbers and trial.differ({name: -1}, {name: 0}):
            return {name: -1}, {name: 0}, ""  # a budget, which has levels as well
    return {}, {}, ""


def _prints(trial: _Trial, name: str, value: Value) -> bool:
    """Returns whether a template writes the value itself, so that it is none of a switch."""
    text, without = trial.text({name: value}), trial.text({})
    return text is not None and text.count(str(value)) > (without or "").count(str(value))


def _levels(trial: _Trial, values: dict[str, list[Value]], on: Variables, used: str) -> dict[str, Variables]:
    """Returns the efforts of the first variable that has any, alone or when the model is to think."""
    for name, beside in values.items():
        for more in ({}, on) if name not in (*on, used) else ({},):
            if name != used and (found := _efforts(trial, name, beside, more)):
                return {str(value): {**more, name: value} for value in found}
    return {}


def _efforts(trial: _Trial, name: str, beside: Iterable[Value], more: Variables) -> list[Value]:
    """Returns the values of a variable that a template knows, beside `more` variables."""
    words: list[Value] = [value for value in beside if isinstance(value, str)]
    numbers: list[Value] = sorted(value for value in beside if isinstance(value, int) and value > 0)
    without, unknown = trial.text(more), trial.text(more, {name: _UNKNOWN})
    if numbers and not words:
        written = {value: trial.text(more, {name: value}) for value in numbers}
        return [value for value in numbers if written[value] not in (None, without)]
    if unknown is not None and _UNKNOWN in unknown and len(words) < 2 and _LEVEL.search(name):
        words = list(USUAL_EFFORTS)
    written = {word: trial.text(more, {name: word}) for word in words}
    known = [word for word in words if written[word] not in (None, unknown)]
    if not any(written[word] != without for word in known):
        return []
    # The default writes what no value and an unknown one write.
    known = [word for word in words if word in known or written[word] == without is not None]
    return sorted(known, key=lambda word: _ORDER.index(str(word)) if word in _ORDER else len(_ORDER))
