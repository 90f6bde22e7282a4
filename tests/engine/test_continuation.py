"""A reply that goes on from what was said, and rounds whose draft was timed."""

from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import verify_pass
from engine.drafters.draft_model import DraftModel
from engine.events import Finished, Round
from engine.reply_text import ReplyText
from engine.session import Prompt
from engine.target.cached_model import CachedModel
from tests.engine.conversations import SHAPED, SHORT, answer, drafter, fresh, session
from tests.engine.fakes import ByteStream
from tests.engine.fewer import paired
from tests.engine.replies import PROMPT, draft_model, reply
from tests.engine.test_reply_text import rounds_of
from tests.toys.architectures import build

PLENTY = 10_000


@pytest.mark.slow_for("draft model-greedy")
@pytest.mark.parametrize(("kind", "rule"), paired(["none", "lookup", "draft model"], ["greedy", "coupled"]))
def test_a_reply_gone_on_with_is_the_reply_without_the_break(kind: str, rule: str) -> None:
    """In another session, so that nothing but the ids is left of the first part."""
    sampling = {"greedy": SHORT, "coupled": SHAPED}[rule]
    whole = fresh("qwen3", PROMPT, sampling, kind)
    for at in range(1, len(whole.ids)):
        left = replace(sampling, max_tokens=sampling.max_tokens - at)
        rest = answer(session("qwen3"), PROMPT, left, drafter(kind, "qwen3"), continuation_ids=whole.ids[:at])
        assert rest.ids == whole.ids[at:]
        assert rest.end.tokens == len(whole.ids) - at
        first = replace(sampling, max_tokens=at)
        told = answer(session("qwen3"), PROMPT, first, drafter(kind, "qwen3"))
        assert told.text.removesuffix(told.end.text) + rest.text == whole.text


def test_a_reply_that_ended_does_not_go_on_past_its_end() -> None:
    whole = fresh("qwen3", PROMPT, SHORT)
    ended = list(
        session("qwen3", frozenset([whole.ids[4]])).continue_tokens(
            Prompt(PROMPT), SHORT, continuation_ids=whole.ids[:5]
        )
    )
    assert [(type(e), e.reason, e.tokens) for e in ended if isinstance(e, Finished)] == [(Finished, "eos", 0)]
    stop = whole.rounds[1].texts[0] + whole.rounds[2].texts[0]
    stopped = list(
        session("qwen3").continue_tokens(Prompt(PROMPT), replace(SHORT, stop=(stop,)), continuation_ids=whole.ids[:5])
    )
    assert [(e.reason, e.tokens) for e in stopped if isinstance(e, Finished)] == [("stop", 0)]


@settings(max_examples=150)
@given(
    st.lists(st.sampled_from(["a", "b", "ab", "ba", "", "é"]), min_size=2, max_size=12),
    st.lists(st.sampled_from(["ab", "ba", "aab", "éa", "bb"]), max_size=2),
    st.data(),
)
def test_a_stop_string_ends_a_reply_across_the_break_too(texts: list[str], stops: list[str], data: Any) -> None:
    """The same text in all, but for what was told before the break and cannot be taken back."""
    pieces = [text.encode() for text in texts]
    rounds = rounds_of(len(pieces), [1] * PLENTY)
    at = data.draw(st.integers(0, len(pieces) - 1))

    def told(text: ReplyText, part: list[Round]) -> str:
        said: list[Round] = []
        for round_ in part:
            if text.stopped:
                break
            said += text.push(round_)
        rest, tail = text.finish()
        return "".join(t for r in [*said, *rest] for t in r.texts) + tail

    whole = told(ReplyText(ByteStream(pieces), stops), rounds)
    before = told(ReplyText(ByteStream(pieces), stops), rounds[:at])
    continued = ReplyText(ByteStream(pieces), stops, range(at))
    after = told(continued, rounds[at:])
    assert continued.stopped == any(stop in "".join(texts) for stop in stops)
    assert before + after == whole if len(before) <= len(whole) else after == ""


class TimedDraftModel(DraftModel):
    """Takes 3 seconds for a draft, by a clock that goes on by a second whenever it is read."""

    clock = count()

    def propose(self, context: Any, length: int) -> Any:
        asked_s = next(self.clock)
        next(self.clock), next(self.clock)
        return replace(super().propose(context, length), times_s=(asked_s, next(self.clock)))


def test_rounds_say_what_draft_and_verify_took_where_drafts_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    network = build("qwen3")
    _, untimed, _ = reply(network, draft_model(network, 64), 3, tokens=12)
    assert {(r.draft_s, r.verify_s) for r in untimed} == {(None, None)}
    clock = SimpleNamespace(monotonic=lambda: next(TimedDraftModel.clock))
    monkeypatch.setattr(verify_pass, "time", clock)
    ids, rounds, _ = reply(network, TimedDraftModel(CachedModel(network), 64), 3, tokens=12)
    assert ids == [token for r in untimed for token in r.tokens]
    assert {(r.draft_s, r.verify_s) for r in rounds if r.drafted} == {(3, 1)}
