"""What is left out of the bundle, by a list with reasons. It is done before anything is signed.

A pattern is of paths below site-packages (or the standard library), as `fnmatch` has them: `*` stands for any text,
slashes included. What a rule keeps, it keeps although it matches.
"""

import shutil
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from bundling.layout import Layout


@dataclass(frozen=True)
class Rule:
    """`drop`, save what is in `keep`: why."""

    why: str
    drop: tuple[str, ...]
    keep: tuple[str, ...] = field(default=())

    def takes(self, name: str) -> bool:
        return any(fnmatchcase(name, p) for p in self.drop) and not any(fnmatchcase(name, p) for p in self.keep)


# What the window imports, and what that is linked against.
_QT_BINDINGS = ("Core", "Gui", "Network", "Qml", "Svg", "Widgets")
_QT_LIBRARIES = (*_QT_BINDINGS, "DBus")
_PILLOW_LIBRARIES = ("avif", "lcms2", "harfbuzz", "freetype", "brotli", "png16")

SITE_PACKAGES = (
    Rule(
        "Qt that no window of Redline's loads: Quick, OpenGL, Designer, SQL, tools, translations (it has none)",
        ("PySide6/*",),
        (
            "PySide6/__init__.py",
            "PySide6/_config.py",
            "PySide6/_git_pyside_version.py",
            "PySide6/libpyside6.abi3.*",
            "PySide6/libpyside6qml.abi3.*",
            "PySide6/support/*",
            *(f"PySide6/Qt{name}.abi3.so" for name in _QT_BINDINGS),
            *(f"PySide6/Qt/lib/Qt{name}.framework/*" for name in _QT_LIBRARIES),
            *(f"PySide6/Qt/lib/libQt6{name}.so*" for name in (*_QT_LIBRARIES, "XcbQpa")),
            "PySide6/Qt/lib/libicu*",
            *(f"PySide6/Qt/plugins/platforms/libq{name}.*" for name in ("cocoa", "offscreen", "xcb")),
            "PySide6/Qt/plugins/styles/*",
            "PySide6/Qt/plugins/iconengines/libqsvgicon*",
            *(f"PySide6/Qt/plugins/imageformats/libq{name}.*" for name in ("gif", "jpeg", "svg")),
        ),
    ),
    Rule("what Qt's classes are called in C++", ("shiboken6/include/*", "shiboken6_generator/*")),
    Rule(
        "transformers' models, their tokenizers and configurations: models here are mlx-lm's, and tokenizers are read"
        " from tokenizer.json",
        ("transformers/models/*",),
        (
            *("transformers/models/__init__.py", "transformers/models/auto/*"),
            *(f"transformers/models/encoder_decoder/{kind}.py" for kind in ("__init__", "configuration_*")),
        ),
    ),
    Rule(
        "mlx-lm's commands, training and parsers of tool calls: Redline has its own",
        (
            *(f"mlx_lm/{name}/*" for name in ("tuner", "quant", "tool_parsers")),
            *(
                f"mlx_lm/{name}.py"
                for name in ("benchmark", "cache_prompt", "chat", "cli", "cli_ui", "evaluate", "fuse")
            ),
            *(f"mlx_lm/{name}.py" for name in ("lora", "manage", "perplexity", "server", "share", "upload")),
            "mlx_lm/*.md",
        ),
    ),
    Rule("rich's Markdown and its parser, which nothing uses", ("markdown_it/*", "mdurl/*", "rich/markdown.py")),
    Rule(
        "transformers' training, serving and pipelines",
        (
            *(f"transformers/{name}/*" for name in ("cli", "data", "distributed", "exporters", "kernels", "loss")),
            *(f"transformers/{name}/*" for name in ("pipelines", "quantizers", "sagemaker")),
            *(f"transformers/{name}*.py" for name in ("testing_utils", "trainer", "training_args")),
            *("transformers/generation/*", "transformers/integrations/*"),
        ),
        (
            *("transformers/generation/__init__.py", "transformers/generation/configuration_utils.py"),
            "transformers/integrations/__init__.py",
            *(f"transformers/integrations/{name}/*" for name in ("heterogeneity", "mistral")),
        ),
    ),
    Rule(
        "what only those import: transformers asks for them by name, and no tokenizer needs them",
        tuple(f"{name}/*" for name in ("pydantic", "pydantic_core", "typer", "shellingham", "annotated_doc")),
    ),
    Rule(
        "tokenizers that are not in tokenizer.json: Redline wants that, or makes it from a GGUF by itself",
        ("sentencepiece/*", "google/*"),
    ),
    Rule(
        "pictures of `redline fit` and `redline bench`, which belong to the terminal: the window draws by itself",
        (
            *(f"{name}/*" for name in ("matplotlib", "mpl_toolkits", "fontTools", "contourpy", "kiwisolver")),
            *("pyparsing/*", "cycler/*", "dateutil/*", "pylab.py"),
        ),
    ),
    Rule(
        "what Pillow has beyond encoding a race: AVIF, colour profiles, fonts, Tk, arithmetic",
        (
            *(f"PIL/_{name}.*" for name in ("avif", "imagingcms", "imagingft", "imagingtk", "imagingmath")),
            "PIL/_imagingmorph.*",
            *(f"PIL/.dylibs/lib{name}*" for name in _PILLOW_LIBRARIES),
            *(f"pillow.libs/lib{name}*" for name in _PILLOW_LIBRARIES),
        ),
    ),
    Rule(
        "downloads by huggingface_hub itself, and its commands: Redline's own are in models/hub",
        ("hf_xet/*", *(f"huggingface_hub/{name}/*" for name in ("cli", "inference", "serialization", "templates"))),
    ),
    Rule("MLX over several Macs: `libmlx` opens it only for that", ("mlx/lib/libjaccl.dylib",)),
    Rule(
        "shipped drafters that were nowhere the quickest where they were measured (README): the draft model, 36 MB, and"
        " Medusa heads, 5 MB",
        ("resources/drafters/draft/*", "resources/drafters/medusa/*"),
    ),
    Rule(
        "what wcwidth does without, as it says: its C library, and how single terminals draw their emoji",
        ("wcwidth/_wcwidth_c.*", "wcwidth/table_grapheme_overrides/_known_*"),
    ),
    Rule("time zones: macOS has its own, and Redline shows local time only", ("tzdata/*",)),
    Rule(
        "headers, sources and static libraries, for building against",
        (
            *("mlx/include/*", "mlx/share/*", "mlx/lib/cmake/*"),
            *("numpy/_core/include/*", "numpy/_core/lib/*", "numpy/random/lib/*", "numpy/f2py/*"),
            *(f"*.{suffix}" for suffix in ("pxd", "pyx", "pyi", "h", "hpp", "c", "cc", "cpp", "a")),
        ),
    ),
    Rule(
        "pycryptodome but for what pypdf decrypts PDF files with",
        ("Crypto/*",),
        (
            *("Crypto/__init__.py", "Crypto/Random/*", "Crypto/Util/*", "Crypto/Cipher/*.py"),
            *(f"Crypto/Cipher/_{name}.*" for name in ("ARC4", "raw_aes", "raw_cbc", "raw_ecb")),
        ),
    ),
    Rule("tests of packages", ("*/tests/*", "numpy/*/_*_tests.*", "numpy/_core/_simd.*")),
    Rule(
        "examples, documentation, commands and pictures of packages",
        ("gguf/scripts/*", "share/*", "*/docs/*"),
    ),
    Rule("pictures of the README", ("resources/screenshots/*", "resources/plots/*")),
)

STDLIB = (
    Rule(
        "Python's own tests",
        ("test/*", "*/test/*", "*/tests/*", "lib-dynload/_test*", "lib-dynload/_ctypes_test*", "lib-dynload/*xx*"),
    ),
    Rule(
        "Tk, which is not here, and what needs it",
        ("tkinter/*", "idlelib/*", "turtledemo/*", "turtle.py", "lib-dynload/_tkinter*"),
    ),
    Rule("installers of packages: the bundle is never changed", ("ensurepip/*", "venv/*")),
    Rule("what extension modules are built with", ("config-*", "lib2to3/*")),
    Rule(
        "full-screen terminals and line editing, which the window has not, and databases of old",
        (
            "curses/*",
            *(f"lib-dynload/{name}.*" for name in ("readline", "nis", "_crypt", "_dbm", "_gdbm")),
            *(f"lib-dynload/{name}*" for name in ("_curses", "libncurses", "libpanel")),
        ),
    ),
    Rule(
        "Python's own documentation and debugger, mailboxes, and servers of other protocols",
        (
            *(f"{name}/*" for name in ("pydoc_data", "xmlrpc", "wsgiref")),
            *(f"{name}.py" for name in ("pydoc", "pdb", "mailbox", "pickletools")),
        ),
    ),
)


# After the licences were collected.
METADATA = (
    Rule(
        "metadata for installers: the bundle is never changed, and licences are in Resources/licences",
        tuple(
            f"*.dist-info/{name}" for name in ("RECORD", "WHEEL", "licenses/*", "LICEN*", "sboms/*", "top_level.txt")
        ),
    ),
)


def trim(layout: Layout) -> dict[str, int]:
    """Leave out what the rules say; bytes by reason. A package of which nothing stays loses its metadata too."""
    taken = _apply(layout.site_packages, SITE_PACKAGES, below="")
    taken |= _apply(layout.stdlib, STDLIB, below="site-packages/")
    for info in sorted(layout.site_packages.glob("*.dist-info")):
        if not _stays(layout, info):
            shutil.rmtree(info)
    _drop_empty_folders(layout.python)
    return taken


def left_out(name: str) -> bool:
    """Whether a file of site-packages is on the list."""
    return any(rule.takes(name) for rule in SITE_PACKAGES)


def trim_metadata(layout: Layout) -> dict[str, int]:
    """The same for packages' metadata."""
    taken = _apply(layout.site_packages, METADATA, below="")
    _drop_empty_folders(layout.site_packages)
    return taken


def _stays(layout: Layout, info: Path) -> bool:
    """Whether anything that a package's list of files names is still there, besides the list's own folder."""
    names = [row.split(",")[0] for row in (info / "RECORD").read_text().splitlines()]
    return any((layout.site_packages / name).is_file() for name in names if not name.startswith((info.name, "..")))


def _apply(folder: Path, rules: tuple[Rule, ...], below: str) -> dict[str, int]:
    """below: what begins so is another list's."""
    taken = {rule.why: 0 for rule in rules}
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder).as_posix()
        if (file.is_dir() and not file.is_symlink()) or (below and name.startswith(below)):
            continue
        rule = next((rule for rule in rules if rule.takes(name)), None)
        if rule is not None:
            taken[rule.why] += 0 if file.is_symlink() else file.stat().st_size
            file.unlink()
    return taken


def _drop_empty_folders(folder: Path) -> None:
    for path in sorted((p for p in folder.rglob("*") if p.is_dir() and not p.is_symlink()), reverse=True):
        if not any(path.iterdir()):
            shutil.rmtree(path)
