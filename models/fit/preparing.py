"""From a wish to a plan: what this machine does in a second, measured on a little of the real work."""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import numpy as np

from engine import backend
from engine.errors import FitError
from models.fit.batches import Batches
from models.fit.corpus import Author, Conversation
from models.fit.kinds import layers_wanted, make_reader, make_trainee, vocabulary_size
from models.fit.needs import Needs, Room, Sizes, batch_within, check_memory, kv_bytes, needs, rows_within, working_bytes
from models.fit.plan import (
    DEPTHS,
    LEAST_TOKENS,
    LONGEST_QUESTION,
    PLAN_VERSION,
    RATES,
    Plan,
    Rates,
    Wish,
    amounts,
    begin_tokens,
    expected,
    held_out,
    likely,
    lost_s,
    rows_kept,
    shard_size,
    stretch,
    with_rereading,
)
from models.fit.prompts import fitting
from models.fit.reading import Reader
from models.fit.trainee import Trainee
from models.fit.training import Trainer
from models.fit.weights import flat_trainable
from models.fit.writing import batches_soundly
from models.load import Loaded
from models.memory.network import inner_width, weights_bytes

DEFAULT_CONTEXT = 2048
LEAST_PROMPTS = 4
BATCH_TOKENS = 2048
_TRIAL_S = 8.0
_TRIAL_TOKENS = (2, 14)  # of replies, written twice: what the prompt costs and what a token does
_TRIAL_MATRIX = 384
_QUESTIONS = 1.1  # times as long, with the questions that the target writes itself
_LIKELY_REPLY = 0.55  # of the longest
_LAW_BYTES = 1024**3  # of logits and laws, all copies, in a step of a draft model
_STATES_SHARE = 0.5  # of the free disk that hidden states may take
_LONGEST_PROMPT, _LONGEST_GIVEN = 384, 1024
_SAMPLES, _SAMPLE_BYTES = 32, 4096  # of each file of weights


@dataclass(frozen=True)
class Prepared:
    """A plan, and what it takes. lost_s: of work, by a kill, at most. asked: how often each of the user's prompts is,
    about; 0 without any. left_out: how many of them are too long."""

    plan: Plan
    needs: Needs
    lost_s: float
    asked: float
    left_out: int = 0


def prepare(target: Loaded, wish: Wish, prompts: Sequence[str], room: Room) -> Prepared:
    """Measure, and decide everything. Raises FitError, ModelError: this target cannot be fitted so, or not here."""
    began_s = time.monotonic()
    reader = make_reader(target, wish.kind)
    trial = _first_plan(target, wish, bool(prompts))
    given = fitting(prompts, target.tokenizer, trial.prompt_tokens) if prompts else {}
    if prompts and len(given) < LEAST_PROMPTS:
        raise FitError(
            f"fewer than {LEAST_PROMPTS} different prompts fit into {trial.prompt_tokens} tokens, too few to train on "
            "some and judge by others: give more, or leave out --prompts"
        )
    ids = range(trial.vocabulary)
    trainee = make_trainee(target, wish.kind, (trial.depths, trial.layers), reader, ids, wish.seed)
    sizes = sizes_of(target, reader, trainee, trial)
    rows = rows_within(sizes, trial.prompt_tokens + trial.reply_tokens, room.free_bytes)
    trial = replace(trial, rows=rows if wish.conversations is None else min(rows, wish.conversations))
    trial = replace(trial, batch_tokens=batch_within(sizes, trial, room))
    check_memory(working_bytes(sizes, trial), room)
    rates = _measure(target, trial, given, reader, trainee)
    if not batches_soundly(target.network):
        trial = replace(trial, rows=1)  # as replies are written one after the other
    if (kept := rows_kept(trial, rates)) < trial.rows:
        trial = replace(trial, rows=kept)
        rates = replace(rates, write=_measure_writing(target, trial, given)[0])
    trial = replace(trial, stretch=stretch(trial, rates))
    rates = with_rereading(trial, rates)
    spent = (time.monotonic() - began_s) / 60
    wish = replace(wish, minutes=max(wish.minutes - spent, 0.1 * wish.minutes))
    plan = settle(wish, replace(trial, stored=True), rates)
    if needs(sizes, plan, rates).states_bytes >= _STATES_SHARE * room.disk_bytes:
        plan = settle(wish, trial, rates)
    asked = likely(plan, rates) / len(given) if given else 0.0
    plan = replace(plan, begin_tokens=begin_tokens(plan.kind, sizes.hidden, rates, plan.stored))
    left_out = len(set(prompts)) - len(given)
    return Prepared(expected(plan, rates), needs(sizes, plan, rates), lost_s(plan, rates), asked, left_out)


def settle(wish: Wish, trial: Plan, rates: Rates) -> Plan:
    """The plan with the amounts that fill the minutes."""
    plan = replace(trial, **amounts(wish, rates, trial.batch_tokens, trial.stored)._asdict())
    return replace(plan, held_out=held_out(likely(plan, rates), rates), shard=shard_size(plan, rates))


def fingerprint(target: Loaded) -> str:
    """What tells a target from another, without reading all of its weights: samples of them, and how it is asked."""
    known = json.dumps(dict(target.folder.config), sort_keys=True, default=str).encode()
    words = json.dumps(sorted(target.folder.vocabulary.items(), key=lambda item: item[1])).encode()
    asked = json.dumps(target.tokenizer.on(date(2000, 1, 1)).chat([{"role": "user", "content": "?"}])).encode()
    weights = b"".join(_sampled(path) for path in sorted(target.folder.weights))
    return hashlib.sha256(b"\0".join((known, words, asked, weights))).hexdigest()[:16]


def _sampled(path: Path) -> bytes:
    """The name and size of a file, and some of its bytes, from places spread over it."""
    size_bytes = path.stat().st_size
    found = [f"{path.name}:{size_bytes};".encode()]
    with path.open("rb") as file:
        for place in range(_SAMPLES):
            file.seek(size_bytes * place // _SAMPLES)
            found.append(file.read(_SAMPLE_BYTES))
    return b"".join(found)


def sizes_of(target: Loaded, reader: Reader, trainee: Trainee, plan: Plan) -> Sizes:
    network = target.network
    config = {**target.folder.config, **_object(target.folder.config.get("text_config"))}
    heads = config.get("num_attention_heads")
    held_bytes, stored_bytes = weights_bytes(network), target.folder.weights_bytes
    trained = flat_trainable(trainee.network).values()
    frozen_bytes = weights_bytes(trainee.network) - sum(value.nbytes for value in trained)
    return Sizes(
        weights_bytes=held_bytes,
        loading_bytes=stored_bytes if held_bytes != stored_bytes else 0,
        kv_bytes=kv_bytes(network),
        vocabulary=target.model.vocabulary,
        states=reader.width + reader.hidden + 2,
        hidden=reader.hidden,
        inner=inner_width(network),
        heads=max(heads if type(heads) is int else max(1, reader.hidden // 64), _own_heads(trainee)),
        columns=target.model.vocabulary if plan.kind == "draft" else plan.vocabulary,
        trained=sum(value.size for value in trained),
        frozen_bytes=0 if backend.describe().dequantize else frozen_bytes,  # in float32 the target's own serve
        layers=plan.layers if plan.kind == "draft" else 1,
    )


def _own_heads(trainee: Trainee) -> int:
    """Of a head with attention; 0 for others."""
    config = getattr(trainee.network, "config", None)
    return int(getattr(config, "num_attention_heads", 0))


def _object(value: object) -> dict[str, object]:
    return dict(value) if isinstance(value, dict) else {}


def _first_plan(target: Loaded, wish: Wish, given: bool) -> Plan:
    """Everything that does not hang on how fast the machine is."""
    context = target.folder.context_length or DEFAULT_CONTEXT
    reply = min(wish.reply_tokens, max(8, context * 3 // 4))
    batch = BATCH_TOKENS
    if wish.kind == "draft":
        batch = max(256, min(BATCH_TOKENS, _LAW_BYTES // (6 * 4 * target.model.vocabulary)))
    return Plan(
        version=PLAN_VERSION,
        kind=wish.kind,
        target=target.name,
        fingerprint=fingerprint(target),
        day=date.today().isoformat(),
        prompts="of the user's file" if given else "of the target's own and from templates",
        seed=wish.seed,
        conversations=0,
        tokens=0,
        held_out=0,
        shard=1,
        rows=1,
        stretch=max(reply, LONGEST_QUESTION),
        prompt_tokens=max(8, min(context - reply, _LONGEST_GIVEN if given else _LONGEST_PROMPT)),
        reply_tokens=reply,
        steps=1,
        batch_tokens=batch,
        begin_tokens=0,
        depths=wish.depths or DEPTHS[wish.kind],
        layers=layers_wanted(target, wish),
        vocabulary=vocabulary_size(target, wish),
        learning_rate=wish.learning_rate or RATES[wish.kind],
        stored=False,
        stages_s={},
    )


def _measure(target: Loaded, plan: Plan, given: Mapping[str, int], reader: Reader, trainee: Trainee) -> Rates:
    """Write, read and train a little. given: the user's prompts, and how many tokens each takes."""
    reply = _LIKELY_REPLY * plan.reply_tokens
    write, written = _measure_writing(target, plan, given)
    prompts = list(given.values()) or [c.prompt for c in written]
    length = sum(prompts) / len(prompts) + reply
    trial = [_stretched(c, max(round(reply), LEAST_TOKENS)) for c in written]
    read, train = _rates_of_training(target, plan, reader, trainee, trial)
    begin_s = _decomposing_s(reader.hidden) if plan.kind == "eagle3" else 0.0
    return Rates(write, read, train, reply, length, begin_s)


def _decomposing_s(hidden: int) -> float:
    """Seconds of the two eigendecompositions of `models.fit.induction`, which grow as the cube, from a small one."""
    small = min(hidden, _TRIAL_MATRIX)
    rows = np.random.default_rng(0).standard_normal((small, small))
    began_s = time.monotonic()
    np.linalg.eigh(rows @ rows.T)
    return 2 * (hidden / small) ** 3 * (time.monotonic() - began_s)


def _measure_writing(target: Loaded, plan: Plan, given: Mapping[str, int]) -> tuple[float, list[Conversation]]:
    """Tokens of replies that are written in a second, and the beginnings of `plan.rows`."""
    plan = replace(plan, conversations=plan.rows, shard=plan.rows)
    prompts = random.Random(plan.seed).sample(list(given), min(len(given), plan.rows))
    reply = _LIKELY_REPLY * plan.reply_tokens
    short_s, _ = _write(target, plan, prompts, _TRIAL_TOKENS[0])
    long_s, written = _write(target, plan, prompts, _TRIAL_TOKENS[1])
    step_s = max(long_s - short_s, 0.05 * long_s) / (_TRIAL_TOKENS[1] - _TRIAL_TOKENS[0])
    whole_s = max(short_s - _TRIAL_TOKENS[0] * step_s, 0.0) + reply * step_s
    return plan.rows * reply / (_QUESTIONS * whole_s), written


def _write(target: Loaded, plan: Plan, prompts: Sequence[str], tokens: int) -> tuple[float, list[Conversation]]:
    """Seconds of writing a batch of replies of so many tokens, and the replies."""
    author = Author(target, replace(plan, reply_tokens=tokens), prompts, curious=False)
    began_s = time.monotonic()
    written = [c for c in author.write(range(plan.rows)) if isinstance(c, Conversation)]
    return time.monotonic() - began_s, written


def _stretched(conversation: Conversation, reply: int) -> Conversation:
    """With a reply of so many tokens."""
    prompt, said = np.split(conversation.tokens, [conversation.prompt])
    return replace(conversation, tokens=np.concatenate([prompt, np.resize(said, reply)]))


def _rates_of_training(
    target: Loaded, plan: Plan, reader: Reader, trainee: Trainee, trial: Sequence[Conversation]
) -> tuple[float, float]:
    """Tokens a second of reading and of training on what has been read."""
    reader.read(trial[0])
    count = max(1, min(len(trial), plan.batch_tokens // max(len(c.tokens) for c in trial)))
    began_s = time.monotonic()
    states = [reader.read(c) for c in trial[:count]]
    read_s = time.monotonic() - began_s
    tokens = sum(len(c.tokens) for c in trial[:count])
    batches = Batches(trial, lambda n: states[n], reader, trainee.ids, trainee.lead)
    trainer = Trainer(trainee, 1, plan.learning_rate)
    seconds = []
    for _ in range(3):
        began_s = time.monotonic()
        trainer.train(batches.make(range(count)))
        seconds.append(time.monotonic() - began_s)
        if sum(seconds) > _TRIAL_S:
            break
    return tokens / read_s, tokens / min(seconds)
