"""Bytecode beside every source file, made beforehand: nothing may be written into a signed bundle.

The bytecode never looks at its source (PEP 552, unchecked hash), as files' times do not survive copying. Names of files
in it are relative to Python's home; Python puts in the real ones when it loads a file.

Of packages that are not Redline's only the bytecode stays, where the source stood: source is half of their size, but
a report of a fault names their lines all the same.
"""

from pathlib import Path

from bundling.layout import OWN_PACKAGES, Layout
from bundling.tools import BuildError, run

# Whose source stays, and why.
SOURCE_STAYS = {
    **dict.fromkeys(OWN_PACKAGES, "a report of a fault shows it"),
    "transformers/models": "transformers reads them to find out what it has (`import_utils.define_import_structure`)",
}
# One interpreter compiles all, in one order: what bytecode looks like depends on what was compiled before.
_CODE = """
import compileall, sys
home = sys.argv[1]
compileall.compile_dir(
    home, maxlevels=99, quiet=2, force=True, workers=1, stripdir=home,
    invalidation_mode=compileall.py_compile.PycInvalidationMode.UNCHECKED_HASH,
)
"""


def compile_all(python: Path, layout: Layout) -> None:
    """python: a CPython of the bundle's version, of any platform. Raises BuildError for a source that is no Python."""
    for old in layout.python.rglob("*.pyc"):
        old.unlink()
    run(python, "-I", "-B", "-c", _CODE, layout.python)
    for source in sorted(layout.python.rglob("*.py")):
        compiled = list((source.parent / "__pycache__").glob(f"{source.stem}.cpython-*.pyc"))
        if len(compiled) != 1:
            raise BuildError(f"{layout.name_of(source)} is not Python: name it in bundling/trim.py, with the reason")
        if not _source_stays(layout, source):
            compiled[0].replace(source.with_suffix(".pyc"))
            source.unlink()
    for folder in sorted(layout.python.rglob("__pycache__")):
        if not any(folder.iterdir()):
            folder.rmdir()


def _source_stays(layout: Layout, source: Path) -> bool:
    return any(layout.site_packages / folder in source.parents for folder in SOURCE_STAYS)
