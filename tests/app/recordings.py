"""Replies recorded once, played without a model."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

from app.inference.loaded_pair import LoadedPair
from app.inference.pair_loader import NamedDrafter
from engine.events import Event, Finished, PromptProgress, Round
from engine.kept_conversations import KeptConversations
from engine.session import Prompt
from engine.settings import SamplingSettings


def round_(index: int, texts: Sequence[str], drafted: int, accepted: int, reason: str = "fixed at 4") -> Round:
    """A round that says `texts`, of which the first `accepted` were drafted."""
    n = len(texts)
    return Round(
        index=index,
        tokens=tuple(range(10, 10 + n)),
        drafted=tuple(range(10, 10 + drafted)),
        accepted=accepted,
        p=(0.5,) * n,
        q=(1.0,) * drafted,
        width=drafted + 1,
        time_s=0.5 + index / 10,
        reason=reason,
        texts=tuple(texts),
    )


# Accepted, corrected, bonus, and a plain step; the last text is held back to the end.
REPLY: tuple[Event, ...] = (
    PromptProgress(0, 6, 0, 0.0),
    PromptProgress(5, 6, 0, 0.4),
    round_(0, ["The"], 0, 0),
    round_(1, [" sky", " is", " blue"], 3, 2),
    round_(2, [" today", "."], 1, 1),
    Finished("length", 6, 0.8, "!"),
)
TEXT = "The sky is blue today.!"


class RecordedSession:
    """Stands in for a session: answers every prompt with the same events, stopping when asked to."""

    context = 512

    def __init__(self, events: Sequence[Event] = REPLY) -> None:
        self.events = events
        self.asked: list[list[dict[str, str]]] = []
        self.seeds: list[int] = []
        self.kept = KeptConversations()

    def chat(self, messages: Sequence[dict[str, str]], *_: object, **switches: object) -> list[int]:
        """Returns the ids of a prompt, as a tokenizer does."""
        self.asked.append([dict(message) for message in messages])
        return [1, 2, 3, 4, 5, 6]

    def withdrawn_tokens(self, *_: object, **switches: object) -> int:
        return 0

    def continue_tokens(
        self,
        prompt: Prompt,
        settings: SamplingSettings,
        drafter: object = None,
        policy: object = None,
        cancelled: Callable[[], bool] = lambda: False,
        continuation_ids: Sequence[int] = (),
    ) -> Iterator[Event]:
        self.seeds.append(settings.seed)
        for event in self.events:
            if cancelled() and isinstance(event, Round):
                yield Finished("cancelled", 0, 1.0)
                return
            yield event

    def forget(self) -> None:
        """There are no caches."""


def recorded_pair(session: RecordedSession) -> LoadedPair:
    """A pair whose replies are recorded, and whose target has nothing to reset."""
    cache = SimpleNamespace(reset=lambda: None, needs_pins=False)
    model, folder = SimpleNamespace(cache=cache, leader=None, vocabulary=0), SimpleNamespace(path=Path("nowhere"))
    target = SimpleNamespace(model=model, tokenizer=session, folder=folder)
    return LoadedPair(target, session, NamedDrafter("lookup", None))  # type: ignore[arg-type]
