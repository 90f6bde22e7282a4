"""A prediction is drafted from, changes no reply, and its accepted tokens are counted."""

from dataclasses import replace
from pathlib import Path

from app.protocol import ReplyDone, RoundDone, SamplingSettings
from tests.app.host.process import of_kind
from tests.app.host.replies import ask, worker_with


def test_accepted_tokens_of_a_prediction_are_counted_and_the_text_is_plain(toy_folder: Path) -> None:
    worker = worker_with(toy_folder, "lookup")
    pieces = worker._pair.target.tokenizer.pieces
    letters = {token: 30.0 for letter in "bdfgkqvz" for token in pieces(letter)}  # text that has one division
    settings = SamplingSettings(
        max_tokens=60, draft_length=4, temperature=1.0, seed=2, acceptance="coupled", logit_bias=letters
    )
    plain = ask(worker, replace(settings, draft_length=0))
    tokens = [token for one in of_kind(plain, RoundDone) for token in one.round.tokens]
    text = worker._pair.target.tokenizer.decode(tokens)
    drafted = ask(worker, settings, prediction=text)
    assert [token for one in of_kind(drafted, RoundDone) for token in one.round.tokens] == tokens
    (done,) = of_kind(drafted, ReplyDone)
    accepted = sum(one.round.accepted for one in of_kind(drafted, RoundDone))
    assert done.predicted <= accepted
    (alone,) = of_kind(ask(worker, settings), ReplyDone)
    assert alone.predicted == 0
    assert pieces(text) == tokens and done.predicted > 30
    (none,) = of_kind(ask(worker, replace(settings, draft_length=0), prediction=text), ReplyDone)
    assert none.predicted == 0
