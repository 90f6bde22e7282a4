"""A reply decoded again plainly, from nothing, on the target that is loaded: what host and terminal share."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

from engine.audit.exact_target import ExactTarget
from engine.audit.receipt import Receipt
from engine.audit.reply_check import EndConditions, check_reply
from engine.audit.verify_blocks import VerifyBlocks
from engine.events import PromptProgress, Round
from engine.sampling import Sampler
from engine.session import Session
from engine.settings import SamplingSettings
from models.loader import Loaded


def recheck(
    target: Loaded,
    session: Session,
    settings: SamplingSettings,
    prompt: Sequence[int],
    rounds: Sequence[Round],
    whole: bool,
    between: Callable[[], None],
) -> Generator[PromptProgress | int, None, Receipt]:
    """`engine.audit.reply_check.check_reply` of the reply of `rounds` to `prompt`, made by `settings`. whole: it
    ended by itself.

    Empties the caches of `target`, on which `session` is.
    """
    session.forget()
    target.model.record()
    model = target.model
    if settings.exact:
        model = ExactTarget(model, VerifyBlocks.for_prompt(len(prompt)))
    sampler = Sampler(settings, target.model.vocabulary)
    longest = min(settings.max_tokens, session.context - len(prompt))
    ends = EndConditions(target.tokenizer.stream, target.tokenizer.eos, settings.stop, whole, longest)
    return (yield from check_reply(model, sampler, prompt, rounds, ends, between))
