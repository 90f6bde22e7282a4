"""The stages of a fit, one after the other, as one stream of progress.

    writing    the target writes conversations                     corpus/
    reading    its hidden states over them, where they are kept    states/
    training   the drafter learns its distribution                          training/
    judging    on what was held out; report; folder                drafter/, then OUT

Each stage starts from what is already there, so running a killed fit again continues it.
"""

import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx

from engine.policy.step_times import DrafterTimes
from engine.target.tree_trial import why_no_trees
from models.durable_files import write_json
from models.loader import Loaded
from models.package_versions import version_of
from models.training.batches import Batches, schedule
from models.training.corpus import (
    Conversation,
    ConversationWriter,
    Corpus,
    choose_draft_vocabulary,
    draft_vocabulary_coverage,
    load_shard,
    save_shard,
    shard_file,
    shard_files,
    split_corpus,
)
from models.training.evaluation import HeldOutScores, assess, draw_report, evaluate, report_fields
from models.training.resource_needs import CACHE_BYTES
from models.training.target_states import StoredStates, TargetStateReader, states_file, store_states
from models.training.trainee import Trainee
from models.training.trainee_kinds import make_reader, make_trainee
from models.training.trainer import History, Trainer, loss_of
from models.training.training_plan import TrainingPlan
from models.training.workspace import MANIFEST, Workspace

STAGES = ("writing", "reading", "training", "judging")
_CHECKED = 6  # held-out conversations that the loss is looked at with while training
TimesOf = Callable[[Path], DrafterTimes]
Shards = Sequence[Sequence[Conversation]]


@dataclass(frozen=True)
class TrainingProgress:
    """The progress of a stage. unit: what is counted. note: the latest interesting number."""

    stage: str
    done: float
    total: float
    unit: str
    note: str = ""


class TrainingPipeline:
    """One fit of `target` at `place` by `plan`. times_of: returns how long rounds take with the
    drafter in a folder."""

    def __init__(
        self, target: Loaded, place: Workspace, plan: TrainingPlan, prompts: Sequence[str], times_of: TimesOf
    ) -> None:
        self.target, self.place, self.plan = target, place, plan
        self._prompts, self._times_of = prompts, times_of

    def run(self) -> Iterator[TrainingProgress]:
        """Does everything that is still to do; at the end the drafter's folder exists. It may be closed between two
        events. Raises FitError, ModelError, OSError."""
        before = mx.set_cache_limit(CACHE_BYTES)
        try:
            yield from self._write()
            shards = [load_shard(path) for path in shard_files(self.place.corpus)]
            corpus = split_corpus([c for shard in shards for c in shard], self.plan)
            if self.plan.stored:
                yield from self._read(shards)
            yield from self._learn(corpus, shards)
            self.place.publish()
        finally:
            mx.set_cache_limit(before)
            mx.clear_cache()

    # --- writing and reading ------------------------------------------------------------------

    def _write(self) -> Iterator[TrainingProgress]:
        plan, author = self.plan, None
        total = plan.tokens or plan.conversations
        done = shards = 0
        for path in shard_files(self.place.corpus):
            done += self._counted(load_shard(path))
            shards += 1
        unit = "tokens" if plan.tokens else "conversations"
        yield TrainingProgress("writing", min(done, total), total, unit)
        while done < total and shards * plan.shard < plan.conversations:
            author = author or ConversationWriter(self.target, plan, self._prompts)
            written: list[Conversation] = []
            for new in author.write_shard(shards):
                if new is None:
                    pending = author.pending_tokens if plan.tokens else 0
                    counted = done + self._counted(written)
                    yield TrainingProgress("writing", min(counted + pending, total), total, unit)
                    continue
                written.append(new)
                if done + self._counted(written) >= total:
                    break
            save_shard(shard_file(self.place.corpus, shards), written)
            done, shards = done + self._counted(written), shards + 1
        yield TrainingProgress("writing", total, total, unit)

    def _counted(self, conversations: Sequence[Conversation]) -> int:
        return sum(c.reply for c in conversations) if self.plan.tokens else len(conversations)

    def _read(self, shards: Shards) -> Iterator[TrainingProgress]:
        reader = None
        total, done = sum(len(c.tokens) for shard in shards for c in shard), 0
        for number, shard in enumerate(shards):
            path = states_file(self.place.states, number)
            if path.exists():
                done += sum(len(c.tokens) for c in shard)
            else:
                reader = reader or make_reader(self.target, self.plan.kind)
                for tokens in store_states(path, reader, shard):
                    done += tokens
                    yield TrainingProgress("reading", done, total, "tokens")
        yield TrainingProgress("reading", total, total, "tokens")

    # --- training and judging -----------------------------------------------------------------

    def _learn(self, corpus: Corpus, shards: Shards) -> Iterator[TrainingProgress]:
        plan = self.plan
        reader = make_reader(self.target, plan.kind)
        known = [corpus.conversations[n] for n in corpus.training]
        ids = choose_draft_vocabulary(known, plan.vocabulary, self.target.model.vocabulary)
        trainee = make_trainee(self.target, plan.kind, (plan.depths, plan.layers), reader, ids, plan.seed)
        states = self._stored(shards, reader) if plan.stored else lambda n: reader.read(corpus.conversations[n])
        batches = Batches(corpus.conversations, states, reader, trainee.ids, trainee.min_context)
        trainer = Trainer(trainee, plan.steps, plan.learning_rate, self.place.training)
        if not trainer.resume():
            for tokens in trainee.initialize(
                known, lambda place: states(corpus.training[place]), plan.initialization_tokens
            ):
                yield TrainingProgress("training", 0, plan.steps, "steps", f"initializing from {tokens} tokens")
            trainer.save()
        yield TrainingProgress("training", trainer.step, plan.steps, "steps")
        checked = random.Random(f"{plan.seed}/check").sample(corpus.held_out, min(_CHECKED, len(corpus.held_out)))
        order = schedule([len(c.tokens) for c in known], plan.batch_tokens, plan.seed)
        chosen = ([corpus.training[n] for n in places] for places in order)
        for step in trainer.run(chosen, batches.make, lambda: _loss(trainee, batches, checked)):
            yield TrainingProgress("training", step, plan.steps, "steps", f"loss {trainer.history.losses[-1]:.3f}")
        covered = draft_vocabulary_coverage([corpus.conversations[n] for n in corpus.held_out], ids)
        yield from self._judge(corpus, trainee, batches, trainer.history, covered)

    def _stored(self, shards: Shards, reader: TargetStateReader) -> StoredStates:
        files = [states_file(self.place.states, number) for number in range(len(shards))]
        return StoredStates(files, [[len(c.tokens) for c in shard] for shard in shards], reader)

    def _judge(
        self, corpus: Corpus, trainee: Trainee, batches: Batches, history: History, covered: float
    ) -> Iterator[TrainingProgress]:
        trainee.finalize()
        scores, total = HeldOutScores(), len(corpus.held_out) + 1
        for done, number in enumerate(corpus.held_out):
            yield TrainingProgress("judging", done, total, "replies")
            batch = batches.make([number])
            temperature = corpus.conversations[number].temperature
            logits = evaluate(trainee, batch, temperature, scores)
            if temperature == 0:
                trainee.observe(logits, batch)
        yield TrainingProgress("judging", total - 1, total, "replies", "timing rounds")
        folder = self.place.drafter
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        about = self._about(corpus, covered)
        about["acceptance_by_position"] = [round(rate, 4) for rate in scores.reliable_acceptance]
        trainee.save(folder, about)
        trouble = why_no_trees(self.target.model) if trainee.tree_probs else None
        times = self._times_of(folder)
        verdict = assess(scores, times, trainee.tree_probs, trouble)
        report = {**about, **report_fields(scores, verdict, times), "loss": _losses(history), "plan": asdict(self.plan)}
        write_json(folder / MANIFEST, about)
        write_json(folder / "report.json", report)
        draw_report(folder / "report.png", report)
        yield TrainingProgress("judging", total, total, "replies")

    def _about(self, corpus: Corpus, covered: float) -> dict[str, Any]:
        """Returns what the drafter is and was made from, for its config.json; the same for the same plan."""
        plan = self.plan
        return {
            "made_by": f"redline {version_of('redline')} fit",
            "kind": plan.kind,
            "target": plan.target,
            "target_fingerprint": plan.fingerprint,
            "data": f"{len(corpus.conversations)} replies that the target wrote itself; prompts {plan.prompts}",
            "licence": "made from the target's weights and its own text: the target's licence applies"
            + ("; mind that of the prompts in the file" if self._prompts else ""),
            "conversations": len(corpus.conversations),
            "reply_tokens": sum(c.reply for c in corpus.conversations),
            "steps": plan.steps,
            "draft_vocabulary": plan.vocabulary,
            "vocabulary_coverage": round(covered, 4),
            "seed": plan.seed,
        }


def _loss(trainee: Trainee, batches: Batches, numbers: Sequence[int]) -> float:
    """Returns the mean loss on held-out conversations, which are read one at a time, by rows."""
    pairs: list[tuple[float, int]] = []
    for number in numbers:
        batch = batches.make([number])
        loss: Any = loss_of(trainee, batch, trainee.depths).item()
        pairs.append((loss, batch.rows.size))
    return sum(loss * rows for loss, rows in pairs) / max(1, sum(rows for _, rows in pairs))


def _losses(history: History) -> dict[str, Any]:
    """Returns the losses for the report: at most 500 points of training, and all of the held-out text."""
    losses = history.losses
    width = -(-len(losses) // 500)
    parts = [losses[start : start + width] for start in range(0, len(losses), width)]
    return {
        "training": [round(sum(part) / len(part), 5) for part in parts],
        "steps_a_point": width,
        "held_out": [[step, round(loss, 5)] for step, loss in history.checks],
    }
