"""Drafts from earlier replies, the very text among them: it is copied, and stays what the target alone writes."""

from dataclasses import replace

import pytest

from engine.drafters.prompt_lookup import HISTORY_SHORTEST, PromptLookup
from engine.drafters.suffix_index import END, SuffixIndex
from engine.policy.fixed import FixedLength
from engine.settings import SamplingSettings
from tests.engine.conversations import MODELS, fresh, read, session
from tests.engine.fewer import paired
from tests.engine.replies import PROMPT, reply

WARM = SamplingSettings(temperature=0.8, top_p=0.95, repetition_penalty=1.2, seed=4)
SAMPLINGS = {"greedy": SamplingSettings(), "coupled": WARM}


@pytest.mark.slow_for("trees for llama-*", "qwen3_next-*", "qwen3-*", "mamba2-*")
@pytest.mark.parametrize(("model", "rule"), paired([*MODELS, "trees for qwen3", "trees for llama"], SAMPLINGS))
def test_the_text_is_plains_and_a_known_one_takes_few_rounds(model: str, rule: str) -> None:
    name, trees, sampling = model.removeprefix("trees for "), model.startswith("trees for "), SAMPLINGS[rule]
    plain, _, _ = reply(MODELS[name], sampling=sampling, tokens=60)
    seed_of_other = reply(MODELS[name], sampling=replace(WARM, seed=9), tokens=60)[0]
    history = SuffixIndex(HISTORY_SHORTEST)
    history.extend([*seed_of_other, END, *plain, END])
    drafter = PromptLookup(history=history, trees=trees)
    ids, rounds, _ = reply(MODELS[name], drafter, 8, sampling, tokens=60)
    assert ids == plain
    assert len(rounds) < len(plain) / 2


def test_an_edited_conversation_is_drafted_and_answered_like_a_new_one() -> None:
    """Over a window's edge, with one history for both."""
    history = SuffixIndex(HISTORY_SHORTEST)
    settings = SamplingSettings(max_tokens=20)
    used, drafter = session("llama"), PromptLookup(history=history)
    prompt = list(PROMPT)
    for turn in range(3):
        plain = fresh("llama", prompt, settings)
        history.extend([*plain.ids, END])
        told = read(list(used.continue_tokens(prompt, settings, drafter, FixedLength(6))))
        anew = PromptLookup(history=history)
        other = read(list(session("llama").continue_tokens(prompt, settings, anew, FixedLength(6))))
        assert told.ids == plain.ids == other.ids
        assert told.drafts == other.drafts
        assert len(told.rounds) < len(plain.rounds)
        prompt = [*prompt, *told.ids[: -7 - turn], 11 + turn, 12, 13]
