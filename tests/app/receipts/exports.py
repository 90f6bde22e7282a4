"""Exports of replies that toy models wrote, whole or tampered with."""

import json
from pathlib import Path
from typing import Any

from app.host.model_worker import ModelWorker
from app.protocol import Load, Pair, ReplyDone, RoundDone, SamplingSettings
from app.store import Store
from app.store.records import ChatSettings, Ending, Statistics, messages_of
from engine.metrics import Metrics
from tests.app.host.process import of_kind
from tests.app.host.replies import ask

LENGTH = 12
GREEDY = SamplingSettings(max_tokens=LENGTH, draft_length=3)
COUPLED = SamplingSettings(max_tokens=LENGTH, draft_length=2, temperature=0.9, seed=5, acceptance="coupled")
REJECTION = SamplingSettings(max_tokens=LENGTH, draft_length=3, temperature=0.9, top_k=12, seed=5)


def write_export(target: Path, drafter: Path, folder: Path) -> Path:
    """Three replies in a row, greedy, coupled, rejection, the system prompt another by now; and a version of the last
    that failed before it began."""
    store, room = Store.open(folder / "conversations.sqlite").store, ModelWorker()
    pair = Pair(target=str(target), drafter=str(drafter))
    list(room.load(Load(id=1, pair=pair)))
    conversation = store.create(ChatSettings(pair=pair, system="Be brief.")).id
    last = None
    for sampling in (GREEDY, COUPLED, REJECTION):
        question = store.add_question(conversation, last, f"why is the sky blue at {sampling.temperature}?")
        reply = store.begin_reply(conversation, question.id, pair, sampling, "Be brief.")
        answers = ask(room, sampling, messages=messages_of("Be brief.", store.path(conversation)[:-1]))
        told = of_kind(answers, RoundDone)
        store.append(reply.id, told)
        ended = of_kind(answers, ReplyDone)[0]
        statistics = Statistics.of(Metrics.of(one.round for one in told))
        store.end_reply(reply.id, Ending("complete", statistics, tail=ended.finished.text, prompt=ended.prompt_digest))
        last = reply.id
    failed = store.begin_reply(conversation, question.id, pair, GREEDY)
    store.end_reply(failed.id, Ending("failed", note="no memory"))
    store.change_settings(conversation, ChatSettings(pair=pair, system="Be long."))
    path = folder / "chat.json"
    path.write_text(store.export_json(conversation))
    store.close()
    return path


def change(path: Path, **edits: Any) -> None:
    """Fields of the second message, the greedy reply."""
    document = json.loads(path.read_text())
    document["messages"][1] |= edits
    path.write_text(json.dumps(document))


def forge(path: Path, position: int = 5) -> None:
    """Another token in the greedy reply."""
    document = json.loads(path.read_text())
    for told in document["messages"][1]["rounds"]:
        tokens = told["round"]["tokens"]
        if position < len(tokens):
            tokens[position] = (tokens[position] + 1) % 256
            break
        position -= len(tokens)
    path.write_text(json.dumps(document))
