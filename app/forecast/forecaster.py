"""Makes the forecasts of one pair: the target writes a reply to each question, once, and both models then read it.

A reply is of the target alone, so it serves all drafters, and is kept in a file.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from app.bench.prompt_file import Question
from app.inference.learnt_rounds import LearntRounds
from app.inference.pair_loader import NamedDrafter
from engine import backend
from engine.drafters.drafter_group import DrafterGroup
from engine.events import Round
from engine.policy.expected_length import TREE_SIZES
from engine.policy.step_times import DrafterTimes
from engine.session import Prompt, Session
from engine.settings import AcceptanceRule, SamplingSettings
from models.drafters.drafter_kind import LONGEST_CHAIN
from models.forecast.forecast import Forecast, forecast_reply
from models.forecast.target_text import TargetText, read_text
from models.kept_files import KeptFiles
from models.loader import Loaded
from models.paths import cache_dir
from models.training.plan_measurement import fingerprint

MAX_FILES = 2000  # one for each reply


class Forecaster:
    """Makes the forecasts of one pair. root: of the cache, None for the user's. times: of the rounds of each drafter.
    step: called with a line of text before each reply is written, and before it is read."""

    def __init__(self, target: Loaded, drafter: NamedDrafter, session: Session, root: Path | None = None) -> None:
        self._target, self._session = target.model, session
        self._drafters = [part.drafter for part in drafter.parts if part.drafter is not None]
        longest = min(max(part.longest for part in drafter.parts), LONGEST_CHAIN)
        self.lengths: Sequence[int] = TREE_SIZES if drafter.branches else range(1, longest + 1)
        times = LearntRounds(target, drafter, root).times_of()
        self.times = [DrafterTimes(times, part) for part in range(len(drafter.parts))]
        self.step: Callable[[str], None] = lambda text: None
        found = backend.describe()
        self._key = (found.device, found.library, found.dtype, fingerprint(target), session.context)
        self._files = KeptFiles(cache_dir(root) / "predict", MAX_FILES)

    def missing_replies(self, questions: Sequence[Question], settings: Sequence[SamplingSettings]) -> int:
        """Returns how many replies are still to be written."""
        return sum(self._kept(self._prompt(each), one) is None for one in settings for each in questions)

    def forecast(
        self, questions: Sequence[Question], settings: SamplingSettings, rules: Sequence[AcceptanceRule]
    ) -> list[Forecast]:
        """Returns a forecast for each rule; at temperature 0 all are the same. If this is interrupted, replies that are
        written stay. Raises UsageError for drafts that cannot be forecast."""
        rules = rules[:1] if settings.greedy else rules
        forecasts = [Forecast(replace(settings, acceptance=rule), ()) for rule in rules]
        for question in questions:
            text = self._text(question, settings)
            self.step(f"drafter reads · question {question.id}")
            outputs = read_text(self._target, text, DrafterGroup(self._drafters).needs)
            for place, one in enumerate(forecasts):
                found = forecast_reply(
                    question.category, outputs, self._drafters, self.lengths, one.settings, self.times
                )
                forecasts[place] = replace(one, replies=(*one.replies, found))
        return forecasts

    def _prompt(self, question: Question) -> tuple[int, ...]:
        return tuple(self._session.tokenizer.chat([{"role": "user", "content": question.turns[0]}]))

    def _text(self, question: Question, settings: SamplingSettings) -> TargetText:
        """Returns the reply, written now if it is not kept. Raises ContextError if there is no room for it."""
        prompt = self._prompt(question)
        if (kept := self._kept(prompt, settings)) is not None:
            return kept
        self.step(f"target writes · question {question.id}")
        self._session.forget()
        events = list(self._session.continue_tokens(Prompt(prompt), settings))
        self._session.forget()
        reply = [token for event in events if isinstance(event, Round) for token in event.tokens]
        self._files.write(self._key_of(prompt, settings), msgspec.json.encode(reply))
        return self._text_of(prompt, reply, settings)

    def _kept(self, prompt: tuple[int, ...], settings: SamplingSettings) -> TargetText | None:
        """Returns a kept reply if it is one that this target could have given."""
        with contextlib.suppress(ValueError):  # msgspec's errors are ValueErrors
            reply = msgspec.json.decode(self._files.read(self._key_of(prompt, settings)) or b"", type=list[int])
            text = self._text_of(prompt, reply, settings)
            if 0 < len(reply) <= text.limit and 0 <= min(reply) <= max(reply) < self._target.vocabulary:
                return text
        return None

    def _text_of(self, prompt: tuple[int, ...], reply: Sequence[int], settings: SamplingSettings) -> TargetText:
        limit = min(settings.max_tokens, self._session.context - len(prompt))
        return TargetText((*prompt, *reply), len(prompt), limit)

    def _key_of(self, prompt: tuple[int, ...], settings: SamplingSettings) -> str:
        """Returns what a reply depends on; plain decoding is the same under every acceptance rule."""
        return repr((*self._key, replace(settings, acceptance="coupled"), prompt))
