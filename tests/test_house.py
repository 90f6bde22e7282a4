"""Rules about the whole tree: layers, import circles, names, sizes, style, and what lies where."""

import ast
import gc
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ("engine", "models", "app", "packaging", "tests")
TODO = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
FILE_LINES, FUNCTION_LINES, PARAMETERS = 600, 40, 7
AT_THE_ROOT = {*SOURCE, "resources", "findings", "pyproject.toml", "README.md", "LICENSE", "uv.lock"}

# What a layer never imports, by the first name of the module.
NEVER = {
    "engine": {"PySide6", "shiboken6", "huggingface_hub", "sqlite3", "models", "app", "packaging", "tests"},
    "models": {"PySide6", "shiboken6", "sqlite3", "app", "packaging", "tests"},
    "app": {"packaging", "tests"},
}
READS_THE_ENVIRONMENT = {"engine/backend/__init__.py", "engine/backend/blas.py"}

# Module names that end in -ing or -ed and are nouns of the field.
NOUNS = {"sampling", "training", "pairing", "rounding", "fixed", "string"}
SAME_NAMES = 15  # modules of one package tree that may share their base name with another, told apart by the folder


# What reads a clock, and where that is allowed: programs that measure, and what waits for a state or measures speed.
CLOCKS = {
    "monotonic",
    "perf_counter",
    "process_time",
    "thread_time",
    "monotonic_ns",
    "perf_counter_ns",
    "process_time_ns",
}
SLEEPS = {"qWait", "qSleep", "msleep", "usleep"}
LIMITS = {"timeout", "timeout_s", "limit_s"}  # names of arguments; also the first one of wait() and join()
HANG_S = 60  # a shorter limit is reached by a slow machine
MEASURING = (
    "tests/programs/",
    "tests/attack/",
    "tests/waiting.py",
    "tests/app/window/waiting.py",
    "tests/machine_speed.py",
    "tests/test_machine_speed.py",
)

pytestmark = [pytest.mark.style, pytest.mark.usefixtures("trees")]


@pytest.fixture(scope="module")
def trees() -> Iterator[None]:
    """The collector does not look through the trees of all files, a million and a half nodes, and they go with the
    tests of this one."""
    was_on = gc.isenabled()
    gc.disable()
    yield
    parsed.cache_clear()
    if was_on:
        gc.enable()


def modules(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def imported(path: Path) -> tuple[str, ...]:
    return tuple(imports(parsed(path)))


def imports(tree: ast.AST) -> Iterator[str]:
    """Every module that is imported by name, anywhere in the file, `import_module("...")` included."""
    yield from imports_of(ast.walk(tree))


def imports_of(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("import_module", "__import__"):
                yield str(node.args[0].value)


@cache
def import_graph(typed: bool = False) -> dict[str, set[str]]:
    """Which modules of the source each module imports when it runs, at its top or within a function. typed: also what
    only a type checker sees."""
    files = {module_of(path): path for path in modules("engine", "models", "app")}
    graph: dict[str, set[str]] = {}
    for module, path in files.items():
        nodes = list(ast.walk(parsed(path)) if typed else run_time_nodes(parsed(path)))
        named = {
            full if (full := f"{node.module}.{alias.name}") in files else str(node.module)
            for node in nodes
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        graph[module] = {name for name in (named | set(imports_of(nodes))) & files.keys() if name != module} - {
            name for name in files if module.startswith(f"{name}.") and name not in named
        }
    return graph


def run_time_nodes(tree: ast.Module) -> Iterator[ast.AST]:
    """All nodes but those that only a type checker sees."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        yield node
        unseen = isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        todo += node.orelse if isinstance(node, ast.If) and unseen else ast.iter_child_nodes(node)


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def package_of(module: str) -> str:
    parts = module.split(".")
    return ".".join(parts[:3] if parts[:2] in (["app", "window"], ["app", "cli"]) else parts[:2])


def circles(graph: dict[str, set[str]]) -> list[tuple[str, ...]]:
    """Groups of nodes that can reach each other."""
    reach: dict[str, set[str]] = {}
    for start in graph:
        seen, todo = set[str](), [start]
        while todo:
            new = graph.get(todo.pop(), set()) - seen
            seen |= new
            todo += new
        reach[start] = seen
    inside = [node for node in graph if node in reach[node]]
    return sorted({tuple(sorted(m for m in reach[n] if n in reach.get(m, ()))) for n in inside})


def environment_reads(tree: ast.AST) -> Iterator[int]:
    """Lines that name os.environ or os.getenv."""
    names = {"environ", "environb", "getenv", "getenvb"}
    for node in ast.walk(tree):
        said: set[str] = set()
        if isinstance(node, ast.Attribute):
            said = {node.attr}
        elif isinstance(node, ast.ImportFrom) and node.module == "os":
            said = {alias.name for alias in node.names}
        if said & names:
            yield node.lineno  # type: ignore[attr-defined]


def oversized(name: str, text: str, tree: ast.Module) -> Iterator[str]:
    """What breaks the rules of size in one file."""
    lines = len(text.splitlines())
    if lines > FILE_LINES:
        yield f"{name}: {lines} lines"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            count = len([a for a in arguments if a.arg not in ("self", "cls")])
            if length > FUNCTION_LINES:
                yield f"{name}:{node.lineno} {node.name}: {length} lines"
            if count > PARAMETERS:
                yield f"{name}:{node.lineno} {node.name}: {count} parameters"


def faults_of_size(path: Path) -> Iterator[str]:
    return oversized(name_of(path), path.read_text(), parsed(path))


def uses_of_time(tree: ast.Module) -> Iterator[str]:
    """What depends on the speed of the machine, outside of tests that are marked as `timing`: sleeping, reading a
    clock, waiting for less than a hang takes, and processing events of Qt a fixed number of times."""
    if any(isinstance(node, ast.Assign) and _marked_timing(node.value) for node in tree.body):
        return
    numbers = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(map(_marked_timing, node.decorator_list)):
            continue
        yield from (f"{node.lineno}: {use}" for use in _use_of_time(node, numbers))  # type: ignore[attr-defined]
        todo += ast.iter_child_nodes(node)


def _use_of_time(node: ast.AST, numbers: dict[str, ast.expr]) -> Iterator[str]:
    """What one node uses. numbers: what the names of its module stand for."""
    if isinstance(node, ast.Attribute):
        owner = getattr(node.value, "id", "")
        if node.attr in SLEEPS or (owner in ("time", "QThread") and node.attr in {"sleep", *CLOCKS}):
            yield f"{owner}.{node.attr}"
    elif isinstance(node, ast.ImportFrom) and node.module == "time":
        yield from (f"time.{alias.name}" for alias in node.names if alias.name in {"sleep", *CLOCKS})
    elif isinstance(node, ast.For | ast.ListComp | ast.GeneratorExp):
        if "processEvents" in {getattr(each, "attr", "") for each in ast.walk(node)} and _counts_alone(node):
            yield "processEvents in a counted loop"
    elif isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in ("assert_quick", "slowness"):
            yield called
        limits = [key.value for key in node.keywords if key.arg in LIMITS]
        limits += node.args[:1] if called in ("wait", "join") or ast.unparse(node.func) == "asyncio.sleep" else []
        yield from (f"{called} of {limit} s" for each in limits for limit in _short_times(each, numbers))
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        limits = [default for name, default in _defaults(node.args) if name in LIMITS]
        yield from (f"a limit of {limit} s" for each in limits for limit in _short_times(each, numbers))


def _counts_alone(loop: ast.For | ast.ListComp | ast.GeneratorExp) -> bool:
    """Whether a loop does the same so many times, rather than something with each of several things."""
    heads = [loop] if isinstance(loop, ast.For) else loop.generators
    targets = {head.target.id for head in heads if isinstance(head.target, ast.Name)}
    used = {each.id for each in ast.walk(loop) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
    return bool(targets) and not targets & used


def _defaults(arguments: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    named = [*arguments.posonlyargs, *arguments.args][::-1]
    yield from ((arg.arg, default) for arg, default in zip(named, arguments.defaults[::-1], strict=False))
    keyed = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    yield from ((arg.arg, default) for arg, default in keyed if default is not None)


def _short_times(node: ast.expr, numbers: dict[str, ast.expr]) -> Iterator[float]:
    """Yields the number of seconds that an expression stands for, if only a quick machine is done in it."""
    value = numbers.get(node.id) if isinstance(node, ast.Name) else node
    if isinstance(value, ast.Constant) and isinstance(value.value, int | float) and 0 < value.value < HANG_S:
        yield value.value


def _marked_timing(mark: ast.AST) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "timing" for node in ast.walk(mark))


def bare_todos(text: str) -> Iterator[int]:
    """Lines with a to-do that does not give a reason: `TODO: what, because why`."""
    if not TODO.search(text):
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        promise = token.type == tokenize.COMMENT and TODO.search(token.string)
        if promise and not re.search(r"\b(because|until|since|so that)\b", token.string):
            yield token.start[0]


def tracked() -> list[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: what is tracked is unknown")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True)
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()]


def run(*command: str) -> str:
    """What a tool complains about, "" when it is content."""
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else (done.stdout + done.stderr)[-4000:]


# --- layers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", NEVER)
def test_imports_point_one_way(layer: str) -> None:
    wrong = [
        f"{name_of(path)} imports {module}"
        for path in modules(layer)
        for module in imported(path)
        if module.split(".")[0] in NEVER[layer] or module.startswith("PyQt")
    ]
    assert not wrong


def test_one_file_of_the_engine_imports_mlx_lm() -> None:
    users = {
        name_of(path)
        for path in modules("engine")
        if any(module.split(".")[0] == "mlx_lm" for module in imported(path))
    }
    assert users == {"engine/backend/mlx_lm_imports.py"}


def test_the_environment_is_read_in_the_app_and_the_backend_only() -> None:
    wrong = [
        f"{name_of(path)}:{line}"
        for path in modules("engine", "models")
        if name_of(path) not in READS_THE_ENVIRONMENT
        for line in environment_reads(parsed(path))
    ]
    assert not wrong


def app_alone(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """The part of a graph that is the app."""
    return {module: imported for module, imported in graph.items() if module.startswith("app.")}


def test_no_module_imports_its_own_importer() -> None:
    """In the app not even for its types: who knows whom is what makes it hard to change."""
    assert circles(import_graph()) == circles(app_alone(import_graph(typed=True))) == []


@pytest.mark.parametrize("typed", [False, True])
def test_no_package_imports_its_own_importer(typed: bool) -> None:
    """A package below engine, models or app, or one level deeper below app/window and app/cli."""
    graph, packages = app_alone(import_graph(typed=True)) if typed else import_graph(), dict[str, set[str]]()
    for module, imported in graph.items():
        packages.setdefault(package_of(module), set()).update(package_of(other) for other in imported)
    assert circles({package: imported - {package} for package, imported in packages.items()}) == []


# --- time ---------------------------------------------------------------------------------------


def test_no_test_depends_on_the_speed_of_the_machine() -> None:
    assert not [
        f"{name_of(path)}:{use}"
        for path in modules("tests")
        if not name_of(path).startswith(MEASURING)
        for use in uses_of_time(parsed(path))
    ]


# --- names ------------------------------------------------------------------------------------


def test_modules_are_named_by_nouns() -> None:
    stems = {path.stem: name_of(path) for path in modules("engine", "models", "app")}
    assert not [name for stem, name in stems.items() if re.fullmatch(r"[a-z]+(ing|ed)", stem) and stem not in NOUNS]


@pytest.mark.parametrize("package", ["engine", "models", "app"])
def test_few_modules_share_a_name(package: str) -> None:
    names = [path.stem for path in modules(package) if not path.stem.startswith("__")]
    assert sum(count for count in Counter(names).values() if count > 1) <= SAME_NAMES


# --- style ------------------------------------------------------------------------------------


def test_ruff_finds_nothing() -> None:
    assert run("ruff", "check", "--quiet", "--output-format=concise", ".") == ""


def test_everything_is_formatted() -> None:
    assert run("ruff", "format", "--check", "--output-format=concise", ".") == ""


def test_types_are_checked_strictly() -> None:
    assert run("mypy") == ""


def test_files_and_functions_fit_in_a_head() -> None:
    assert not [fault for path in modules(*SOURCE) for fault in faults_of_size(path)]


def test_every_module_of_engine_and_models_says_what_it_is() -> None:
    assert not [name_of(p) for p in modules("engine", "models") if not ast.get_docstring(parsed(p))]


def test_every_todo_has_its_reason() -> None:
    assert not [f"{name_of(path)}:{line}" for path in modules(*SOURCE) for line in bare_todos(path.read_text())]


# --- what lies where --------------------------------------------------------------------------


def test_nothing_but_the_house_lies_at_the_root() -> None:
    tops = {PurePosixPath(name).parts[0] for name in tracked()}
    assert not {top for top in tops if not top.startswith(".")} - AT_THE_ROOT


def test_no_tracked_file_names_a_machine_or_a_registry() -> None:
    folders = "|".join(("home", "Users", "root", "work"))
    hosts = "|".join(("pypi", "pythonhosted", "npmjs", "anaconda"))
    said = re.compile(rf"(?<![\w.:/-])/({folders})/[A-Za-z]|\b({hosts})\.(org|com)\b")
    wrong = []
    for name in tracked():
        data = (ROOT / name).read_bytes()
        if b"\0" not in data and (found := said.search(data.decode(errors="replace"))):
            wrong.append(f"{name}: {found.group()}")
    assert not wrong


def test_what_the_readme_points_at_exists() -> None:
    text = (ROOT / "README.md").read_text()
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"[a-z]+:|#", link)]
    folders = "|".join(map(re.escape, (*SOURCE, "resources", ".ci", ".github")))
    files = re.findall(rf"`((?:{folders})/[^`\s<>*{{}}]*)`", text)
    assert not [name for name in (*links, *files) if not (ROOT / name.split("::")[0]).exists()]


@pytest.mark.parametrize("layer", ["engine", "models", "app"])
def test_what_is_decided_where_names_what_exists(layer: str) -> None:
    text = (ROOT / layer / "README.md").read_text()
    names = re.findall(r"`([\w./]+)`", text.split("\n## What is decided where\n")[1].split("\n## ")[0])
    files = {name for name in names if name.endswith((".py", "/"))}
    source = "\n".join(path.read_text() for path in modules("engine", "models", "app"))
    defined = set(re.findall(r"^ *(?:async )?(?:def|class) (\w+)", source, re.M)) | {
        path.stem for path in modules("engine")
    }
    defined |= set(re.findall(r"^ *(?:self\.)?(\w+)(?:, [\w.]+)*(?:: [^=\n]+)? = ", source, re.M))
    assert not [name for name in files if not any((ROOT / top / name).exists() for top in (layer, "."))]
    assert not [name for name in names if name not in files and not defined.issuperset(name.split("."))]


def test_every_program_that_a_page_or_a_docstring_names_exists() -> None:
    named = {
        (name, module.strip("."))
        for name in tracked()
        if name.endswith((".md", ".py"))
        for module in re.findall(r"python -m (tests\.[\w.]+)", (ROOT / name).read_text())
    }
    places = {module: ROOT / module.replace(".", "/") for _, module in named}
    assert not [
        f"{name}: {module}"
        for name, module in sorted(named)
        if not any(path.exists() for path in (places[module].with_suffix(".py"), places[module] / "__main__.py"))
    ]
