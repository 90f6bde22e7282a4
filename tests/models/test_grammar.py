"""What llguidance makes of a grammar: which are refused, and that a matcher allows every division into tokens."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from app.inference.options import Options
from engine.errors import UsageError
from engine.settings import Grammar, GrammarKind, SamplingSettings
from models.grammar_matcher import DEEPEST_SCHEMA, LONGEST_SOURCE, GrammarMatchers
from models.tokenizer_worker import decoder_of
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
        assert not matcher.consume(refused)
        written.append(max(expected - {eos}, key=lambda token: (len(pieces[token]), token)))
        assert matcher.consume(written[-1])
        matcher.rollback(1)
        assert matcher.consume(written[-1])
