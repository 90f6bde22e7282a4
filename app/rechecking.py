"""A reply decoded again plainly, from nothing, on the target that is loaded: what host and terminal share."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

from engine.choice import Chooser
from engine.events import PromptProgress, Round
from engine.grid import Grid
from engine.receipt import Receipt
from engine.recheck import Ends, check
from engine.session import Session
from engine.settings import Settings
from models.load import Loaded


def recheck(
    target: Loaded,
    session: Session,
    settings: Settings,
    prompt: Sequence[int],
    rounds: Sequence[Round],
    whole: bool,
    between: Callable[[], None],
) -> Generator[PromptProgress | int, None, Receipt]:
    """`engine.recheck.check` of the reply of `rounds` to `prompt`, made by `settings`. whole: it ended by itself.

    Empties the caches of `target`, on which `session` is.
    """
    session.forget()
    target.model.read_by(None)
    target.model.lay(Grid.of(len(prompt)) if settings.exact else None)
    chooser = Chooser(settings.sampling, settings.rule, target.model.vocabulary)
    longest = min(settings.max_tokens, session.context - len(prompt))
    ends = Ends(target.tokenizer.stream, target.tokenizer.eos, settings.stop, whole, longest)
    return (yield from check(target.model, chooser, prompt, rounds, ends, between))
