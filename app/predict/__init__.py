"""`redline predict`: what a drafter will bring for a target on this machine, without letting the two write anything."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cli import INTERRUPTED, OK
from app.numbers import count
from app.options import AUTO, BUILTIN, Options
from engine.choice import RULES
from engine.errors import UsageError

if TYPE_CHECKING:
    from app.bench.questions import Question
    from app.pair import NamedDrafter
    from app.predict.forecast import Forecast
    from app.predict.foreseeing import Asked, Foreseer
    from engine.choice import Rule
    from engine.session import Session
    from engine.settings import Settings

MAX_TOKENS = 128
_EXAMPLES = """examples:
  redline predict                                       the built-in model and the drafter that auto takes
  redline predict TARGET DRAFTER                        two folders, or a drafter's name
  redline predict TARGET DRAFTER --prompts FILE         on your own prompts, one a line or in Spec-Bench's format
  redline predict --temperature 0 --temperature 1       greedy, rejection and coupled sampling at temperature 1
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the tree."""
    parser = subparsers.add_parser(
        "predict",
        description="What a drafter will bring for a target on this machine: acceptance, tokens a pass, the best draft "
        "length and the speed-up, each with its sampling error. The pair writes nothing together: the target's own "
        "replies to the prompts, which are written once and kept, are read by both, and rounds are priced by measured "
        "passes.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("target", nargs="?", default=BUILTIN, metavar="TARGET", help="model folder (default: the built-in)")
    add("drafter", nargs="?", default=AUTO, metavar="DRAFTER", help="a drafter's name or folder (default: auto)")
    add("--prompts", type=Path, metavar="FILE", help="one a line, or Spec-Bench's format (default: our own twelve)")
    add("--limit", type=int, metavar="N", help="only the first N prompts")
    add("--every", type=int, default=1, metavar="K", help="only one prompt in K, for a share of every kind (1: all)")
    add("--json", type=Path, metavar="FILE", help="write everything foreseen to this file")
    _add_law(parser)
    parser.set_defaults(run=run)


def _add_law(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("what is foreseen").add_argument
    add("--temperature", action="append", type=float, metavar="T", help="0 is greedy (default: 0); may be repeated")
    add("--acceptance", choices=RULES, help="how drafts are judged above temperature 0 (default: each way)")
    add("--tree", action="store_true", help="trees, where drafter and target can; draft length counts the nodes")
    add("--top-p", type=float, default=1.0, metavar="P", help="keep the likeliest tokens of this mass (1: off)")
    add("--top-k", type=int, default=0, metavar="K", help="keep the K likeliest tokens (0: off)")
    add("--min-p", type=float, default=0.0, metavar="P", help="drop tokens below P times the likeliest (0: off)")
    add("--repetition-penalty", type=float, default=1.0, metavar="R", help="above 1 discourages repeats (1: off)")
    add("--seed", type=int, default=0, metavar="N", help="of the noise above temperature 0 (default: 0)")
    add("--max-tokens", type=int, default=MAX_TOKENS, metavar="N", help=f"longest reply (default: {MAX_TOKENS})")
    add("--context", type=int, metavar="N", help="most tokens of prompt and reply (default: what the model declares)")
    add("--cache-dir", type=Path, metavar="DIR", help="where models, replies and costs are kept (default: the user's)")


def run(args: argparse.Namespace) -> int:
    """Foresee, tell, write. Raises RedlineError."""
    options = _options(args)
    questions = _check(args, options)
    from app import environment, pair
    from app.conversation import target_name
    from app.predict.foreseeing import Foreseer

    _tell(f"loading {target_name(options)}")
    target = pair.open_target(options)
    drafter = pair.open_drafter(options.drafter, target, options.tree)
    if drafter.drafter is None:
        raise UsageError("drafter is none, which drafts nothing: name another, or a folder")
    if drafter.said:
        _tell(drafter.said)
    session, said = pair.open_session(target, options)
    if said:
        _tell(said)
    foreseer = Foreseer(target, drafter, session, options.cache_root, _tell)
    settings = [options.settings(temperature) for temperature in dict.fromkeys(options.temperatures)]
    rules = _rules(args, foreseer, settings)
    forecasts = _foresee(foreseer, _ask(session, questions), settings, rules)
    if forecasts is None:
        return INTERRUPTED
    _show(args, drafter, environment.describe(options, target), forecasts)
    return OK


def _options(args: argparse.Namespace) -> Options:
    """Raises UsageError for nonsense."""
    return Options(
        target=args.target,
        drafters=(args.drafter,),
        temperatures=tuple(args.temperature or (0.0,)),
        tree=args.tree,
        rule=args.acceptance or RULES[0],
        top_p=args.top_p,
        top_k=args.top_k,
        min_p=args.min_p,
        repetition_penalty=args.repetition_penalty,
        seed=args.seed,
        max_tokens=args.max_tokens,
        context=args.context,
        cache_root=args.cache_dir,
    )


def _check(args: argparse.Namespace, options: Options) -> list[Question]:
    """Everything that can be wrong before a model is loaded. Raises UsageError."""
    for name, value in (("limit", args.limit), ("every", args.every)):
        if value is not None and value < 1:
            raise UsageError(f"{name} is {value}: give at least 1")
    if options.drafter == "none":
        raise UsageError("drafter is none, which drafts nothing: name another, or a folder")
    from app.files import check_writable
    from app.predict.prompts import read

    if args.json is not None:
        check_writable(args.json, "--json")
    return read(args.prompts, args.limit, args.every)


def _ask(session: Session, questions: list[Question]) -> list[Asked]:
    """First turns as ids. Raises ContextError for one that does not fit, UsageError or ModelError for one that
    tokenizer or chat template won't have."""
    from app.bench.tournament import Tournament
    from app.predict.foreseeing import Asked

    Tournament(session, [], [], turns=1).check(questions)
    chat = session.tokenizer.chat
    asked = [Asked(one, tuple(chat([{"role": "user", "content": one.turns[0]}]))) for one in questions]
    for one in asked:
        if len(one.prompt) < 2:
            raise UsageError(f"question {one.question.id} is a single token: say more, drafters read at least two")
    return asked


def _rules(args: argparse.Namespace, foreseer: Foreseer, settings: list[Settings]) -> list[Rule]:
    """Those asked about. Raises UsageError where only one was asked for about which nothing can be told."""
    asked = [rule for rule in RULES if args.acceptance in (None, rule)]
    told = [rule for rule in asked if all(foreseer.can(replace(one, rule=rule)) for one in settings)]
    if not told:
        why = "trees whose children are drawn, as rejection has them, cannot be foreseen from text alone"
        raise UsageError(f"{why}: give --acceptance coupled, or leave out --tree")
    if len(told) < len(asked):
        _tell("trees under rejection cannot be foreseen from text alone: coupled sampling only")
    return told


def _foresee(
    foreseer: Foreseer, asked: list[Asked], settings: list[Settings], rules: list[Rule]
) -> list[Forecast] | None:
    """All forecasts; None where Ctrl-C came first, which keeps the replies that are written."""
    from app.bench.progress import progress

    try:
        if lacking := foreseer.lacking(asked, settings):
            _tell(f"the target writes {lacking} of {len(asked) * len(settings)} replies, once for all drafters")
        with progress(foreseer.steps(asked, settings)) as foreseer.step:
            foreseer.write(asked, settings)
            foreseer.measure(asked, settings, rules)
            return [forecast for one in settings for forecast in foreseer.foresee(asked, one, rules)]
    except KeyboardInterrupt:
        whole = len(asked) * len(settings)
        kept = whole - foreseer.lacking(asked, settings)
        _tell(f"stopped; {kept} of {whole} replies are kept, and the next prediction goes on from there")
        return None


def _show(
    args: argparse.Namespace, drafter: NamedDrafter, made_with: dict[str, Any], forecasts: list[Forecast]
) -> None:
    from rich.console import Console

    from app import environment
    from app.bench.document import write
    from app.predict import document, table

    name = "+".join(part.name for part in drafter.parts)
    prompts, tokens = len(forecasts[0].replies), forecasts[0].tally(None).tokens
    about = f"{name} · {count(prompts, 'prompt')}, {tokens:,} tokens · {environment.summary(made_with)}"
    try:  # the table first: it is there even if the disk is full
        console = Console(width=None if sys.stdout.isatty() else 100, highlight=False)
        table.show(console, about, forecasts, drafter.branches)
    finally:
        if args.json is not None:
            write(args.json, document.document(made_with, name, drafter.branches, forecasts))


def _tell(text: str) -> None:
    print(f"redline: {text}", file=sys.stderr, flush=True)
