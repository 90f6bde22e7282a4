"""What llguidance makes of a grammar: which are refused, and that a matcher allows every division into tokens."""

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from app.inference.options import Options
from engine.errors import UsageError
from engine.settings import Grammar, GrammarKind, SamplingSettings
from models.grammar_matcher import DEEPEST_SCHEMA, LONGEST_SOURCE, GrammarMatchers, check_grammar
from models.json_schemas import enforceable
from models.tokenizer_worker import decoder_of
from tests.toys.folders import make_tokenizer
from tests.toys.tokenizers import families


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
        Options(sampling=SamplingSettings(grammar=Grammar(kind, source)))


@pytest.mark.slow
def test_llguidance_is_imported_with_the_first_grammar_only() -> None:
    code = "import sys, app.inference.pair_loader; print('llguidance' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("name", ["gpt2", "llama-3.1-8b", "qwen3-8b", "smollm2-135m"])
def test_every_token_that_goes_on_in_the_text_is_allowed_and_no_other(name: str) -> None:
    """Also where one text alone is possible: the model divides it as it likes."""
    tokenizer = next(one.tokenizer for one in families() if one.name == name)
    eos = tokenizer.get_vocab_size() - 1
    pieces = {token: tokenizer.decode([token]) for token in range(eos)}
    text, end = "the sky is blue", "the sky"
    matcher = GrammarMatchers(decoder_of(tokenizer.to_str()), [eos])(Grammar("regex", "the sky( is blue)?"))
    written: list[int] = []
    while True:
        before = tokenizer.decode(written)
        expected = {token for token, piece in pieces.items() if piece and text.startswith(before + piece)}
        expected |= {eos} if before in (text, end) else set()
        bits = np.unpackbits(matcher.allowed().view(np.uint8), bitorder="little")
        assert set(np.flatnonzero(bits).tolist()) == expected
        forced = tokenizer.decode(matcher.forced())
        assert text.startswith(before + forced) and (forced or before in (text, end))
        if before == text:
            break
        refused = next(token for token in pieces if token not in expected)
        assert not matcher.consume(refused) and not matcher.consume(eos + 7)  # a padding row that a drafter drafted
        written.append(max(expected - {eos}, key=lambda token: (len(pieces[token]), token)))
        assert matcher.consume(written[-1])
        matcher.rollback(1)
        assert matcher.consume(written[-1])


def test_tags_of_html_that_are_tokens_can_be_written():
    """As Gemma 3's, which are in its vocabulary, added, and not special."""
    content = json.loads(make_tokenizer(512).to_str())
    vocabulary = content["model"]["vocab"]
    for name in ("<h1>", "<turn_end>"):
        vocabulary[name] = len(vocabulary)
        content["added_tokens"].append(
            {**content["added_tokens"][0], "id": vocabulary[name], "content": name, "special": False}
        )
    matcher = GrammarMatchers(json.dumps(content), [0])(Grammar("json_schema", '{"type": "string"}'))
    assert matcher.consume(vocabulary['"'])
    bits = matcher.allowed()
    allowed = [name for name in ("<h1>", "<turn_end>") if bits[vocabulary[name] >> 5] >> (vocabulary[name] & 31) & 1]
    assert allowed == ["<h1>"]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": {"type": "string"}},
        {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        {"type": "string", "pattern": r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$"},
        *({"type": "string", "format": name} for name in ("password", "base64url", "e164", "iri", "json-pointer", "")),
        {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
        {"type": "string", "not": {"const": "x"}},
        {"type": "object", "if": {"required": ["a"]}, "then": {"required": ["b"]}, "dependentRequired": {"a": ["b"]}},
        {"oneOf": [{"type": "string"}, {"enum": ["a", "b"]}]},
        {"type": "array", "contains": {"type": "string"}, "minContains": 1, "unevaluatedItems": False},
        {
            "$defs": {"A": {"type": "string", "pattern": r"\bx\b"}},
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/A"}},
        },
    ],
)
def test_what_a_grammar_cannot_enforce_is_let_through(schema: dict[str, Any]):
    check_grammar(Grammar("json_schema", json.dumps(schema)))
    left_out = enforceable(schema)[1]
    assert left_out or "oneOf" in schema
    kept = {"type": "object", "properties": {"pattern": {"type": "string", "minLength": 1}}, "enum": [{"not": 1}]}
    assert enforceable(kept) == (kept, [])


@pytest.mark.parametrize(
    ("schema", "written", "possible"),
    [
        ("string", '"\u00e9\u4e2d\U0001f600"', True),
        ("string", r'"\n\t\"\\\b\f"', True),
        ("string", r'"\u00e9"', False),
        ("string", r'"\/"', False),
        ("number", "-1.0e-3", True),
        ("integer", "12345678901234567890", True),
        ("integer", "1.0", False),
        ("integer", "1e3", False),
    ],
)
def test_json_has_one_form_for_each_value(schema: str, written: str, possible: bool):
    """Narrower than JSON, as app/api/README.md says; every value can be written."""
    tokenizer = make_tokenizer(512)
    matcher = GrammarMatchers(tokenizer.to_str(), [0])(Grammar("json_schema", json.dumps({"type": schema})))
    assert all(matcher.consume(token) for token in tokenizer.encode(written).ids) == possible
