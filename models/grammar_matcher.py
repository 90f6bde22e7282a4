"""Grammars for structured output, compiled and matched by llguidance.

llguidance is imported when the first grammar comes, so that no other start pays for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.errors import ModelError, UsageError
from engine.settings import Grammar
from models.json_schemas import enforceable

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

_T = TypeVar("_T")
LONGEST_SOURCE = 200_000  # characters
DEEPEST_SCHEMA = 64  # levels of objects and lists
# One line with single spaces, unless the schema says otherwise: small models never end where any blanks are allowed.
_GUIDANCE = {
    "x-guidance": {
        "whitespace_flexible": False,
        "item_separator": ", ",
        "key_separator": ": ",
        "coerce_one_of": True,  # `oneOf` is read as `anyOf` where llguidance cannot tell that only one holds
    }
}
_TOKEN = b"\xff"  # begins the number of a token in llguidance's bytes
_TAG = re.compile(r"</?(?!unused|mask|pad|unk|bos|eos)[a-z]+[1-6]?>")  # of HTML, and not the name of a special token
# Where one text alone may follow, llguidance would allow only the tokens that it divides it into itself.
_ANY_TOKENS = '%llguidance {"no_forcing": true}\n'


def check_grammar(grammar: Grammar) -> None:
    """Raises UsageError for a grammar that is too large or that llguidance does not compile."""
    compiled(grammar)


def compiled(grammar: Grammar) -> str:
    """Returns the grammar as llguidance's matcher reads it. Raises UsageError as `check_grammar` does."""
    from llguidance import LLMatcher

    if len(grammar.source) > LONGEST_SOURCE:
        raise UsageError(f"the grammar has {len(grammar.source):,} characters: give at most {LONGEST_SOURCE:,}")
    text = LLMatcher.grammar_from_lark(_ANY_TOKENS + _lark(grammar))
    if LLMatcher.validate_grammar_with_warnings(text)[0]:
        reason = " ".join(LLMatcher.validate_grammar(text).partition("\n   1 |")[0].split())[:200]
        raise UsageError(f"the grammar cannot be used ({reason}): change it, or leave it out")
    return text


def _lark(grammar: Grammar) -> str:
    """Returns the grammar in Lark's syntax as llguidance extends it."""
    if grammar.kind == "lark":
        return grammar.source
    if grammar.kind == "regex":
        from llguidance import LLMatcher

        return str(json.loads(LLMatcher.grammar_from_regex(grammar.source))["grammars"][0]["lark_grammar"])
    try:
        value = json.loads(grammar.source)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the grammar is not JSON ({str(error)[:200]}): correct it") from None
    if grammar.kind == "json_schema":
        if not isinstance(value, dict | bool):
            raise UsageError('the JSON Schema is not an object: give one such as {"type": "object"}')
        return f"start: {json_expression(value)}"
    if not isinstance(value, list) or not value or not all(isinstance(one, str) and one for one in value):
        raise UsageError('the choices are not a list of texts: give one such as ["yes", "no"]')
    return "start: " + " | ".join(json.dumps(one) for one in value)


def json_expression(schema: Mapping[str, Any] | bool) -> str:
    """Returns the expression, in Lark's syntax, of JSON that follows a schema as far as a grammar can enforce it.
    Raises UsageError for one that is nested too deep."""
    if depth_of(schema) > DEEPEST_SCHEMA:
        raise UsageError(f"the JSON Schema is nested deeper than {DEEPEST_SCHEMA} levels: make it flatter")
    plain, _ = enforceable(schema)
    return f"%json {json.dumps(_GUIDANCE | plain if isinstance(plain, dict) else plain)}"


def depth_of(value: Any) -> int:
    """Returns how many levels of objects and lists a JSON value has."""
    levels, here = 0, [value]
    while here:
        inner = [one for one in here if isinstance(one, dict | list)]
        levels += bool(inner)
        here = [part for one in inner for part in (one.values() if isinstance(one, dict) else one)]
    return levels


class GrammarMatchers:
    """Makes matchers for one tokenizer, which llguidance reads once, when the first is needed.

    decoder: a tokenizer.json that is good for decoding, as `models.tokenizer_worker.decoder_of` makes it. eos: ids that
    end a reply.
    """

    def __init__(self, decoder: str, eos: Iterable[int]) -> None:
        self._decoder, self._eos = decoder, sorted(eos)
        self._tokenizer: LLTokenizer | None = None

    def __call__(self, grammar: Grammar) -> GrammarMatcher:
        """Returns a matcher before the first token. Raises UsageError for a grammar that is not valid, ModelError for a
        tokenizer that llguidance cannot read."""
        from llguidance import LLMatcher, LLTokenizer

        text = compiled(grammar)
        if self._tokenizer is None:
            try:
                self._tokenizer = LLTokenizer(_with_plain_tags(self._decoder), eos_token=self._eos)
            except ValueError as error:
                reason = " ".join(str(error).split())[:200]
                what = f"llguidance cannot read this model's tokenizer ({reason})"
                raise ModelError(f"{what}: leave the grammar out, or choose another model") from error
        return GrammarMatcher(LLMatcher(self._tokenizer, text, log_level=0), self._tokenizer, "<[" in grammar.source)


def _with_plain_tags(tokenizer_json: str) -> str:
    """Returns a tokenizer.json in which tags of HTML are tokens like any other. llguidance 1.9.1 takes every added
    token in angle brackets for a special one, which no text contains; Gemma 3 writes HTML with such tokens."""
    content = json.loads(tokenizer_json)
    vocabulary = content["model"].get("vocab", {})

    def is_plain(token: dict[str, Any]) -> bool:
        known = isinstance(vocabulary, dict) and vocabulary.get(token["content"]) == token["id"]
        return known and not token["special"] and _TAG.fullmatch(token["content"]) is not None

    content["added_tokens"] = [token for token in content["added_tokens"] if not is_plain(token)]
    return json.dumps(content, ensure_ascii=False)


class GrammarMatcher:
    """Implements `engine.grammar.Matcher` with llguidance's. Raises UsageError where the grammar goes beyond
    llguidance's limits.

    names_tokens: whether the grammar has tokens by their numbers. llguidance then loses its place when it is asked for
    the text that must follow, so a copy is asked.
    """

    def __init__(self, matcher: LLMatcher, tokenizer: LLTokenizer, names_tokens: bool = False) -> None:
        self._matcher, self._tokenizer, self._names_tokens = matcher, tokenizer, names_tokens

    def allowed(self) -> NDArray[np.uint32]:
        return np.frombuffer(self._checked(self._matcher.compute_bitmask()), np.uint32)

    def consume(self, token: int) -> bool:
        if token >= self._tokenizer.vocab_size:  # a drafted padding row, at which llguidance would fail for good
            return False
        return self._checked(self._matcher.try_consume_tokens([token])) == 1

    def rollback(self, tokens: int) -> None:
        if tokens:
            self._checked(self._matcher.rollback(tokens))

    def forced(self) -> list[int]:
        """As the protocol says; divided greedily into the longest tokens, which is what models mostly write."""
        matcher = self._matcher.deep_copy() if self._names_tokens else self._matcher
        text = self._checked(matcher.compute_ff_bytes()).partition(_TOKEN)[0]
        return self._tokenizer.greedy_tokenize(text.decode(errors="ignore")) if text else []

    def _checked(self, result: _T) -> _T:
        """Returns what llguidance answered, unless it has failed for good."""
        if self._matcher.is_error():
            reason = " ".join(self._matcher.get_error().split())[:200]
            raise UsageError(f"the grammar cannot be followed any further ({reason}): make it simpler")
        return result
