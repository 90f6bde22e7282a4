"""The EAGLE-3 head in conversations: every turn answers and drafts as a fresh session would."""

from typing import Any

import pytest

from engine.policy.fixed import FixedLength
from engine.session import Session
from engine.settings import SamplingSettings
from engine.target.cached_model import PREFILL_CHUNK, CachedModel
from tests.engine.conversations import LONG, SHAPED, SHORT, TURN, answer, fresh, same, session
from tests.engine.drafters.eagles import eagle, network_of
from tests.engine.fakes import ByteTokenizer
from tests.engine.replies import PROMPT, attach


def fresh_eagle(name: str, prompt: list[int], settings: SamplingSettings, trees: bool) -> Any:
    return answer(session(name), prompt, settings, eagle(name, trees))


@pytest.mark.slow_for("llama, greedy, trees")
@pytest.mark.parametrize(
    ("name", "settings", "trees"),
    [
        ("qwen3", SHAPED, True),
        ("llama", SHORT, True),
        pytest.param("llama", SHAPED, False, marks=pytest.mark.slow),
        pytest.param("mamba2", SHORT, False, marks=pytest.mark.slow),
    ],
    ids=["qwen3, coupled, trees", "llama, greedy, trees", "llama, coupled, chains", "mamba2, greedy, chains"],
)
def test_turns_and_edits_answer_and_draft_like_a_fresh_session(
    name: str, settings: SamplingSettings, trees: bool
) -> None:
    s, d = session(name), eagle(name, trees)
    first = [*PROMPT, 11]
    second = [*first, *answer(s, first, settings, d).ids, *TURN]
    for prompt in (second, [*second[:-2], 40, 41, 42], [*PROMPT, 12, 13], PROMPT[:3]):
        reply_ = answer(s, prompt, settings, d)
        same(reply_, fresh_eagle(name, prompt, settings, trees))
        same(reply_._replace(drafts=[]), fresh(name, prompt, settings)._replace(drafts=[]))


@pytest.mark.parametrize("trees", [False, True], ids=["chain", "tree"])
def test_the_next_turn_reuses_all_but_what_the_head_needs(trees: bool) -> None:
    s, d = session("qwen3"), eagle("qwen3", trees)
    said = [*PROMPT, *answer(s, PROMPT, SHORT, d).ids]
    again = answer(s, [*said, *TURN], SHORT, d)
    assert again.reused == len(said) - 1
    edited = [*said[:20], 40, 41, 42]
    assert answer(s, edited, SHORT, d).reused == 19  # the last common token is fed again, for its features


@pytest.mark.slow_for("0")
@pytest.mark.parametrize("chunks", [0, 2])
def test_a_prompt_cancelled_half_way_can_be_asked_again(chunks: int) -> None:
    s, d = session("qwen3"), eagle("qwen3", trees=True)
    attach(d, s.target)
    prompt, seen = (LONG * 3)[: 2 * PREFILL_CHUNK + 70], []
    for event in s.continue_tokens(prompt, SHORT, d, FixedLength(5), lambda: len(seen) > chunks):
        seen.append(event)
    for again in (prompt, [*prompt[:700], 5, 6]):
        same(answer(s, again, SHORT, d), fresh_eagle("qwen3", again, SHORT, True))


@pytest.mark.slow
def test_two_conversations_on_one_target_do_not_hear_each_other() -> None:
    target, d = CachedModel(network_of("qwen3")), eagle("qwen3", trees=True)
    a, b = (Session(target, ByteTokenizer(), 2000) for _ in range(2))
    for turn, s in enumerate([a, b, a, a, b]):
        prompt = [*PROMPT[: 9 + turn], 30 + turn]
        same(answer(s, prompt, SHORT, d), fresh_eagle("qwen3", prompt, SHORT, True))


@pytest.mark.slow
def test_a_stop_string_inside_an_accepted_way_cuts_all_memories_alike() -> None:
    whole = fresh("qwen3", PROMPT, SamplingSettings(max_tokens=30))
    at = next(i for i in range(8, 26) if whole.ids[i] < 52 and whole.ids[i] not in whole.ids[:i])
    letter = ByteTokenizer().stream().push(whole.ids[at])
    stopping = SamplingSettings(max_tokens=30, stop=(letter,))
    for trees in (False, True):
        s, d = session("qwen3"), eagle("qwen3", trees)
        attach(d, s.target)
        cut = answer(s, PROMPT, stopping, d)
        assert cut.end.reason == "stop"
        assert cut.ids == whole.ids[: at + 1]
        after = [*PROMPT, *cut.ids, *TURN]
        same(answer(s, after, SHORT, d), fresh_eagle("qwen3", after, SHORT, trees))
