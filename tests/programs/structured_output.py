"""Checks structured output with the built-in model: valid, identical to plain masked decoding, and how fast.

    python -m tests.programs.structured_output --count 20 --seed 1 [--skip N] [--drafters N] [--schemas FOLDER] [--toy]

FOLDER holds JSON Schemas, one a file, as JSONSchemaBench has them, or files of JSON Schema's own test suite (lists of
groups with a `schema`). Without it, schemas are generated. --toy takes random models with the built-in's tokenizer,
which reply at once and like to end what they began: hundreds of schemas in minutes, with texts that no one would read.
A reply that reaches max_tokens is counted as cut, since no JSON can be read from it, and one to a schema that
`jsonschema` cannot read, such as one with a regular expression that Python does not know, as not judged. The table is
printed when Ctrl-C ends the run, too.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import mlx.core as mx
from tokenizers import Tokenizer

from app.inference.loaded_pair import LoadedPair, open_target
from app.inference.options import Options
from engine.errors import UsageError
from engine.events import Finished, PromptProgress, Round
from engine.settings import Grammar, SamplingSettings
from models.builtin import builtin_folder
from models.drafters.eagle3 import save_eagle3
from models.grammar_matcher import check_grammar
from tests.toys.folders import make_folder
from tests.toys.heads import random_eagle3

Variant = tuple[str, str, int, bool]  # name, drafter, draft length, trees

VARIANTS: tuple[Variant, ...] = (
    ("lookup", "lookup", 4, False),
    ("eagle3", "eagle3", 4, False),
    ("eagle3 tree", "eagle3", 8, True),
    ("draft model", "draft", 4, False),
)
TOY_VARIANTS: tuple[Variant, ...] = (
    ("lookup", "lookup", 4, False),
    ("lookup tree", "lookup", 8, True),
    ("eagle3", "EAGLE3", 4, False),
    ("eagle3 tree", "EAGLE3", 8, True),
    ("draft model", "DRAFT", 4, False),
    ("both", "lookup+DRAFT", 4, False),
)
SAMPLINGS = {
    "greedy": SamplingSettings(),
    "coupled": SamplingSettings(temperature=0.8, acceptance="coupled", seed=7),
}
EMBEDDING_SHIFT = 20.0  # of all embeddings of a toy, whose layers add about as much
# What the output rows of tokens that end something gain along the common component.
CLOSING_BIAS = {"<|im_end|>": 1.5, '"': 1.0, '"}': 1.0, '"]': 1.0, "}": 0.5, "]": 0.5}

QUESTION = "Reply with an example of a JSON value that fits this schema, as short as you can: "


def random_schema(rng: random.Random, depth: int = 2) -> dict[str, Any]:
    """Returns the schema of a small value, mostly an object."""
    kind = rng.choice(["object", "array", "enum", "integer", "boolean", "string"] if depth < 2 else ["object"])
    if kind == "object" and depth:
        names = rng.sample(["name", "city", "age", "tags", "kind", "size", "open", "price"], rng.randint(1, 3))
        parts = {name: random_schema(rng, depth - 1) for name in names}
        return {"type": "object", "properties": parts, "required": names, "additionalProperties": False}
    if kind == "array" and depth:
        return {"type": "array", "items": random_schema(rng, depth - 1), "minItems": 1, "maxItems": 3}
    if kind == "enum":
        return {"enum": rng.sample(["red", "green", "blue", "small", "large"], 3)}
    if kind == "integer":
        return {"type": "integer", "minimum": 0, "maximum": rng.choice([9, 100, 5000])}
    return {"type": "boolean"} if kind == "boolean" else {"type": "string", "minLength": 1, "maxLength": 12}


def schemas_of(folder: Path | None, count: int, seed: int) -> tuple[list[str], int]:
    """Returns so many schemas that can be followed, and how many could not."""
    rng = random.Random(seed)
    if folder is None:
        return [json.dumps(random_schema(rng)) for _ in range(count)], 0
    found: list[Any] = []
    for path in sorted(folder.rglob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        found += [group["schema"] for group in content] if isinstance(content, list) else [content]
    rng.shuffle(found)
    taken: list[str] = []
    refused = 0
    for schema in found:
        if len(taken) == count:
            break
        try:
            check_grammar(Grammar("json_schema", json.dumps(schema)))
            taken.append(json.dumps(schema))
        except UsageError:
            refused += 1
    return taken, refused


def prefer_closing_tokens(folder: Path) -> None:
    """Makes a random model like to end what it began: all hidden states have one component in common, which comes from
    the embeddings and which the layers leave alone, and the output rows of CLOSING_BIAS point along it."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    path = str(folder / "model.safetensors")
    weights = mx.load(path)
    assert isinstance(weights, dict)
    for name, value in weights.items():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            weights[name] = value - value.mean(axis=0)
    weights["model.embed_tokens.weight"] += EMBEDDING_SHIFT
    ends = mx.array([tokenizer.token_to_id(word) for word in CLOSING_BIAS])
    weights["lm_head.weight"] = weights["lm_head.weight"].at[ends].add(mx.array(list(CLOSING_BIAS.values()))[:, None])
    mx.save_safetensors(path, weights)


def toy_pair(folder: Path) -> tuple[str, tuple[Variant, ...]]:
    """Makes a random target, a draft model that is often right, and a random EAGLE-3 head, which is right where the
    schema leaves little choice. Returns the target's folder and the variants."""
    target = make_folder(folder / "target", tokenizer_of=builtin_folder())
    prefer_closing_tokens(target)
    made = {"DRAFT": folder / "drafter", "EAGLE3": folder / "eagle3"}
    make_folder(made["DRAFT"], like=target, noise=0.03, tokenizer_of=builtin_folder())
    words = json.loads((target / "config.json").read_text())["vocab_size"]
    save_eagle3(made["EAGLE3"], random_eagle3(taps=(0, 1, 2), vocab_size=words, draft_vocab_size=4096), {})

    def spec_of(spec: str) -> str:
        return "+".join(str(made.get(part, part)) for part in spec.split("+"))

    return str(target), tuple((name, spec_of(spec), length, tree) for name, spec, length, tree in TOY_VARIANTS)


@dataclass
class Tally:
    """What came of the replies of one way to decode."""

    replies: int = 0
    valid: int = 0
    cut: int = 0
    not_judged: int = 0
    invalid: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    tokens: int = 0
    passes: int = 0
    processor_s: float = 0.0

    def line(self, name: str) -> str:
        per_s = self.tokens / self.processor_s if self.processor_s else 0.0
        same = f"{self.replies - len(self.different)}/{self.replies}"
        validity = f"{self.valid} valid, {self.cut} cut, {len(self.invalid)} invalid, {self.not_judged} not judged"
        return f"| {name} | {validity} | {same} | {self.tokens / max(self.passes, 1):.2f} | {per_s:.1f} |"


def reply(pair: LoadedPair, settings: SamplingSettings, schema: str, tally: Tally) -> tuple[list[int], str, bool]:
    """Returns the ids and the text of a reply, and whether it ended by itself. Its time is counted from when the prompt
    has been read, of which a drafter may find some in the caches."""
    ids: list[int] = []
    text, ended, began_s = "", False, time.process_time()
    question = [{"role": "user", "content": QUESTION + schema}]
    for event in pair.session.reply(question, settings, pair.drafter.drafter, pair.policy(settings, 0)):
        if isinstance(event, Round):
            ids += event.tokens
            text += event.text_in("answer")
            tally.passes += 1
        elif isinstance(event, PromptProgress):
            began_s = time.process_time()
        elif isinstance(event, Finished):
            text += event.text
            ended = event.reason == "eos"
    tally.processor_s += time.process_time() - began_s
    tally.tokens += len(ids)
    return ids, text, ended


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def judge(schema: str, text: str, ended: bool, tally: Tally) -> None:
    """Counts a reply, as valid, cut, invalid or not judged. `format` is an annotation, as in the standard."""
    from jsonschema import validate  # type: ignore[import-untyped,unused-ignore]
    from jsonschema.exceptions import SchemaError, ValidationError  # type: ignore[import-untyped,unused-ignore]
    from referencing.exceptions import Unresolvable  # type: ignore[import-not-found,unused-ignore]

    tally.replies += 1
    if not ended:
        tally.cut += 1
        return
    try:
        validate(json.loads(text, parse_constant=_refuse), json.loads(schema))
        tally.valid += 1
    except (SchemaError, Unresolvable):
        tally.not_judged += 1
    except (ValueError, ValidationError) as error:
        tally.invalid.append(f"{schema[:200]} -> {text[:100]!r}: {str(error)[:100]}")


def check(
    number: int,
    schema: str,
    pairs: dict[str, LoadedPair],
    variants: list[Variant],
    max_tokens: int,
    tallies: dict[str, Tally],
) -> None:
    """Counts the replies to one schema: without a drafter, and in each of the variants. Every tenth has one without a
    grammar too, for its speed."""
    for sampling, base in SAMPLINGS.items():
        free = replace(base, max_tokens=max_tokens, draft_length=0)
        masked = replace(free, grammar=Grammar("json_schema", schema))
        if number % 10 == 1:
            tally = tallies[f"{sampling}, plain, no grammar"]
            reply(pairs["plain"], free, schema, tally)
            tally.replies += 1
        tally = tallies[f"{sampling}, plain"]
        plain, text, ended = reply(pairs["plain"], masked, schema, tally)
        judge(schema, text, ended, tally)
        for name, _, length, _ in variants:
            tally = tallies[f"{sampling}, {name}"]
            ids, text, ended = reply(pairs[name], replace(masked, draft_length=length), schema, tally)
            if ids != plain:
                tally.different.append(schema)
            judge(schema, text, ended, tally)


def print_table(tallies: dict[str, Tally]) -> None:
    """Prints a row for each way to decode, then the replies that are wrong."""
    print("| variant | replies | as plain masked | tokens a pass | tokens a processor second |")
    print("| --- | --- | --- | --- | --- |")
    for name, tally in sorted(tallies.items()):
        print(tally.line(name))
    for name, tally in tallies.items():
        for fault in [*tally.invalid, *(f"differs: {schema[:200]}" for schema in tally.different)]:
            print(f"{name}: {fault}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--skip", type=int, default=0, help="leave out so many first, which another process takes")
    parser.add_argument("--drafters", type=int, help="try so many of the drafters on each schema, in turn; default all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--schemas", type=Path)
    parser.add_argument("--toy", action="store_true")
    args = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell ignores for what runs in the background
    schemas, refused = schemas_of(args.schemas, args.skip + args.count, args.seed)
    tallies: dict[str, Tally] = defaultdict(Tally)
    done = 0
    with tempfile.TemporaryDirectory() as folder, suppress(KeyboardInterrupt):
        target, variants = toy_pair(Path(folder)) if args.toy else ("builtin", VARIANTS)
        pair = open_target(Options(target=target, cache_root=Path(folder) / "cache"))
        pairs = {name: pair.open_drafter(drafter, trees) for name, drafter, _, trees in variants} | {"plain": pair}
        count = args.drafters or len(variants)
        for number, schema in enumerate(schemas[args.skip :], 1):
            chosen = [variants[(number * count + other) % len(variants)] for other in range(count)]
            check(number, schema, pairs, chosen, args.max_tokens, tallies)
            done = number
            print(f"{number} of {len(schemas) - args.skip}", file=sys.stderr, flush=True)
    print(f"{done} schemas ({refused} others refused), at most {args.max_tokens} tokens\n")
    print_table(tallies)
    return int(not done or any(tally.invalid or tally.different for tally in tallies.values()))


if __name__ == "__main__":
    raise SystemExit(main())
