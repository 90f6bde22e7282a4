"""Replies of servers: what of them is measured, and what is told of servers that lie or break off."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from app.protocol.race_messages import Server, ServerReport
from app.remote.openai_client import Arrival, ServerClient, ServerError, check_address
from app.remote.server_reply import ServerReply, Token, tokenized, warnings_of
from engine.errors import StoppedError, UsageError
from engine.events import Event, Finished, PromptProgress, Round
from engine.metrics import Metrics
from engine.settings import SamplingSettings
from models.tokenizer import FolderTokenizer
from tests.app.remote.toy_servers import (
    END,
    TEXT,
    USAGE,
    Handler,
    Script,
    delta,
    endless,
    event,
    honest,
    only_comments,
    serving,
    silent,
    words,
)

SETTINGS = SamplingSettings(max_tokens=16)
MESSAGES = [{"role": "user", "content": "Count."}]


def never() -> bool:
    return False


def asked(script: Script, settings: SamplingSettings = SETTINGS, **more: Any) -> tuple[list[Event], ServerReply]:
    """The events of a reply, each with its text, and what read them."""
    with serving(script) as server:
        client = ServerClient(Server(url=server.url), **more)
        reply = ServerReply(client.name, client.product, settings)
        return list(reply.events(client.chat(MESSAGES, settings, never))), reply


def rounds_of(events: list[Event]) -> list[Round]:
    return [one for one in events if isinstance(one, Round)]


def text_of(events: list[Event]) -> str:
    return "".join(text for one in rounds_of(events) for text in one.texts)


def report_of(events: list[Event], reply: ServerReply, tokens: int = 6) -> ServerReport:
    """What the server says, where its text has so many tokens, one at each arrival."""
    return reply.report(9, metrics(tokens))


def metrics(tokens: int, a_round: int = 1, step_s: float = 0.1) -> Metrics:
    """Of rounds of as many tokens, one every `step_s` seconds."""
    rounds = range(tokens // a_round)
    return Metrics.of(Round(i, (1,) * a_round, (), 0, (), (), 1, (i + 1) * step_s) for i in rounds)


def test_an_honest_reply_is_a_stream_of_events_without_a_warning() -> None:
    events, reply = asked(honest)
    assert isinstance(events[-1], Finished) and events[-1].reason == "eos" and text_of(events) == TEXT
    assert [one.total for one in events if isinstance(one, PromptProgress)] == [9]
    times = [one.time_s for one in rounds_of(events)]
    assert times == sorted(times) and times[0] > 0
    report = report_of(events, reply)
    assert (report.product, report.model, report.tokens, report.warnings) == ("toy/1", "toy", 6, ())


def test_only_the_prompt_and_its_settings_are_sent_and_the_key_of_the_named_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOY_KEY", "open sesame")
    with serving(honest) as server:
        client = ServerClient(Server(url=f"{server.url}/v1/", key_env="TOY_KEY"))
        list(client.chat(MESSAGES, SamplingSettings(max_tokens=16, temperature=0.5, top_p=0.9, stop=("x",)), never))
    assert client.name == f"toy at 127.0.0.1:{server.server_port}"
    assert server.asked == [
        {
            "model": "folder/toy", "messages": MESSAGES, "stream": True, "stream_options": {"include_usage": True},
            "max_tokens": 16, "temperature": 0.5, "top_p": 0.9, "stop": ["x"], "key": "Bearer open sesame",
        }
    ]  # fmt: skip


@pytest.mark.parametrize("url", ["", "ftp://x", "http://", "http://me:secret@host", "http://h:p", "http://h/v1?a=b"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="is not the address of a server"):
        check_address(Server(url=url))


def test_an_address_may_be_short() -> None:
    assert check_address(Server(url="127.0.0.1:8080")) == (("http", "127.0.0.1:8080"), "/v1")
    assert check_address(Server(url="https://host/api/")) == (("https", "host"), "/api")


def test_a_variable_without_a_key_and_a_server_that_is_not_there_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOY_KEY", raising=False)
    with pytest.raises(UsageError, match="TOY_KEY holds no key"):
        ServerClient(Server(url="127.0.0.1:9", key_env="TOY_KEY"))
    with serving(honest) as server:
        url = server.url
    with pytest.raises(ServerError, match="does not answer"):
        ServerClient(Server(url=url))


BROKEN: dict[str, tuple[Callable[[Handler], None], str]] = {
    "refusal": (lambda handler: handler.refuse(404), "answers 404"),
    "redirection": (lambda handler: handler.refuse(302), "answers 302"),
    "no stream": (lambda handler: handler.refuse(200), "does not stream"),
    "error in the stream": (
        lambda handler: handler.stream(delta("one"), event({"error": {"message": "out of memory"}})),
        "out of memory",
    ),
    "no JSON": (lambda handler: handler.stream(b"data: {\n\n"), "not OpenAI's protocol"),
    "wrong types": (lambda handler: handler.stream(event({"choices": [{"delta": 5}]})), "not OpenAI's protocol"),
    "no text": (lambda handler: handler.stream(delta("", "stop"), END), "sent no text"),
    "nothing": (lambda handler: None, "broke off"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_server_that_fails_is_an_error_that_says_why(what: str) -> None:
    script, why = BROKEN[what]
    with pytest.raises(ServerError, match=why):
        asked(script)


@pytest.mark.parametrize("listed", [b"", b'{"object": "list", "data": []}'])
def test_a_server_that_lists_nothing_is_asked_for_the_named_model(
    listed: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as mlx_lm.server without a cache folder, which answers with nothing at all."""
    monkeypatch.setattr(Handler, "do_GET", lambda handler: handler._send(listed, "application/json"))
    with serving(honest) as server:
        with pytest.raises(ServerError, match="default_model"):
            ServerClient(Server(url=server.url))
        assert ServerClient(Server(url=server.url, model="default_model")).model == "default_model"


@pytest.mark.parametrize("script", [silent, only_comments])
def test_a_server_that_is_silent_is_left(script: Script) -> None:
    with pytest.raises(ServerError, match="silent"):
        asked(script, silent_s=0.0)


@pytest.mark.parametrize("script", [silent, endless])
def test_a_reply_is_stopped_wherever_it_is(script: Script) -> None:
    stop = threading.Event()
    stop.set()
    with serving(script) as server, pytest.raises(StoppedError):
        list(ServerClient(Server(url=server.url)).chat(MESSAGES, SETTINGS, stop.is_set))


def test_an_endless_reply_is_cut_off_and_told() -> None:
    events, reply = asked(endless)
    assert isinstance(events[-1], Finished)
    assert "It went on beyond the limit of 16 tokens and was cut off." in report_of(events, reply).warnings


@pytest.mark.parametrize(
    ("parts", "warning"),
    [
        ([*map(delta, words()), delta("", "stop"), event(USAGE)], "Its stream ended without [DONE]."),
        ([*map(delta, words()), event(USAGE)], "It closed the connection without saying that its reply had ended."),
        ([*map(delta, words()), delta("", "stop"), END], "It does not say how many tokens it wrote."),
    ],
)
def test_what_is_missing_at_the_end_is_told(parts: list[bytes], warning: str) -> None:
    events, reply = asked(lambda handler: handler.stream(*parts))
    assert text_of(events) == TEXT and report_of(events, reply).warnings == (warning,)


HONEST = ServerReport(tokens=20, prompt_tokens=9, tokens_per_s=10.0, ttft_s=0.1)


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        ({}, None),
        ({"tokens": 21}, None),  # the end-of-sequence token
        ({"tokens": 200}, "It counts 200 tokens; here its text has 20."),
        ({"prompt_tokens": 12}, "Its prompt has 12 tokens, here 9: its template or tokenizer differs."),
        ({"cached_tokens": 7}, "It had 7 tokens of the prompt in its cache: compare decode speeds."),
        ({"tokens_per_s": 10.4}, None),  # all of the tokens over the time between the first and the last
        ({"tokens_per_s": 400.0}, "It claims 400.0 tokens/s; by the clock it was 10.0."),
        ({"tokens_per_s": 5.0}, "It claims 5.0 tokens/s; by the clock it was 10.0."),
        ({"ttft_s": 0.01}, "It claims 0.01 s to the first token; by the clock it took 0.10 s."),
    ],
)
def test_figures_that_the_clock_and_the_text_contradict_are_told(changes: dict[str, Any], warning: str | None) -> None:
    found = list(warnings_of(replace(HONEST, **changes), 9, metrics(20)))
    assert found == ([] if warning is None else [warning])


def test_bursts_are_told_apart_from_steps() -> None:
    report = replace(HONEST, tokens_per_s=None, ttft_s=None)
    assert list(warnings_of(report, 9, metrics(20, a_round=10))) == [
        "Its tokens arrive in bursts, 10.0 at a time; TTFT is that of the first burst."
    ]


def test_figures_of_llama_cpp_and_lm_studio_are_read() -> None:
    timings = event({"timings": {"predicted_per_second": 10.0, "cache_n": 3, "draft_n": 1}})
    timings = timings[:-3] + b', "model": "/models/a.gguf"}\n\n'
    reply = ServerReply("toy", "", SETTINGS)
    list(reply.events([Arrival(0.1, (delta("a")[6:].strip(), timings[6:].strip()), True)]))
    found = report_of([], reply)
    assert (found.source, found.tokens_per_s, found.cached_tokens) == ("timings", 10.0, 3)
    assert found.model == "a.gguf"
    stats = event({"stats": {"tokens_per_second": 4, "time_to_first_token": 0.5}})
    reply = ServerReply("toy", "", SETTINGS)
    list(reply.events([Arrival(0.1, (delta("a")[6:].strip(), stats[6:].strip()), True)]))
    found = report_of([], reply)
    assert (found.source, found.tokens_per_s, found.ttft_s) == ("stats", 4.0, 0.5)


def test_a_thought_is_told_apart_from_the_answer() -> None:
    parts = [delta("hm", field="reasoning_content"), delta("so", field="reasoning"), delta(" yes", "stop"), END]
    events, _ = asked(lambda handler: handler.stream(*parts))
    rounds = rounds_of(events)
    assert "".join(one.text_in("thought") for one in rounds) == "hmso"
    assert "".join(one.text_in("answer") for one in rounds) == " yes"


# --- tokens -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tokenizer(toy_folder: Path) -> FolderTokenizer:
    return FolderTokenizer(toy_folder, eos=(0,))


def arrived(*texts: str, reason: str = "eos") -> list[Event]:
    """A text at each tenth of a second."""
    rounds = [Round(i, (-1,), (), 0, (), (), 1, (i + 1) / 10, texts=(text,)) for i, text in enumerate(texts)]
    return [*rounds, Finished(reason, len(texts), 1.0)]


def test_each_token_is_in_the_round_that_completed_it(tokenizer: FolderTokenizer) -> None:
    text = "why is the sky blue"
    whole = tokenizer.pieces(text)
    for cut in range(1, len(text)):
        found = rounds_of(tokenized(arrived(text[:cut], text[cut:]), tokenizer))
        tokens = [token for one in found for token in one.tokens]
        assert tokens[:-1] == whole and tokens[-1] in tokenizer.eos
        assert text_of(found) == text and [one.index for one in found] == list(range(len(found)))
        assert found[-1].time_s == 0.2


def test_a_text_that_may_be_split_in_several_ways_is_split_as_the_other_one(tokenizer: FolderTokenizer) -> None:
    text = "why is the sky blue"
    letters = [Token(tokenizer.pieces(one)[0], one) for one in text[:3]]
    found = rounds_of(tokenized(arrived(text, reason="length"), tokenizer, letters))
    assert found[0].tokens[:3] == tuple(token.id for token in letters)
    assert text_of(found) == text
    other = [Token(tokenizer.pieces("x")[0], "x")]
    assert rounds_of(tokenized(arrived(text, reason="length"), tokenizer, other))[0].tokens == tuple(
        tokenizer.pieces(text)
    )


def test_an_end_is_the_same_end(tokenizer: FolderTokenizer) -> None:
    text = "why"
    like = [*(Token(one, "") for one in tokenizer.pieces(text)[:-1]), Token(tokenizer.pieces(text)[-1], text)]
    end = Token(max(tokenizer.eos), "")
    assert rounds_of(tokenized(arrived(text), tokenizer, [*like, end]))[0].tokens[-1] == end.id
    cut = rounds_of(tokenized(arrived(text, reason="length"), tokenizer, [*like, end]))
    assert cut[0].tokens == tuple(token.id for token in like)
