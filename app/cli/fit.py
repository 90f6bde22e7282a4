"""`redline fit`: trains a drafter for a target on this machine, from text that the target writes itself."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cli.terminal.keyboard import terminated_like_interrupted
from app.command_line import FAILURE, INTERRUPTED, OK, add_command, notify, print_json
from app.inference.options import Options
from engine.errors import UsageError
from models.paths import BUILTIN
from models.training.training_plan import KINDS, TrainingOptions

if TYPE_CHECKING:
    from app.command_line import Commands
    from engine.policy.step_times import DrafterTimes
    from models.loader import Loaded
    from models.training.plan_measurement import PreparedTraining
    from models.training.training_plan import TrainingPlan
    from models.training.workspace import Workspace

_PLANNED = (  # options that are fixed when a fit begins
    *("minutes", "conversations", "steps", "draft_vocabulary", "layers", "depths", "reply_tokens", "learning_rate"),
    "seed",
)
_MANY_REPLIES = 2  # to one prompt, from where on more prompts would be better
_MUCH_LOST_S = 60.0  # by stopping
_DESCRIPTION = (
    "Train a drafter for a target on this machine. The target writes prompts and replies; the drafter learns its "
    "distribution and is evaluated on unseen text. The result is a folder for --drafter, with a report in it. "
    "Continue an interrupted fit with --resume."
)
_EXAMPLES = """examples:
  redline fit builtin                                 an EAGLE-3 head for the built-in model, in an hour
  redline fit FOLDER --kind draft --minutes 240       a small draft model for another target
  redline fit FOLDER --prompts QUESTIONS.txt          train on replies to your own prompts
  redline fit FOLDER --out OUT --resume               continue an interrupted fit
  redline chat --target FOLDER --drafter OUT          use it
"""
_KIND = "eagle3, mtp or medusa for a head, dflash for a block drafter, draft for a draft model (default: eagle3)"
_LAYERS = "layers of a draft model (default: an eighth of the target's) or a block drafter (default: 2)"
_DEPTHS = "unrolled steps of eagle3 and mtp (default: 3), heads of medusa or tokens of a dflash block (default: 4)"
_VOCABULARY = "size of the draft vocabulary (default: 8192 for a head; for a draft model a quarter, at least 16384)"


def add_parser(commands: Commands) -> None:
    parser = add_command(commands, "fit", run, _DESCRIPTION, _EXAMPLES)
    add = parser.add_argument
    add("target", nargs="?", metavar="TARGET", help="model folder, or builtin for the built-in model")
    add("--kind", choices=KINDS, help=_KIND)
    add("--minutes", type=float, metavar="N", help="approximate duration (default: 60)")
    add("--prompts", type=Path, metavar="FILE", help="prompts for the target: one per line, or JSON Lines")
    add("--out", type=Path, metavar="DIR", help="folder of the drafter (default: TARGET-KIND in the current folder)")
    add("--resume", action="store_true", help="continue an interrupted fit")
    add("--yes", action="store_true", help="train for the built-in model without asking")
    add("--json", action="store_true", help="print the report as JSON")
    add = parser.add_argument_group("advanced").add_argument
    add("--conversations", type=int, metavar="N", help="conversations to write, instead of --minutes; needs --steps")
    add("--steps", type=int, metavar="N", help="training steps, instead of --minutes; needs --conversations")
    add("--draft-vocabulary", type=int, metavar="N", help=_VOCABULARY)
    add("--layers", type=int, metavar="N", help=_LAYERS)
    add("--depths", type=int, metavar="N", help=_DEPTHS)
    add("--reply-tokens", type=int, metavar="N", help="longest reply, in tokens (default: 384)")
    add("--learning-rate", type=float, metavar="R", help="highest learning rate")
    add("--seed", type=int, metavar="N", help="random seed (default: 0)")
    add("--cache-dir", type=Path, metavar="DIR", help="folder of imported models (default: the user's cache)")


def run(args: argparse.Namespace) -> int:
    """Begins or resumes a fit, and reports the result. Raises RedlineError."""
    if find_spec("matplotlib") is None:
        raise UsageError("fit needs matplotlib, which Redline.app leaves out: run `uv run redline fit` from the source")
    wanted = None if args.resume else _training_options(args)
    if not _is_meant(args):
        notify("nothing was trained")
        return FAILURE
    args.target = args.target or BUILTIN
    options = Options(target=args.target, cache_root=args.cache_dir)
    from app.inference.options import target_name
    from models.durable_files import disk_errors
    from models.training.workspace import fit_stopped

    place = _place(args, target_name(options))
    with terminated_like_interrupted(), disk_errors(partial(fit_stopped, place.out)), place.locked():
        if args.resume and place.finished:
            if not place.is_result_of_plan:
                raise UsageError(f"{place.out} is the result of another fit: move it away to continue this one")
            place.publish()  # completes what a kill at the very end has left
            notify(f"{place.out} is already finished")
            return _report(args, place)
        _check_place(args, place)
        try:
            _train(args, options, place, wanted)
        except KeyboardInterrupt:
            notify(f"stopped; continue with: {_again(args, place)}" if place.started else "stopped before it began")
            return INTERRUPTED
        return _report(args, place)


def _is_meant(args: argparse.Namespace) -> bool:
    """Returns whether an hour's work is wanted: asks if no target is named. Raises UsageError if nobody can answer."""
    if args.target is not None or args.resume or args.yes:
        return True
    minutes = args.minutes or TrainingOptions.minutes
    takes = "until all steps are done" if args.steps else f"for about {minutes:g} minutes"
    what = f"this trains a drafter of kind {args.kind or KINDS[0]} for the built-in model, {takes}"
    if args.json or not sys.stdin.isatty():
        raise UsageError(f"{what}: use `redline fit {BUILTIN}` or --yes to begin, or name another TARGET")
    notify(what)
    return input("Begin? [y/N] ").strip().lower() in ("y", "yes")


def _again(args: argparse.Namespace, place: Workspace) -> str:
    """Returns the command that resumes a fit, without the options that were fixed when it began."""
    where = ["--cache-dir", str(args.cache_dir)] if args.cache_dir else []
    return shlex.join(["redline", "fit", args.target, "--out", str(place.out), *where, "--resume"])


def _training_options(args: argparse.Namespace) -> TrainingOptions:
    """Returns the options of a new fit. Raises UsageError."""
    given: dict[str, Any] = {"kind": args.kind or KINDS[0]}
    given |= {name: getattr(args, name) for name in _PLANNED if getattr(args, name) is not None}
    if "draft_vocabulary" in given:
        given["vocabulary"] = given.pop("draft_vocabulary")
    return TrainingOptions(**given)


def _place(args: argparse.Namespace, target: str) -> Workspace:
    from models.training.workspace import Workspace

    out: Path = args.out if args.out is not None else Path(f"{target}-{args.kind or KINDS[0]}")
    if not out.name or "\0" in str(out):
        raise UsageError(f"out is {str(out)!r}: give the drafter's folder a name")
    return Workspace(out)


def _check_place(args: argparse.Namespace, place: Workspace) -> None:
    """Raises UsageError if no fit can begin, or be resumed, in this place."""
    if args.resume:
        if not place.started:
            raise UsageError(f"{place.out}: there is no unfinished fit to resume; leave out --resume")
        if given := [name for name in ("prompts", *_PLANNED) if getattr(args, name) is not None]:
            name = given[0].replace("_", "-")
            raise UsageError(f"--{name} was fixed when the fit began: leave it out, or start again without --resume")
    elif place.started:
        advice = f"continue with --resume, or remove {place.path} to start again"
        raise UsageError(f"{place.out}: there is an unfinished fit; {advice}")
    elif place.out.exists() or place.out.is_symlink():
        raise UsageError(f"{place.out} exists: move it away, or give another --out")


def _train(args: argparse.Namespace, options: Options, place: Workspace, wanted: TrainingOptions | None) -> None:
    """Loads the target and trains the drafter until its folder is complete. wanted: options of a new fit."""
    from app.cli.terminal.progress import show_stages
    from app.inference import pair_loader
    from app.inference.measured_reply import learn_times
    from app.inference.options import target_name
    from models.training.pipeline import TrainingPipeline
    from models.training.training_prompts import load_prompts, read_prompts

    prompts = read_prompts(args.prompts) if args.prompts is not None else []
    notify(f"loading {target_name(options)}")
    target = pair_loader.open_target(options)
    if wanted is not None:
        plan = _begin(target, place, wanted, prompts)
    else:
        plan, prompts = _unfinished_plan(args, target, place), load_prompts(place.prompts_file)

    def times_of(folder: Path) -> DrafterTimes:
        trees = plan.kind == "medusa"  # the only kind whose trees are evaluated too
        return learn_times(options, target, folder, trees)

    show_stages(TrainingPipeline(target, place, plan, prompts, times_of).run(), plan.stages_s)


def _begin(target: Loaded, place: Workspace, wanted: TrainingOptions, prompts: list[str]) -> TrainingPlan:
    """Measures this machine, announces what the fit takes, and saves its plan. Raises FitError if it does not fit."""
    from app.inference.machine import memory
    from models import durable_files
    from models.size_text import memory_words
    from models.training import resource_needs
    from models.training.plan_measurement import prepare_training
    from models.training.training_plan import write_plan
    from models.training.training_prompts import save_prompts

    free = resource_needs.FreeResources(durable_files.free_disk_bytes(place.out.absolute().parent), *memory())
    notify("measuring the speed of this machine")
    prepared = prepare_training(target, wanted, prompts, free)
    plan, needed = prepared.plan, prepared.needs
    for line in announcement(prepared):
        notify(line)
    resource_needs.check_disk(needed, free)
    resource_needs.check_memory(needed.memory_bytes, free)
    if free.free_bytes is not None and needed.memory_bytes > free.free_bytes:
        notify(f"only {memory_words(free.free_bytes)} of memory is free: close other programs if it gets slow")
    place.begin()
    save_prompts(place.prompts_file, prompts)
    write_plan(place.plan_file, plan)
    return plan


def announcement(prepared: PreparedTraining) -> list[str]:
    """Returns what will be done, how long it will take, what it needs, and warnings."""
    from app.duration_text import duration_words
    from models.size_text import memory_words

    plan, needed = prepared.plan, prepared.needs
    amount = f"{plan.tokens:,} tokens of replies" if plan.tokens else f"{plan.conversations:,} conversations"
    stages = ", ".join(f"{name} {duration_words(seconds)}" for name, seconds in plan.stages_s.items() if seconds)
    lines = [
        f"fitting a drafter of kind {plan.kind} for {plan.target}: {amount}, {plan.steps:,} steps of training",
        f"takes about {duration_words(sum(plan.stages_s.values()))} ({stages}); Ctrl-C stops it, --resume continues",
        f"needs at most {memory_words(needed.memory_bytes)} of memory and {memory_words(needed.disk_bytes)} of disk",
    ]
    if prepared.left_out:
        lines.append(f"prompts longer than {plan.prompt_tokens} tokens are left out: {prepared.left_out}")
    if prepared.answers_per_prompt >= _MANY_REPLIES:
        often = f"each prompt is answered about {prepared.answers_per_prompt:.0f} times"
        lines.append(f"{often}: more prompts would train and evaluate the drafter better")
    if prepared.max_lost_s > _MUCH_LOST_S:
        lines.append(f"the target is slow here: stopping loses up to {duration_words(prepared.max_lost_s)} of work")
    return lines


def _unfinished_plan(args: argparse.Namespace, target: Loaded, place: Workspace) -> TrainingPlan:
    """Returns the plan of the unfinished fit. Raises UsageError if it is for another target, or of another kind."""
    from models.training.plan_measurement import fingerprint

    plan = place.read_plan()
    if plan.fingerprint != fingerprint(target):
        raise UsageError(f"{place.out}: the unfinished fit is for another target, {plan.target}: name that")
    if args.kind not in (None, plan.kind):
        raise UsageError(f"{place.out}: the unfinished fit is of kind {plan.kind}: leave out --kind, or start again")
    notify(f"resuming a drafter of kind {plan.kind} for {plan.target}")
    return plan


def _report(args: argparse.Namespace, place: Workspace) -> int:
    """Prints the result."""
    report: dict[str, Any] = place.report()
    if args.json:
        print_json(json.dumps(report, indent=1))
    else:
        print("\n".join(summary(report, place.out)))
    return OK


def summary(report: dict[str, Any], out: Path) -> list[str]:
    """Returns a few lines about the result."""

    def row(values: list[float]) -> str:
        return " / ".join(f"{value:.2f}" for value in values)

    best = report["best_draft_length"] or 1
    steps = report["round_s"][str(best)] / report["plain_s"]
    tau = report["tau_by_draft_length"][min(best, len(report["tau_by_draft_length"]) - 1)]
    lines = [
        report["verdict"],
        f"acceptance by position at temperature 0: {row(report['acceptance_by_position'])}",
        f"expected at temperature 1: {row(report['acceptance_by_position_warm'])}",
        f"tau {tau:.2f} with {best} drafted tokens per round, which takes {steps:.2f} plain steps",
        f"the drafter is in {out}, the report in {out / 'report.png'} and {out / 'report.json'}",
    ]
    return [line for line in lines if not line.endswith(": ")]
