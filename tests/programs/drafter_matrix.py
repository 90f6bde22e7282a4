"""Every kind of drafter with every feature, on toys: does it draft, and is the text the target's own?

    python -m tests.programs.drafter_matrix          the table
    python -m tests.programs.drafter_matrix --write  the same, into models/drafters/README.md

A cell works where something is drafted and the reply equals plain decoding; or it is off, and says why, in the words
that the user sees. Anything else is an error. The heads are random, so hardly anything that they draft is accepted.
"""

import importlib
import json
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten

from app import protocol
from app.host.reply_tools import ReplyTools
from app.inference import kept_conversation_files
from app.inference.loaded_pair import LoadedPair
from app.inference.pair_loader import NamedDrafter
from app.inference.reply_events import FellBack
from app.inference.reply_runner import ReplyInput, ReplyRunner
from app.reply_statistics import drafting_in_words
from engine.drafters import Drafter
from engine.drafters.draft_model import DraftModel
from engine.drafters.eagle3 import Eagle3
from engine.drafters.medusa import Medusa
from engine.drafters.mlp_speculator import MlpSpeculator
from engine.drafters.prompt_lookup import PromptLookup
from engine.errors import RedlineError
from engine.events import Round
from engine.metrics import Metrics
from engine.session import Session
from engine.settings import Grammar, SamplingSettings
from engine.target.cached_model import CachedModel
from engine.target.target_view import TargetView
from engine.together import Together
from models.loader import Loaded, load
from tests.engine.fakes import nearby
from tests.engine.replies import attach
from tests.toys.architectures import _config, _redraw
from tests.toys.block_heads import random_assistant, random_block, random_mtp
from tests.toys.heads import random_eagle3, random_medusa, random_mlp_speculator
from tests.toys.tool_families import FAMILIES, make_tool_folder

PAGE = Path(__file__).parents[2] / "models" / "drafters" / "README.md"
WORKS = "works"
CONTEXT, KEPT_BYTES = 2048, 1 << 30
GREEDY = SamplingSettings(max_tokens=24, draft_length=3)
COUPLED = replace(GREEDY, temperature=0.8, top_p=0.95, seed=5, acceptance="coupled")
QUESTION = {"role": "user", "content": "the sky is blue because the light of the sun is scattered by the air " * 4}
WEATHER = protocol.Tools(offered=(protocol.Tool(name="weather"),), required=True)


@dataclass(frozen=True)
class Kind:
    """How a drafter of a kind is made for a toy. name: in the registry. architecture, windowed: of its target, without
    and with sliding windows."""

    name: str
    make: Callable[[Loaded], Drafter]
    architecture: str = "qwen3"
    windowed: str = "gemma3_text"


def _medusa(target: Loaded) -> Medusa:
    heads = random_medusa(vocabulary=target.model.vocabulary)
    heads.tie_lm_head(mx.random.normal((24, 32), key=mx.random.key(7)))
    return Medusa(heads, [(0,), (0, 0), (0, 0, 0)], target.model)


def _eagle3(target: Loaded) -> Eagle3:
    return Eagle3(random_eagle3(vocab_size=target.model.vocabulary), target.model)


def _mlp_speculator(target: Loaded) -> MlpSpeculator:
    return MlpSpeculator(random_mlp_speculator(vocabulary=target.model.vocabulary), target.model)


TOYS = (
    Kind("eagle3", _eagle3),
    Kind("medusa", _medusa),
    Kind("mlp-speculator", _mlp_speculator),
    Kind("mtp", lambda target: random_mtp(target.network, "glm4_moe"), "glm4_moe"),
    Kind("dflash", lambda target: random_block(target.network, "dflash")),
    Kind("gemma4-assistant", lambda target: random_assistant(target.network), "gemma4_text", "gemma4_text"),
    Kind("model", lambda target: DraftModel(CachedModel(nearby(target.network, 0.05)), target.model.vocabulary)),
    Kind("lookup", lambda target: PromptLookup(1)),
)


@dataclass
class Reply:
    """A reply that was written. ids, answers, p: its tokens, their texts in the answer and their probabilities."""

    ids: list[int] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    p: list[float] = field(default_factory=list)
    metrics: Metrics = field(default_factory=Metrics)
    unused_prediction: str = ""


class Bench:
    """The toys of one kind, in a folder."""

    def __init__(self, kind: Kind, root: Path) -> None:
        self.kind, self._root = kind, root
        self._loaded: dict[Path, Loaded] = {}

    @cached_property
    def _tokenizer_of(self) -> Path:
        return make_tool_folder(self._root / "tools", FAMILIES[0])

    def pair(self, windows: bool = False, kv_bits: int | None = None, thinks: bool = False, leader: Any = None) -> Any:
        """Returns a target with a drafter of the kind. thinks: whether replies begin with a thought."""
        name = self.kind.windowed if windows else self.kind.architecture
        folder = self._root / f"{name} {kv_bits} {thinks}"
        if not folder.exists():
            self._write_target(folder, name, {} if kv_bits is None else {"head_dim": 64, "global_head_dim": 64})
            if thinks:
                _have_it_think(folder)
        if folder not in self._loaded:
            self._loaded[folder] = load(folder, kv_bits)
        loaded = self._loaded[folder]
        target = replace(loaded, model=CachedModel(loaded.network, kv_bits))
        target.model.leader = leader
        drafter = self.kind.make(target)
        needs = drafter.needs  # what a loader asks
        TargetView(target.model, needs.taps, needs.latest_only, needs.kv_layers)
        attach(drafter, target.model)
        session = Session(target.model, target.tokenizer, CONTEXT, target.tokenizer.matchers)
        pair = LoadedPair(target, session, NamedDrafter(self.kind.name, drafter), digest="toy")
        pair.session.kept.limit_bytes = KEPT_BYTES
        return pair

    def _write_target(self, folder: Path, name: str, changes: dict[str, Any]) -> None:
        folder.mkdir()
        for file in self._tokenizer_of.iterdir():
            if file.name != "model.safetensors":
                (folder / file.name).write_bytes(file.read_bytes())
        known = json.loads((folder / "config.json").read_text())
        rows = {"vocab_size": known["vocab_size"], "vocab_size_per_layer_input": known["vocab_size"]}
        config = _config(name) | rows | {"eos_token_id": known["eos_token_id"]} | changes
        (folder / "config.json").write_text(json.dumps(config))
        module = importlib.import_module(f"mlx_lm.models.{name}")
        mx.random.seed(0)
        network = module.Model(module.ModelArgs.from_dict(config))
        _redraw(network)
        mx.save_safetensors(str(folder / "model.safetensors"), dict(tree_flatten(network.parameters())))


def _have_it_think(folder: Path) -> None:
    """Has the chat template open a thought where the reply begins."""
    file = folder / "tokenizer_config.json"
    text = file.read_text()
    opened = text.replace("assistant\\\\n' }}{%- endif", "assistant\\\\n<think>' }}{%- endif")
    assert opened != text
    file.write_text(opened)


def written(pair: LoadedPair, settings: SamplingSettings, given: ReplyInput) -> Reply:
    """Writes a reply, which never ends by itself."""
    never = dict.fromkeys(pair.target.tokenizer.eos, -100.0)
    runner = ReplyRunner(pair, replace(settings, logit_bias=never), given, lambda: False)
    reply = Reply()
    for event in runner.events():
        assert not isinstance(event, FellBack), event.reason
        reply.metrics.add(event)
        if isinstance(event, Round):
            reply.ids += event.tokens
            channels = event.channels or ("answer",) * len(event.texts)
            reply.answers += [t * (channel == "answer") for t, channel in zip(event.texts, channels, strict=True)]
            reply.p += event.p
    reply.unused_prediction = runner.unused_prediction
    return reply


def plain(pair: LoadedPair, settings: SamplingSettings, given: ReplyInput) -> Reply:
    """Returns the same reply by plain decoding, in empty caches."""
    pair.session.forget()
    pair.session.kept.clear()
    reply = written(pair, replace(settings, draft_length=0), given)
    pair.session.forget()
    pair.session.kept.clear()
    return reply


def outcome(pairs: Sequence[tuple[Reply, Reply]]) -> str:
    """Returns whether drafted replies, each beside the plain one, are drafted; else what the user is told. Raises
    AssertionError where a text differs or nothing is said."""
    for drafted, reference in pairs:
        assert drafted.ids == reference.ids and len(drafted.ids) > 0, (drafted.ids, reference.ids)
    if all(drafted.metrics.drafted for drafted, _ in pairs):
        return WORKS
    return next(drafting_in_words(drafted.metrics) for drafted, _ in pairs if not drafted.metrics.drafted)


def simple(settings: SamplingSettings = GREEDY, **which: Any) -> Callable[[Bench], str]:
    """Returns a cell of one reply. which: pair."""

    def cell(bench: Bench) -> str:
        pair, given = bench.pair(**which), ReplyInput([QUESTION])
        reference = plain(pair, settings, given)
        return outcome([(written(pair, settings, given), reference)])

    return cell


def tools(bench: Bench) -> str:
    pair = bench.pair()
    offered = ReplyTools(pair.target.tokenizer, WEATHER)
    settings, given = replace(GREEDY, grammar=offered.grammar), ReplyInput([QUESTION], tools=offered.described)
    reference = plain(pair, settings, given)
    return outcome([(written(pair, settings, given), reference)])


def thinking(bench: Bench) -> str:
    settings = replace(GREEDY, max_thought_tokens=24)
    pair, given = bench.pair(thinks=True), ReplyInput([QUESTION])
    reference = plain(pair, settings, given)
    drafted = written(pair, settings, given)
    assert drafted.metrics.reason == "thought" and len(drafted.ids) == 24
    return outcome([(drafted, reference)])


def log_probabilities(bench: Bench) -> str:
    pair, given = bench.pair(), ReplyInput([QUESTION])
    reference, drafted = plain(pair, COUPLED, given), written(pair, COUPLED, given)
    assert np.allclose(drafted.p, reference.p, atol=1e-4)
    return outcome([(drafted, reference)])


def stop_strings(bench: Bench) -> str:
    pair, given = bench.pair(), ReplyInput([QUESTION])
    stop = next(text for text in plain(pair, COUPLED, given).answers[2:] if text.strip())
    settings = replace(COUPLED, stop=(stop,))
    reference, drafted = plain(pair, settings, given), written(pair, settings, given)
    assert drafted.metrics.reason == "stop"
    return outcome([(drafted, reference)])


def several_choices(bench: Bench) -> str:
    """Replies to one prompt with other seeds, one after the other, as for `n`."""
    pair, given = bench.pair(), ReplyInput([QUESTION])
    choices = [replace(COUPLED, seed=seed) for seed in (1, 2, 3)]
    references = [plain(pair, one, given) for one in choices]
    return outcome([(written(pair, one, given), other) for one, other in zip(choices, references, strict=True)])


def _second(bench: Bench, between: Callable[[LoadedPair], None], later: list[dict[str, str]]) -> str:
    """A first reply, then what comes between, then one to other messages."""
    pair, given = bench.pair(), ReplyInput(later)
    reference = plain(pair, GREEDY, given)
    written(pair, GREEDY, ReplyInput([QUESTION]))
    between(pair)
    drafted = written(pair, GREEDY, given)
    assert drafted.metrics.reused_tokens > 0
    return outcome([(drafted, reference)])


LATER = [QUESTION, {"role": "assistant", "content": "the sun"}, {"role": "user", "content": "why is the sky blue?"}]


def warm(bench: Bench) -> str:
    return _second(bench, lambda pair: None, LATER)


def restored(bench: Bench) -> str:
    def through_a_file(pair: LoadedPair) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "conversation")
            path.touch()
            kept = pair.session.conversation(tuple(pair.session.tokens))
            assert kept is not None
            kept_conversation_files.save(path, pair, kept, lambda: None)
            pair.session.forget()
            pair.session.kept.clear()
            again = kept_conversation_files.load(path, pair)
            assert again is not None and pair.session.kept.add(again)

    return _second(bench, through_a_file, LATER)


def trimmed(bench: Bench) -> str:
    """The question before is left out, as a context that is full makes necessary."""
    return _second(bench, lambda pair: None, LATER[2:])


def at_once(bench: Bench) -> str:
    first, driver = bench.pair(), Together()
    both = [(first, [QUESTION]), (first.for_another_reply(), LATER)]
    references = [plain(pair, GREEDY, ReplyInput(messages)) for pair, messages in both]
    done: dict[int, Reply] = {}

    def work(number: int, pair: LoadedPair, messages: Any) -> None:
        done[number] = written(pair, GREEDY, ReplyInput(messages))

    for number, (pair, messages) in enumerate(both):
        driver.start(lambda number=number, pair=pair, messages=messages: work(number, pair, messages))
    while driver.running:
        driver.turn()
    return outcome([(done[number], references[number]) for number in range(2)])


class Announced:
    """Stands for the other machines: they repeat what they are told."""

    ranks = "two toys"

    def announce(self, tokens: mx.array, tree: object, logits: bool) -> None:
        pass

    def submit(self, outputs: list[mx.array]) -> mx.array:
        return mx.zeros(2, mx.int32)

    def cancel(self, error: BaseException) -> None:
        pass


def prediction(bench: Bench) -> str:
    pair = bench.pair()
    reference = plain(pair, GREEDY, ReplyInput([QUESTION]))
    expected = pair.target.tokenizer.decode(reference.ids[2:])
    drafted = written(pair, GREEDY, ReplyInput([QUESTION], prediction=expected))
    found = outcome([(drafted, reference)])
    return drafted.unused_prediction or found


FEATURES: dict[str, Callable[[Bench], str]] = {
    "grammar": simple(replace(GREEDY, grammar=Grammar("regex", "[a-e ]{30}"))),
    "tools": tools,
    "thinking with a budget": thinking,
    "penalties": simple(replace(COUPLED, repetition_penalty=1.3, presence_penalty=0.2, frequency_penalty=0.1)),
    "log-probabilities": log_probabilities,
    "stop strings": stop_strings,
    "`n`": several_choices,
    "warm conversations": warm,
    "restored conversations": restored,
    "trimmed contexts": trimmed,
    "several replies at once": at_once,
    "quantized caches": simple(kv_bits=8),
    "sliding windows": simple(windows=True),
    "exact-verify": simple(replace(COUPLED, exact=True)),
    "several machines": simple(leader=Announced()),
    "prediction": prediction,
}


def cells(kind: Kind, root: Path) -> dict[str, str]:
    """Returns what comes of each feature with one kind: WORKS, or why it is off."""
    bench, found = Bench(kind, root), {}
    for name, feature in FEATURES.items():
        try:
            found[name] = feature(bench)
        except RedlineError as error:  # the pair or the reply is refused, and the user reads why
            found[name] = str(error)
        assert found[name], f"{kind.name} with {name} drafts nothing and does not say why"
    return found


def table(found: dict[str, dict[str, str]]) -> str:
    """Returns the table of cells by kind and feature, in Markdown: a reason is a number, which stands below."""
    reasons = list(dict.fromkeys(cell for column in found.values() for cell in column.values() if cell != WORKS))
    rows = [["", *found], ["---"] * (len(found) + 1)]
    for name in FEATURES:
        row = [column[name] for column in found.values()]
        rows.append([name, *(cell if cell == WORKS else f"off ({reasons.index(cell) + 1})" for cell in row)])
    lines = [f"| {' | '.join(row)} |" for row in rows]
    notes = [f"{number}. {reason}" for number, reason in enumerate(reasons, 1)]
    working = sum(cell == WORKS for column in found.values() for cell in column.values())
    count = f"{working} of {len(found) * len(FEATURES)} cells work; the others are off and say why:"
    return "\n".join([*lines, "", count, "", *notes])


def column_of(page: str, kind: str) -> dict[str, str]:
    """Returns the cells of one kind as a page has them."""
    lines = page.splitlines()
    head, _, *rows = [line.strip("|").split("|") for line in lines if line.startswith("|")]
    place = [name.strip() for name in head].index(kind)
    notes = dict(line.split(". ", 1) for line in lines if re.match(r"\d+\. ", line))
    found = {row[0].strip(): row[place].strip() for row in rows}
    return {name: notes.get(cell.removeprefix("off (").removesuffix(")"), cell) for name, cell in found.items()}


INTRODUCTION = """\
# Kinds of drafters, with every feature

A row for each feature, a column for each kind of the registry (`__init__.py`). "works": something is drafted, and the
reply equals plain decoding. Otherwise it is off, for the reason below, which the user sees too. Written by `python -m
tests.programs.drafter_matrix --write` with toys; `tests/app/inference/test_drafter_matrix.py` compares.
"""


def main(arguments: Sequence[str]) -> int:
    found = {}
    for kind in TOYS:
        with tempfile.TemporaryDirectory() as folder:
            found[kind.name] = cells(kind, Path(folder))
    text = f"{INTRODUCTION}\n{table(found)}\n"
    if "--write" in arguments:
        PAGE.write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
