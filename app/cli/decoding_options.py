"""The options of the commands that decode: which models, how to draft and how to sample."""

import argparse
import json
import secrets
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from app.inference.host_file import read_hosts
from app.inference.options import AUTO, KV_BITS, MAX_THOUGHT, Options, read_draft_length
from app.protocol.race_messages import PAUSE_S, Server
from app.remote.openai_client import check_address
from engine.errors import UsageError
from engine.settings import ACCEPTANCE_RULES, MODEL_DEFAULTS, Grammar, SamplingSettings
from models.builtin import SHIPPED
from models.paths import BUILTIN

_EXACT = "use the same arithmetic for every token, so that the text agrees to the last bit with plain decoding"
_EXACT_TOO = "run everything with --exact as well, and compare it with plain decoding to the last bit"
_SEED = (
    "random seed above temperature 0 (default: random in chat and race, 0 in bench); the same seed gives the same text "
    "on this machine; with a fixed draft length or --acceptance coupled, on every machine"
)

_SAMPLED = tuple(name for name in MODEL_DEFAULTS if name != "temperature")  # given once, None where they are not
_THINKING = {None: None, "on": True, "off": False}


def add_options(
    parser: argparse.ArgumentParser, several: bool = False, max_tokens: int = 512, instead: str = "0"
) -> None:
    """Adds the options that chat, race and bench share. several: --drafter, --draft-length and --temperature may be
    repeated. instead: what the temperature is where it is not given."""
    again = "; may be repeated" if several else ""
    group = parser.add_argument_group("model and decoding")
    add = group.add_argument
    add("--target", default=BUILTIN, metavar="FOLDER", help="model folder (default: the built-in model)")
    add(
        "--drafter",
        action="append",
        metavar="NAME|FOLDER",
        help="none, lookup (prompt lookup), a folder, or auto: prompt lookup and the best installed drafter for the "
        f"target (default: auto); for the built-in model also {', '.join(SHIPPED)}{again}",
    )
    add("--draft-length", action="append", metavar="N|auto", help=f"tokens to draft each round (default: auto){again}")
    add("--exact", action="store_true", help=_EXACT_TOO if several else _EXACT)
    add(
        "--acceptance",
        choices=ACCEPTANCE_RULES,
        default=ACCEPTANCE_RULES[0],
        help="acceptance rule above temperature 0 (default: rejection)",
    )
    add_sampling(group, several, max_tokens, instead)
    add("--seed", type=int, metavar="N", help=_SEED)
    add("--stop", action="append", default=[], metavar="TEXT", help="end the reply before this text; may be repeated")
    add(
        "--kv-bits",
        type=int,
        choices=KV_BITS,
        metavar="N",
        help="quantize keys and values to 8 or 4 bits (default: do not)",
    )


def add_sampling(group: argparse._ArgumentGroup, several: bool, max_tokens: int, instead: str = "0") -> None:
    """Adds the options that predict has too: trees, the distribution, limits, machines and the folder of the caches."""
    add, again = group.add_argument, "; may be repeated" if several else ""
    add("--tree", action="store_true", help="draft trees if drafter and target support them; draft lengths count nodes")
    add("--temperature", action="append", type=float, metavar="T", help=f"0 is greedy (default: {instead}){again}")
    for option, number, metavar, help in (
        ("--top-p", float, "P", "sample from the most likely tokens with this total probability (1: off)"),
        ("--top-k", int, "K", "sample from the K most likely tokens (0: off)"),
        ("--min-p", float, "P", "drop tokens less likely than P times the most likely one (0: off)"),
        ("--repetition-penalty", float, "R", "above 1 discourages repeats (1: off)"),
        ("--presence-penalty", float, "R", "above 0, discourages tokens that have already appeared (0: off)"),
        ("--frequency-penalty", float, "R", "above 0, discourages a token more each time it has appeared (0: off)"),
    ):
        add(option, type=number, metavar=metavar, help=help)
    longest = f"longest reply, in tokens (default: {max_tokens})"
    add("--max-tokens", type=int, default=max_tokens, metavar="N", help=longest)
    add_context(group)


def add_context(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Adds the options that serve has too: the context, the machines that share the target, the folder of caches."""
    add = parser.add_argument
    add("--context", type=int, metavar="N", help="maximum tokens of prompt and reply (default: all that fit in memory)")
    shared = "split the target over the machines in this file (see `redline cluster`), this one first"
    add("--hosts", type=Path, metavar="FILE", help=shared)
    add("--cache-dir", type=Path, metavar="DIR", help="folder of imported models and caches (default: the user's)")


def add_servers(parser: argparse.ArgumentParser) -> None:
    """Adds the options that name other programs to measure against."""
    group = parser.add_argument_group("other programs")
    add = group.add_argument
    against = "a server that speaks OpenAI's protocol (llama.cpp, LM Studio, Ollama, vLLM, ...); may be repeated"
    add("--against", action="append", default=[], metavar="URL", help=against)
    model = "the model there (default: the first that it lists); once for each --against, in their order"
    add("--model", action="append", default=[], metavar="NAME", help=model)
    key = "environment variable that holds the server's key; once for each --against"
    add("--key-env", action="append", default=[], metavar="VAR", help=key)
    pause = f"seconds between two replies with --against, in which the machine cools down (default: {PAUSE_S:g})"
    add("--pause", type=float, default=PAUSE_S, metavar="S", help=pause)
    order = "seed of the order of turns with --against, recorded (default: random in race, 0 in bench)"
    add("--order-seed", type=int, metavar="N", help=order)


def read_servers(args: argparse.Namespace) -> list[Server]:
    """Returns the servers of parsed arguments. Raises UsageError."""
    for option, values in (("--model", args.model), ("--key-env", args.key_env)):
        if len(values) > len(args.against):
            raise UsageError(f"{option} is given {len(values)} times: give it once for each --against")
    rows = zip_longest(args.against, args.model, args.key_env, fillvalue="")
    servers = [Server(url=url, model=model, key_env=key_env) for url, model, key_env in rows]
    for server in servers:
        check_address(server)
    return servers


def add_thinking(parser: argparse.ArgumentParser) -> None:
    """Adds the options for models that think before they answer."""
    group = parser.add_argument_group("thinking")
    add = group.add_argument
    add(
        "--thinking", choices=("on", "off"), help="whether to think, for models with that switch (default: the model's)"
    )
    add("--effort", default="", metavar="LEVEL", help="how much to think, for models with that switch")
    most = f"longest thought before the answer (default: {MAX_THOUGHT})"
    add("--max-thought-tokens", type=int, default=MAX_THOUGHT, metavar="N", help=most)
    shown = "show thoughts, or only how long they took (default: show in a terminal, hide elsewhere)"
    add("--thoughts", choices=("show", "hide"), help=shown)


def add_grammar(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say what an answer must look like."""
    only = parser.add_argument_group("structured output").add_mutually_exclusive_group()
    only.add_argument("--json-schema", type=Path, metavar="FILE", help="answer in JSON that follows this JSON Schema")
    only.add_argument("--regex", metavar="PATTERN", help="answer with text that matches this regular expression")
    only.add_argument("--choice", action="append", metavar="TEXT", help="answer with one of these; may be repeated")


def read_grammar(args: argparse.Namespace) -> Grammar | None:
    """Returns the grammar of parsed arguments, None without one. Raises UsageError for a file that cannot be read."""
    if args.json_schema is not None:
        try:
            return Grammar("json_schema", args.json_schema.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(f"--json-schema: {args.json_schema} cannot be read ({error}): give a JSON file") from None
    if args.regex is not None:
        return Grammar("regex", args.regex)
    return Grammar("choice", json.dumps(args.choice)) if args.choice else None


def read_options(args: argparse.Namespace, random_seed: bool, model_defaults: bool = False) -> Options:
    """Returns the options of parsed arguments, with the first temperature and draft length of several. random_seed:
    draw a seed if none is given. model_defaults: what is not given is the model's own. Raises UsageError for invalid
    values, those of several included."""
    seed = args.seed if args.seed is not None else secrets.randbelow(2**31) if random_seed else 0
    given = {name: getattr(args, name, None) for name in MODEL_DEFAULTS}
    values: dict[str, Any] = {name: given[name] for name in _SAMPLED if given[name] is not None}
    if model_defaults:
        values["from_model"] = tuple(name for name in MODEL_DEFAULTS if given[name] is None)
        values |= {"thinking": _THINKING[args.thinking], "effort": args.effort}
        values |= {"max_thought_tokens": args.max_thought_tokens, "grammar": read_grammar(args)}
    temperatures, lengths = args.temperature or [0.0], read_draft_lengths(args)
    sampling = SamplingSettings(
        temperature=temperatures[0],
        draft_length=lengths[0],
        seed=seed,
        fresh=not getattr(args, "reproducible", True) and args.seed is None,
        acceptance=args.acceptance or ACCEPTANCE_RULES[0],
        exact=args.exact,
        max_tokens=args.max_tokens,
        stop=tuple(args.stop),
        **values,
    )
    for temperature in temperatures:
        replace(sampling, temperature=temperature).check(args.tree)
    for length in lengths:
        replace(sampling, draft_length=length).check(args.tree)
    return Options(
        target=args.target,
        drafters=tuple(args.drafter or (AUTO,)),
        tree=args.tree,
        sampling=sampling,
        context=args.context,
        kv_bits=args.kv_bits,
        hosts=read_hosts(args.hosts),
        cache_root=args.cache_dir,
    )


def read_draft_lengths(args: argparse.Namespace) -> list[int | None]:
    """Returns the draft lengths that are given, None for auto. Raises UsageError for what is none."""
    return list(dict.fromkeys(map(read_draft_length, args.draft_length or [AUTO])))


def read_temperatures(args: argparse.Namespace, options: Options) -> list[SamplingSettings]:
    """Returns the settings of replies at each temperature that is given."""
    return [replace(options.sampling, temperature=one) for one in dict.fromkeys(args.temperature or [0.0])]


def check_single(args: argparse.Namespace, instead: str) -> None:
    """Raises UsageError for what is given several times. instead: what to do instead."""
    for name in ("drafter", "temperature", "draft-length"):
        values = getattr(args, name.replace("-", "_")) or ()
        if len(values) > 1:
            raise UsageError(f"--{name} is given {len(values)} times: {instead}")


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Adds the options that select prompts of a file."""
    parser.add_argument("--limit", type=int, metavar="N", help="use only the first N prompts")
    parser.add_argument("--every", type=int, default=1, metavar="K", help="use every Kth prompt (default: 1, all)")


def check_counts(args: argparse.Namespace, *names: str) -> None:
    """Raises UsageError for a number of things that is less than 1."""
    for name in names:
        value = getattr(args, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name} is {value}: use at least 1")
