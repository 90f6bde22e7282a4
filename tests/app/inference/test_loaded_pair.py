"""A target with a drafter: several replies at once, each with a pair of its own, and a drafter that fails."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from app.inference import pair_loader
from app.inference.loaded_pair import LoadedPair, open_target
from app.inference.options import Options
from app.inference.pair_loader import NamedDrafter
from app.inference.reply_events import FellBack, ReplyEvent
from app.inference.reply_runner import ReplyInput, ReplyRunner
from engine.drafters import Drafter
from engine.drafters.eagle3 import Eagle3
from engine.events import PromptProgress, Round
from engine.policy.adaptive import Adaptive
from engine.session import Session
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from engine.together import Together
from models.loader import Loaded, load
from models.tokenizer import NO_TEMPLATE
from tests.toys.folders import make_folder
from tests.toys.heads import random_eagle3

SETTINGS = SamplingSettings(max_tokens=24, draft_length=3)
TEXTS = "one, two, three, one, two, three, and then " * 3, "why is the sky blue? the sky is blue since the sky is " * 4


@pytest.fixture(scope="module")
def target(toy_folder: Path) -> Loaded:
    return load(toy_folder)


@pytest.fixture(params=["draft", "lookup+draft"])
def pair(request: pytest.FixtureRequest, target: Loaded, toy_drafter_folder: Path, tmp_path: Path) -> LoadedPair:
    session = Session(CachedModel(target.network), target.tokenizer, 400)
    session.kept.limit_bytes = 1 << 30
    target = replace(target, model=session.target)
    drafter = pair_loader.open_drafter(request.param.replace("draft", str(toy_drafter_folder)), target)
    return LoadedPair(target, session, drafter, cache_root=tmp_path)


def reply(pair: LoadedPair, text: str, settings: SamplingSettings = SETTINGS) -> Iterator[ReplyEvent]:
    return ReplyRunner(pair, settings, ReplyInput(text), lambda: False).events()


def rounds(events: Sequence[object]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """What each round drafted, and what came of it."""
    return [(event.drafted, event.tokens) for event in events if isinstance(event, Round)]


def tokens(events: Sequence[object]) -> list[int]:
    return [token for _, own in rounds(events) for token in own]


def alternating(*replies: Iterator[ReplyEvent]) -> list[list[ReplyEvent]]:
    events = zip(*zip_longest(*replies), strict=True)
    return [[event for event in own if event is not None] for own in events]


def break_first_draft(drafter: Drafter | None, patch: pytest.MonkeyPatch) -> None:
    """Has just this drafter fail, and none of the same weights."""
    kind = type(drafter)
    propose = kind.propose

    def failing(self: Drafter, *given: Any) -> Any:
        if self is drafter:
            raise RuntimeError("broken")
        return propose(self, *given)

    patch.setattr(kind, "propose", failing)


def test_two_replies_that_alternate_are_what_each_is_alone(pair: LoadedPair) -> None:
    alone = [list(reply(pair.for_another_reply(), text)) for text in TEXTS]
    assert all(any(drafted for drafted, _ in rounds(events)) for events in alone)
    together = alternating(reply(pair, TEXTS[0]), reply(pair.for_another_reply(), TEXTS[1]))
    assert [rounds(events) for events in together] == [rounds(events) for events in alone]


@pytest.mark.slow_for("draft")
def test_a_drafter_that_fails_leaves_the_other_reply_alone_and_drafts_again(
    pair: LoadedPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = pair.for_another_reply()
    whole = alternating(reply(pair, TEXTS[0]), reply(other, TEXTS[1]))
    for each in (pair, other):
        each.reset()
        each.session.kept.clear()
    assert other.drafter.drafter is not pair.drafter.drafter
    break_first_draft(other.drafter.parts[0].drafter, monkeypatch)
    kept, fallen = alternating(reply(pair, TEXTS[0]), reply(other, TEXTS[1]))
    assert rounds(kept) == rounds(whole[0])
    assert [type(event) for event in fallen].count(FellBack) == 1 and tokens(fallen) == tokens(whole[1])
    other.clear()
    other.session.kept.clear()
    assert rounds(list(reply(other, TEXTS[1]))) == rounds(whole[1])


@pytest.mark.slow_for("draft")
def test_a_pair_goes_on_from_a_conversation_that_another_one_kept(pair: LoadedPair) -> None:
    other = pair.for_another_reply()
    list(reply(other, TEXTS[1]))
    other.clear()
    first = next(event for event in reply(pair, TEXTS[1] + "the sky") if isinstance(event, PromptProgress))
    assert first.reused > 64


def test_a_head_goes_on_from_a_conversation_that_another_pair_kept(target: Loaded, tmp_path: Path) -> None:
    session = Session(CachedModel(target.network), target.tokenizer, 400)
    session.kept.limit_bytes = 1 << 30
    target = replace(target, model=session.target)
    head = random_eagle3(taps=(0, 1, 2), vocab_size=target.model.vocabulary, draft_vocab_size=64)
    drafter = NamedDrafter("eagle3", Eagle3(head, target.model))
    pair = LoadedPair(target, session, drafter, cache_root=tmp_path)
    other = pair.for_another_reply()
    list(reply(other, TEXTS[1]))
    other.clear()
    first = next(event for event in reply(pair, TEXTS[1] + "the sky") if isinstance(event, PromptProgress))
    assert first.reused > 64
    pair.clear()
    pair.reset()
    first = next(event for event in reply(pair, TEXTS[1] + "the sun") if isinstance(event, PromptProgress))
    assert first.reused > 64


@pytest.mark.slow_for("draft")
def test_replies_whose_passes_are_one_learn_what_such_rounds_take_and_say_what_each_says_alone(
    pair: LoadedPair,
) -> None:
    settings, texts = replace(SETTINGS, draft_length=None, max_tokens=40), [*TEXTS, "why " * 30, "one, two, " * 9]
    alone = [tokens(list(reply(pair.for_another_reply(), text, settings))) for text in texts]
    pair.learnt.times.clear()  # where the machine was slow, drafts would not be tried again
    replies, found = Together(), [list[ReplyEvent]() for _ in texts]
    pair.at_once = replies.at_once
    for text, events in zip(texts, found, strict=True):
        replies.start(partial(events.extend, reply(pair.for_another_reply(), text, settings)))
    while replies.running:
        replies.turn()
    assert [tokens(events) for events in found] == alone
    assert pair.learnt.times_of().of_several[4].learnt


@pytest.mark.slow_for("draft")
def test_what_the_rounds_teach_is_shared(pair: LoadedPair) -> None:
    other = pair.for_another_reply()
    assert other.learnt is pair.learnt
    settings = replace(SETTINGS, draft_length=None, fresh=True)
    alternating(reply(pair, TEXTS[0], settings), reply(other, TEXTS[1], settings))
    other.reset()
    assert other.learnt is pair.learnt
    assert isinstance(other.policy(settings, 100), Adaptive) and pair.learnt.times_of().learnt
    pair.open_session(Options(target=str(pair.target.folder.path), cache_root=pair.cache_root))
    assert pair.learnt is other.learnt


def test_a_target_without_a_chat_template_is_opened_with_a_word_about_it(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "base")
    about = json.loads((folder / "tokenizer_config.json").read_text())
    about.pop("chat_template", None)
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    assert NO_TEMPLATE in open_target(Options(target=str(folder), cache_root=tmp_path)).note
