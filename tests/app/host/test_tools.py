"""Tools in the host: constrained calls are valid and those of plain masked decoding, and what cannot be is refused."""

import json
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from app import protocol as p
from app.host.model_worker import ModelWorker
from app.host.reply_tools import ReplyTools
from engine.errors import UsageError
from engine.events import Finished, Round
from engine.reply_text import ReplyText
from engine.settings import Grammar
from models.grammar_matcher import check_grammar
from tests.engine.fewer import paired
from tests.toys.tool_families import FAMILIES, ToolFamily, make_tool_folder

QUESTION = (p.Message(role="user", content="the weather"),)
# Small, so that models of random weights come to an end; the same for all formats.
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "enum": ["Rome", "Bonn", "Oslo"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
        "wind": {"type": "boolean"},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
WEATHER = p.Tool(name="weather", parameters=json.dumps(PARAMETERS), strict=True)
W = p.Tool(name="w", parameters='{"type": "object", "properties": {}}')
CLOCK = p.Tool(name="clock", parameters='{"type": "object", "properties": {}}')
REQUIRED = p.Tools(offered=(WEATHER, CLOCK), required=True)
SAMPLINGS = {
    "greedy": p.SamplingSettings(max_tokens=300, draft_length=4),
    "coupled": p.SamplingSettings(max_tokens=300, draft_length=4, temperature=1.0, seed=3, acceptance="coupled"),
    "rejection": p.SamplingSettings(max_tokens=300, draft_length=4, temperature=1.0, seed=4),
}
CONSTRAINED = [family for family in FAMILIES if family.constrained]


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModelWorker]:
    """Each family's, loaded when it is first asked for."""
    root = tmp_path_factory.mktemp("tools")

    class Workers(dict[str, ModelWorker]):
        def __missing__(self, name: str) -> ModelWorker:
            family = next(one for one in FAMILIES if one.name == name)
            self[name] = worker = ModelWorker()
            folder = make_tool_folder(root / name, family)
            list(worker.load(p.Load(id=1, pair=p.Pair(target=str(folder), drafter="lookup"))))
            return worker

    return Workers()


def reply_with(
    worker: ModelWorker, sampling: p.SamplingSettings, tools: p.Tools
) -> tuple[list[p.ToolCall], str, list[int], p.ReplyDone]:
    """Returns calls, text, tokens and the end of a reply, which does not think: random models never stop."""
    added = worker._pair.target.tokenizer.added
    bias = {added[name]: -100.0 for name in ("<think>", "<|channel>", "[THINK]") if name in added}
    sampling = replace(sampling, logit_bias={**bias, **sampling.logit_bias})
    *events, last = worker.reply(p.Reply(id=2, messages=QUESTION, sampling=sampling, tools=tools), Event())
    assert isinstance(last, p.ReplyDone)
    rounds = [one.round for one in events if isinstance(one, p.RoundDone)]
    calls = [call for one in events if isinstance(one, p.Called) for call in one.calls]
    text = "".join(one.text_in("answer") for one in rounds) + last.finished.text
    return calls, text, [token for one in rounds for token in one.tokens], last


def check(call: p.ToolCall) -> None:
    """Asserts that a call is one of the tools' and its arguments are as strict as they were asked to be."""
    arguments = json.loads(call.arguments)
    assert len(call.id) == 9 and call.id.isalnum()
    if call.name == "clock":
        assert arguments == {}
        return
    assert call.name == "weather" and {"city", "days"} <= set(arguments) <= {"city", "days", "wind"}
    assert arguments["city"] in ("Rome", "Bonn", "Oslo") and isinstance(arguments.get("wind", True), bool)
    assert type(arguments["days"]) is int and 1 <= arguments["days"] <= 14


each = pytest.mark.parametrize("family", CONSTRAINED, ids=lambda family: family.name)


@pytest.mark.slow_for("hermes-*", "glm-*", "qwen3-coder-*")
@pytest.mark.parametrize(
    ("family", "draw"),
    paired(CONSTRAINED, [("greedy", 0), *((kind, seed) for kind in ("coupled", "rejection") for seed in range(3))]),
    ids=lambda value: getattr(value, "name", None),
)
def test_required_calls_are_valid_and_those_of_plain_masked_decoding(
    workers: dict[str, ModelWorker], family: ToolFamily, draw: tuple[str, int]
) -> None:
    (kind, seed), worker = draw, workers[family.name]
    sampling = replace(SAMPLINGS[kind], seed=seed)
    calls, text, tokens, done = reply_with(worker, sampling, REQUIRED)
    for call in calls:
        check(call)
    assert done.sampling is not None and done.sampling.grammar is not None
    assert calls or done.finished.reason == "length"
    if done.finished.reason == "eos":
        assert not text.strip()
    if kind != "rejection":
        assert reply_with(worker, replace(sampling, draft_length=0), REQUIRED)[2] == tokens


@pytest.mark.parametrize(
    ("family", "seed"), paired(CONSTRAINED, range(4)), ids=lambda value: getattr(value, "name", value)
)
def test_a_named_tool_is_called_once_and_ends_the_reply(
    workers: dict[str, ModelWorker], family: ToolFamily, seed: int
) -> None:
    sampling = replace(SAMPLINGS["coupled"], seed=seed)
    calls, text, _, done = reply_with(workers[family.name], sampling, replace_named(REQUIRED, "weather"))
    assert [call.name for call in calls] == ["weather"] and not text.strip() and done.finished.reason == "eos"
    check(calls[0])


@pytest.mark.slow
@each
def test_strict_arguments_leave_the_text_before_a_call_free(
    workers: dict[str, ModelWorker], family: ToolFamily
) -> None:
    """The mark of a call and the end are made likely, so that random models come to calls."""
    worker = workers[family.name]
    tokenizer = worker._pair.target.tokenizer
    assert tokenizer.tools is not None
    start = tokenizer.added.get(tokenizer.tools.start)
    bias = {**({start: 6.0} if start is not None else {}), **dict.fromkeys(tokenizer.eos, 3.0)}
    seen, texts = 0, 0
    for seed in range(12):
        sampling = replace(SAMPLINGS["coupled"], seed=seed, logit_bias=bias, max_tokens=120)
        tools = p.Tools(offered=(WEATHER, CLOCK), several=seed % 2 == 0)
        calls, text, tokens, _ = reply_with(worker, sampling, tools)
        for call in calls:
            if call.name == "weather":
                check(call)
        assert seed % 2 == 0 or len(calls) <= 1
        seen, texts = seen + len(calls), texts + bool(text.strip())
        if seed < 4:
            assert reply_with(worker, replace(sampling, draft_length=0), tools)[2] == tokens
    assert texts and (seen or start is None)


@pytest.mark.parametrize("family", [one for one in FAMILIES if not one.constrained], ids=lambda family: family.name)
def test_formats_without_a_grammar_say_so_and_are_free_otherwise(
    workers: dict[str, ModelWorker], family: ToolFamily
) -> None:
    worker, sampling = workers[family.name], SAMPLINGS["greedy"]
    with pytest.raises(UsageError, match=f"{family.parser}, for which there is no grammar.*leave out response_format"):
        reply_with(worker, sampling, REQUIRED)
    for free in (p.Tools(offered=(CLOCK,)), p.Tools(offered=(WEATHER,)), p.Tools(offered=(CLOCK,), several=False)):
        assert reply_with(worker, replace(sampling, max_tokens=8), free)[3].finished.tokens


@pytest.mark.parametrize(
    ("name", "properties", "message"),
    [
        ("qwen3", {"a": {"type": "string", "pattern": "("}}, "grammar cannot be used"),
        ("qwen3", {"a": {"type": "something"}}, "grammar cannot be used"),
        ("mistral", {"a": {"$ref": "http://example.com/x.json"}}, "grammar cannot be used"),
    ],
)
def test_schemas_that_cannot_be_followed_are_refused(
    workers: dict[str, ModelWorker], name: str, properties: dict[str, Any], message: str
) -> None:
    """CVE-2025-48944 among them: an invalid type or pattern ends nothing."""
    schema = json.dumps({"type": "object", "properties": properties, "required": list(properties)})
    tools = p.Tools(offered=(p.Tool(name="f", parameters=schema, strict=True),))
    with pytest.raises(UsageError, match=message):
        reply_with(workers[name], SAMPLINGS["greedy"], tools)
    assert reply_with(workers[name], replace(SAMPLINGS["greedy"], max_tokens=4), p.Tools(offered=(CLOCK,)))[3]


PATH: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "line": {"anyOf": [{"type": "string", "minLength": 2}, {"type": "null"}]},
        "where": {"$ref": "#/$defs/Where"},
    },
    "required": ["path"],
    "$defs": {"Where": {"type": "string", "pattern": "a+"}},
}


@pytest.mark.slow_for("hermes", "qwen3-coder", "minicpm5", "kimi-k2", "mistral", "mistral-v3")
@each
def test_free_texts_references_and_options_can_be_required(workers: dict[str, ModelWorker], family: ToolFamily) -> None:
    tools = p.Tools(offered=(p.Tool(name="open", parameters=json.dumps(PATH)),), required=True, several=False)
    worker = workers[family.name]
    for seed in range(1):
        sampling = replace(SAMPLINGS["coupled"], seed=seed, max_tokens=200)
        calls, _, _, done = reply_with(worker, sampling, tools)
        assert calls or done.finished.reason == "length"
        for call in calls:
            assert isinstance(json.loads(call.arguments)["path"], str)


X = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city", "days"]}
WITH_ARGUMENTS = (
    {"type": "object"},
    {},
    {"type": ["object", "null"]},
    {"$ref": "#/$defs/X", "$defs": {"X": X}},
    {"allOf": [X]},
)
ODD = (
    {"type": "object", "properties": {"a b": {"type": "string"}, "<c>": {}}, "required": ["a b"]},
    {
        "type": "object",
        "properties": {"in": {"$ref": "#/$defs/X"}},
        "$defs": {"X": {"properties": {"x": {"$ref": "#/$defs/X"}}}},
    },
    {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "undescribed"]},
)


@each
@pytest.mark.parametrize("schema", [*WITH_ARGUMENTS, *ODD], ids=str)
def test_a_schema_of_any_shape_lets_arguments_be_written(
    workers: dict[str, ModelWorker], family: ToolFamily, schema: dict[str, Any]
) -> None:
    """Among tools that are not strict, as agents have them."""
    tokenizer = workers[family.name]._pair.target.tokenizer
    free = [p.Tool(name=name, parameters=json.dumps(PARAMETERS)) for name in ("f", "g")]
    offered = (p.Tool(name="weather", parameters=json.dumps(schema), strict=True), *free)
    grammar = ReplyTools(tokenizer, p.Tools(offered=offered)).grammar
    assert grammar is not None
    check_grammar(grammar)
    matcher = tokenizer.matchers(grammar)
    if schema in WITH_ARGUMENTS:
        for token in tokenizer.pieces(family.written[: family.written.index("K\u00f6ln") + 2]):
            assert matcher.consume(token)


@each
def test_arguments_stay_free_where_only_another_tool_is_strict(
    workers: dict[str, ModelWorker], family: ToolFamily
) -> None:
    """In formats with tags they once had to be empty."""
    worker = workers[family.name]
    free = p.Tool(name="weather", parameters=json.dumps(PARAMETERS))
    strict = p.Tool(name="clock", parameters='{"type": "object", "properties": {}}', strict=True)
    tools = ReplyTools(worker._pair.target.tokenizer, p.Tools(offered=(free, strict)))
    assert tools.grammar is not None
    matcher = worker._pair.target.tokenizer.matchers(tools.grammar)
    beginning = family.written[: family.written.index("3") + 1]
    for token in worker._pair.target.tokenizer.pieces(beginning):
        assert matcher.consume(token), (tools.grammar.source, beginning)


def test_a_reply_that_may_have_only_one_call_ends_after_it(workers: dict[str, ModelWorker]) -> None:
    """Also in formats of calls without a grammar; nothing is masked for it."""
    assert (
        ReplyTools(workers["gpt-oss"]._pair.target.tokenizer, p.Tools(offered=(CLOCK,), several=False)).grammar is None
    )
    family = next(one for one in FAMILIES if one.name == "hermes")
    tokenizer = workers["hermes"]._pair.target.tokenizer
    tools = ReplyTools(tokenizer, p.Tools(offered=(WEATHER, CLOCK, W), several=False))
    ids, text = tokenizer.pieces(family.written), ReplyText(tokenizer.stream(), ())
    rounds = [one for i, token in enumerate(ids) for one in text.push(Round(i, (token,), (), 0, (1.0,), (), 1, 0.1))]
    *_, calls, end = tools.events(iter([*rounds, Finished("eos", len(ids), 1.0)]))
    assert [call.name for call in calls] == ["weather"] and end.reason == "eos" and end.tokens < len(ids)


@each
def test_an_answer_follows_its_format_or_is_a_call(workers: dict[str, ModelWorker], family: ToolFamily) -> None:
    number = {"type": "integer", "minimum": 1, "maximum": 9}
    schema = {"type": "object", "properties": {"n": number}, "required": ["n"], "additionalProperties": False}
    answer = Grammar("json_schema", json.dumps(schema))
    worker = workers[family.name]
    for seed in range(3):
        sampling = replace(SAMPLINGS["coupled"], seed=seed, grammar=answer, max_tokens=200)
        calls, text, _, done = reply_with(worker, sampling, p.Tools(offered=(WEATHER,)))
        if done.finished.reason == "eos" and not calls:
            assert 1 <= json.loads(text)["n"] <= 9
        elif done.finished.reason == "eos":
            assert not text.strip()


def test_a_model_whose_template_has_no_tools_refuses_them(toy_folder: Path) -> None:
    worker = ModelWorker()
    list(worker.load(p.Load(id=1, pair=p.Pair(target=str(toy_folder), drafter="none"))))
    with pytest.raises(UsageError, match="this model takes no tools: leave tools out, or choose another"):
        reply_with(worker, SAMPLINGS["greedy"], REQUIRED)
    call = p.ToolCall(id="a", name="f", arguments="{}")
    turns = (*QUESTION, p.Message(role="assistant", content="", calls=(call,)))
    with pytest.raises(UsageError, match="the conversation contains tool calls"):
        list(worker.reply(p.Reply(id=2, messages=turns, sampling=SAMPLINGS["greedy"]), Event()))


def test_a_choice_of_a_tool_that_is_not_offered_is_refused(workers: dict[str, ModelWorker]) -> None:
    with pytest.raises(UsageError, match="not among the tools"):
        reply_with(workers["qwen3"], SAMPLINGS["greedy"], replace_named(REQUIRED, "other"))


def test_tools_are_counted_with_the_prompt(workers: dict[str, ModelWorker]) -> None:
    worker = workers["qwen3"]
    [plain] = worker.count(p.Count(id=3, messages=QUESTION), Event())
    [with_tools] = worker.count(p.Count(id=3, messages=QUESTION, tools=REQUIRED), Event())
    assert isinstance(plain, p.Counted) and isinstance(with_tools, p.Counted)
    assert with_tools.tokens > plain.tokens + 100


def replace_named(tools: p.Tools, name: str) -> p.Tools:
    return p.Tools(offered=tools.offered, required=True, named=name)
