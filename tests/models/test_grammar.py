"""What llguidance makes of a grammar: which are refused, and that a matcher allows every division into tokens."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from app.inference.options import Options
from engine.errors import UsageError
from engine.settings import Grammar, GrammarKind
from models.grammar import DEEPEST_SCHEMA, LONGEST_SOURCE, GrammarMatcher, GrammarMatchers
from tests.toys.tokenizers import families, write_model


def nested(levels: int) -> str:
    return '{"properties": {"a": ' * (levels // 2) + "{}" + "}}" * (levels // 2)


@pytest.mark.parametrize(
    ("kind", "source", "message"),
    [
        ("json_schema", "{", "not JSON"),
        ("json_schema", "3", "not an object"),
        ("json_schema", '{"type": "foo"}', "Invalid type: foo"),
        ("json_schema", '{"$ref": "http://example.com/a.json"}', "cannot be used"),
        ("json_schema", nested(DEEPEST_SCHEMA + 2), "deeper than"),
        ("regex", "a(", "unclosed group"),
        ("regex", "a" * (LONGEST_SOURCE + 1), "characters"),
        ("choice", "[]", "not a list"),
        ("lark", "begin: nothing", "cannot be used"),
    ],
)
def test_a_grammar_that_cannot_be_used_is_refused_where_it_enters(kind: GrammarKind, source: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Options(grammar=Grammar(kind, source))


def test_llguidance_is_imported_with_the_first_grammar_only() -> None:
    code = "import sys, app.inference.pair_loader; print('llguidance' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
