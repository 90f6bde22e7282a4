"""Measures this machine on a little of the real work, and makes the plan of a fit from the options."""

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
from models.loader import Loaded
from models.memory.model_size import inner_width
from models.model_config import first_count
from models.parameters import weights_bytes
from models.training.batches import Batches
from models.training.corpus import Conversation, ConversationWriter
from models.training.resource_needs import (
    FreeResources,
    NetworkSizes,
    ResourceNeeds,
    batch_within,
    check_memory,
    estimate_needs,
    kv_bytes,
    rows_within,
    working_bytes,
)
from models.training.target_states import TargetStateReader
from models.training.text_generation import batching_is_exact
from models.training.trainee import Trainee, trainable_parameters
from models.training.trainee_kinds import draft_vocabulary_size, drafter_layers, make_reader, make_trainee
from models.training.trainer import Trainer
from models.training.training_plan import (
    DEPTHS,
    INITIALIZED,
    MIN_TOKENS,
    PLAN_VERSION,
    RATES,
    MachineRates,
    TrainingOptions,
    TrainingPlan,
    expected_conversations,
    held_out_size,
    initialization_tokens,
    rows_in_a_shard,
    seconds_lost_by_a_kill,
    shard_size,
    training_amounts,
    with_stage_times,
)
from models.training.training_prompts import prompts_that_fit

DEFAULT_CONTEXT = 2048
MIN_PROMPTS = 4
BATCH_TOKENS = 2048
_TRIAL_S = 8.0
_TRIAL_TOKENS = (2, 14)  # of replies, written twice: what the prompt costs and what a token does
_TRIAL_MATRIX = 384
_QUESTIONS = 1.1  # times as long, with the questions that the target writes itself
_LIKELY_REPLY = 0.55  # of the longest
_DISTRIBUTION_BYTES = 1024**3  # of logits and distributions, all copies, in a step of a draft model
_STATES_SHARE = 0.5  # of the free disk that hidden states may take
_LONGEST_PROMPT, _LONGEST_GIVEN = 384, 1024
_SAMPLES, _SAMPLE_BYTES = 32, 4096  # of each file of weights


@dataclass(frozen=True)
class PreparedTraining:
    """A plan and its needs. max_lost_s: the most work that a kill may lose. answers_per_prompt: about how often each
    of the user's prompts is answered; 0 without any. left_out: the number of prompts that are too long."""

    plan: TrainingPlan
    needs: ResourceNeeds
    max_lost_s: float
    answers_per_prompt: float
    left_out: int = 0


def prepare_training(
    target: Loaded, options: TrainingOptions, prompts: Sequence[str], free: FreeResources
) -> PreparedTraining:
    """Measures this machine and makes the plan. Raises FitError or ModelError if the target is unsuitable."""
    began_s = time.monotonic()
    reader = make_reader(target, options.kind)
    trial = _first_plan(target, options, bool(prompts))
    given = _prompts_of_user(target, prompts, trial.prompt_tokens)
    ids = range(trial.vocabulary)
    trainee = make_trainee(target, options.kind, (trial.depths, trial.layers), reader, ids, options.seed)
    sizes = sizes_of(target, reader, trainee, trial)
    rows = rows_within(sizes, trial.prompt_tokens + trial.reply_tokens, free.free_bytes)
    trial = replace(trial, rows=rows if options.conversations is None else min(rows, options.conversations))
    trial = replace(trial, batch_tokens=batch_within(sizes, trial, free))
    check_memory(working_bytes(sizes, trial), free)
    rates = _measure(target, trial, given, reader, trainee)
    if not batching_is_exact(target.network):
        trial = replace(trial, rows=1)  # as replies are written one after the other
    if (kept := rows_in_a_shard(trial, rates)) < trial.rows:
        trial = replace(trial, rows=kept)
        rates = replace(rates, write=_measure_writing(target, trial, given)[0])
    spent = (time.monotonic() - began_s) / 60
    options = replace(options, minutes=max(options.minutes - spent, 0.1 * options.minutes))
    plan = final_plan(options, replace(trial, stored=True), rates)
    if estimate_needs(sizes, plan, rates).states_bytes >= _STATES_SHARE * free.disk_bytes:
        plan = final_plan(options, trial, rates)
    answers_per_prompt = expected_conversations(plan, rates) / len(given) if given else 0.0
    plan = replace(plan, initialization_tokens=initialization_tokens(plan.kind, sizes.hidden, rates, plan.stored))
    left_out = len(set(prompts)) - len(given)
    return PreparedTraining(
        with_stage_times(plan, rates),
        estimate_needs(sizes, plan, rates),
        seconds_lost_by_a_kill(plan, rates),
        answers_per_prompt,
        left_out,
    )


def _prompts_of_user(target: Loaded, prompts: Sequence[str], longest: int) -> dict[str, int]:
    """Returns the prompts that fit into `longest` tokens, with their lengths. Raises FitError if they are too few."""
    given = prompts_that_fit(prompts, target.tokenizer, longest) if prompts else {}
    if prompts and len(given) < MIN_PROMPTS:
        raise FitError(
            f"fewer than {MIN_PROMPTS} different prompts fit into {longest} tokens, too few to train on some and "
            "evaluate with others: give more, or leave out --prompts"
        )
    return given


def final_plan(options: TrainingOptions, trial: TrainingPlan, rates: MachineRates) -> TrainingPlan:
    """Returns the plan with the amounts that fill the minutes."""
    plan = replace(trial, **training_amounts(options, rates, trial.batch_tokens, trial.stored)._asdict())
    return replace(
        plan, held_out=held_out_size(expected_conversations(plan, rates), rates), shard=shard_size(plan, rates)
    )


def fingerprint(target: Loaded) -> str:
    """Returns a digest that identifies a target from samples of its weights, and its template."""
    known = json.dumps(dict(target.folder.config), sort_keys=True, default=str).encode()
    words = json.dumps(sorted(target.folder.vocabulary.items(), key=lambda item: item[1])).encode()
    question = json.dumps(target.tokenizer.on(date(2000, 1, 1)).chat([{"role": "user", "content": "?"}])).encode()
    weights = b"".join(_sampled(path) for path in sorted(target.folder.weights))
    return hashlib.sha256(b"\0".join((known, words, question, weights))).hexdigest()[:16]


def _sampled(path: Path) -> bytes:
    """Returns the name and size of a file, and some of its bytes, from places spread over it."""
    size_bytes = path.stat().st_size
    found = [f"{path.name}:{size_bytes};".encode()]
    with path.open("rb") as file:
        for place in range(_SAMPLES):
            file.seek(size_bytes * place // _SAMPLES)
            found.append(file.read(_SAMPLE_BYTES))
    return b"".join(found)


def sizes_of(target: Loaded, reader: TargetStateReader, trainee: Trainee, plan: TrainingPlan) -> NetworkSizes:
    network = target.network
    heads = first_count(target.folder.config, "num_attention_heads") or max(1, reader.hidden // 64)
    held_bytes, stored_bytes = weights_bytes(network), target.folder.weights_bytes
    trained = trainable_parameters(trainee.network).values()
    frozen_bytes = weights_bytes(trainee.network) - sum(value.nbytes for value in trained)
    return NetworkSizes(
        weights_bytes=held_bytes,
        loading_bytes=stored_bytes if held_bytes != stored_bytes else 0,
        kv_bytes=kv_bytes(network),
        vocabulary=target.model.vocabulary,
        states=reader.width + reader.hidden + 2,
        hidden=reader.hidden,
        inner=inner_width(network),
        heads=max(heads, _own_heads(trainee)),
        columns=target.model.vocabulary if plan.kind == "draft" else plan.vocabulary,
        trained=sum(value.size for value in trained),
        frozen_bytes=0 if backend.describe().dequantize else frozen_bytes,  # in float32 the target's own serve
        layers=plan.layers or 1,
    )


def _own_heads(trainee: Trainee) -> int:
    """Returns the attention heads of a drafter that has some; 0 for others."""
    config = getattr(trainee.network, "config", None)
    return int(getattr(config, "num_attention_heads", 0))


def _first_plan(target: Loaded, options: TrainingOptions, given: bool) -> TrainingPlan:
    """Returns a plan with everything that does not depend on the speed of the machine."""
    context = target.folder.context_length or DEFAULT_CONTEXT
    reply = min(options.reply_tokens, max(8, context * 3 // 4))
    batch = BATCH_TOKENS
    if options.kind == "draft":
        batch = max(256, min(BATCH_TOKENS, _DISTRIBUTION_BYTES // (6 * 4 * target.model.vocabulary)))
    return TrainingPlan(
        version=PLAN_VERSION,
        kind=options.kind,
        target=target.name,
        fingerprint=fingerprint(target),
        day=date.today().isoformat(),
        prompts="of the user's file" if given else "of the target's own and from templates",
        seed=options.seed,
        conversations=0,
        tokens=0,
        held_out=0,
        shard=1,
        rows=1,
        prompt_tokens=max(8, min(context - reply, _LONGEST_GIVEN if given else _LONGEST_PROMPT)),
        reply_tokens=reply,
        steps=1,
        batch_tokens=batch,
        initialization_tokens=0,
        depths=options.depths or DEPTHS[options.kind],
        layers=drafter_layers(target, options),
        vocabulary=draft_vocabulary_size(target, options),
        learning_rate=options.learning_rate or RATES[options.kind],
        stored=False,
        stages_s={},
    )


def _measure(
    target: Loaded, plan: TrainingPlan, given: Mapping[str, int], reader: TargetStateReader, trainee: Trainee
) -> MachineRates:
    """Returns the measured rates of this machine. given: the tokens of each of the user's prompts."""
    reply = _LIKELY_REPLY * plan.reply_tokens
    write, written = _measure_writing(target, plan, given)
    prompts = list(given.values()) or [c.prompt for c in written]
    length = sum(prompts) / len(prompts) + reply
    trial = [_stretched(c, max(round(reply), MIN_TOKENS)) for c in written]
    read, train = _rates_of_training(target, plan, reader, trainee, trial)
    initialization_s = _decomposing_s(reader.hidden) if plan.kind in INITIALIZED else 0.0
    return MachineRates(write, read, train, reply, length, initialization_s)


def _decomposing_s(hidden: int) -> float:
    """Returns the seconds of the two eigendecompositions in `models.training.eagle3_initialization`."""
    small = min(hidden, _TRIAL_MATRIX)
    rows = np.random.default_rng(0).standard_normal((small, small))
    began_s = time.monotonic()
    np.linalg.eigh(rows @ rows.T)
    return 2 * (hidden / small) ** 3 * (time.monotonic() - began_s)


def _measure_writing(target: Loaded, plan: TrainingPlan, given: Mapping[str, int]) -> tuple[float, list[Conversation]]:
    """Returns the tokens of replies that are written in a second, and the beginnings of `plan.rows` conversations."""
    plan = replace(plan, conversations=plan.rows, shard=plan.rows)
    prompts = random.Random(plan.seed).sample(list(given), min(len(given), plan.rows))
    reply = _LIKELY_REPLY * plan.reply_tokens
    short_s, _ = _write(target, plan, prompts, _TRIAL_TOKENS[0])
    long_s, written = _write(target, plan, prompts, _TRIAL_TOKENS[1])
    step_s = max(long_s - short_s, 0.05 * long_s) / (_TRIAL_TOKENS[1] - _TRIAL_TOKENS[0])
    whole_s = max(short_s - _TRIAL_TOKENS[0] * step_s, 0.0) + reply * step_s
    return plan.rows * reply / (_QUESTIONS * whole_s), written


def _write(target: Loaded, plan: TrainingPlan, prompts: Sequence[str], tokens: int) -> tuple[float, list[Conversation]]:
    """Returns the seconds of writing a batch of replies of so many tokens, and the conversations."""
    author = ConversationWriter(target, replace(plan, reply_tokens=tokens), prompts, self_questions=False)
    began_s = time.monotonic()
    written = [c for c in author.write(range(plan.rows)) if isinstance(c, Conversation)]
    return time.monotonic() - began_s, written


def _stretched(conversation: Conversation, reply: int) -> Conversation:
    """Returns the conversation with a reply of so many tokens."""
    prompt, reply_tokens = np.split(conversation.tokens, [conversation.prompt])
    return replace(conversation, tokens=np.concatenate([prompt, np.resize(reply_tokens, reply)]))


def _rates_of_training(
    target: Loaded, plan: TrainingPlan, reader: TargetStateReader, trainee: Trainee, trial: Sequence[Conversation]
) -> tuple[float, float]:
    """Returns the tokens a second of reading states and of training on them."""
    reader.read(trial[0])
    count = max(1, min(len(trial), plan.batch_tokens // max(len(c.tokens) for c in trial)))
    began_s = time.monotonic()
    states = [reader.read(c) for c in trial[:count]]
    read_s = time.monotonic() - began_s
    tokens = sum(len(c.tokens) for c in trial[:count])
    batches = Batches(trial, lambda n: states[n], reader, trainee.ids, trainee.min_context)
    trainer = Trainer(trainee, 1, plan.learning_rate)
    seconds = []
    for _ in range(3):
        began_s = time.monotonic()
        trainer.train(batches.make(range(count)))
        seconds.append(time.monotonic() - began_s)
        if sum(seconds) > _TRIAL_S:
            break
    return tokens / read_s, tokens / min(seconds)
