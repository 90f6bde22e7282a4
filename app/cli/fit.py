"""`redline fit`: train a drafter for a target on this machine, from text that the target writes itself."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.command_line import INTERRUPTED, OK
from app.inference.options import BUILTIN, Options
from engine.errors import UsageError

if TYPE_CHECKING:
    from models.loader import Loaded
    from models.training.plan_measurement import PreparedTraining
    from models.training.training_plan import TrainingOptions, TrainingPlan
    from models.training.workspace import Workspace

KINDS = ("eagle3", "medusa", "draft")
_DECIDED = (
    *("minutes", "prompts", "conversations", "steps", "draft_vocabulary", "layers", "depths", "reply_tokens"),
    *("learning_rate", "seed"),
)
_OFTEN = 2  # times that a prompt is asked, from where on more prompts would be better
_MUCH_S = 60.0  # to lose
_EXAMPLES = """examples:
  redline fit                                         an EAGLE-3 head for the built-in model, in an hour
  redline fit FOLDER --kind draft --minutes 240       a small draft model for another target
  redline fit FOLDER --prompts QUESTIONS.txt          train on replies to your own prompts
  redline fit FOLDER --out OUT --resume               continue an interrupted fit
  redline chat --target FOLDER --drafter OUT          use it
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "fit",
        description="Train a drafter for a target on this machine. The target writes prompts and replies; the drafter "
        "learns its distribution and is evaluated on unseen text. The result is a folder for --drafter with a report. "
        "Continue an interrupted fit with --resume.",
        epilog=_EXAMPLES,
    )
    add = parser.add_argument
    add("target", nargs="?", default=BUILTIN, metavar="TARGET", help="model folder (default: the built-in)")
    add("--kind", choices=KINDS, help="eagle3 or medusa for a head, draft for a small draft model (default: eagle3)")
    add("--minutes", type=float, metavar="N", help="approximate duration (default: 60)")
    add("--prompts", type=Path, metavar="FILE", help="prompts for the target: one per line, or JSON Lines")
    add("--out", type=Path, metavar="DIR", help="folder of the drafter (default: TARGET-KIND in the current folder)")
    add("--resume", action="store_true", help="continue an interrupted fit")
    add("--json", action="store_true", help="print the report as JSON")
    add = parser.add_argument_group("advanced").add_argument
    add("--conversations", type=int, metavar="N", help="conversations to write instead of --minutes; needs --steps")
    add("--steps", type=int, metavar="N", help="training steps instead of --minutes; needs --conversations")
    usual = "a head 8192, a draft model a quarter, but 16384"
    add("--draft-vocabulary", type=int, metavar="N", help=f"size of the draft vocabulary (default: {usual})")
    add("--layers", type=int, metavar="N", help="layers of a draft model (default: an eighth of the target's)")
    add("--depths", type=int, metavar="N", help="unrolled steps of eagle3 (default: 3), heads of medusa (default: 4)")
    add("--reply-tokens", type=int, metavar="N", help="longest reply (default: 384)")
    add("--learning-rate", type=float, metavar="R", help="highest learning rate")
    add("--seed", type=int, metavar="N", help="random seed (default: 0)")
    add("--cache-dir", type=Path, metavar="DIR", help="folder of imported models (default: the user's cache)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prepare or resume, then work, then tell. Raises RedlineError."""
    if find_spec("matplotlib") is None:
        raise UsageError(
            "fit draws with matplotlib, which Redline.app leaves out: `uv run redline fit`, from the source"
        )
    wish = None if args.resume else _wish(args)
    options = Options(target=args.target, cache_root=args.cache_dir)
    from app.inference.options import target_name

    place = _place(args, target_name(options))
    from models.training.workspace import disk_errors

    with disk_errors(place.out), place.locked():
        if args.resume and place.finished:
            if not place.is_result_of_plan:
                raise UsageError(f"{place.out} is of another fit than the unfinished one: move it away to go on")
            place.publish()  # clears away what a kill at the very end has left
            _tell(f"{place.out} is finished already")
            return _report(args, place)
        _check_place(args, place)
        try:
            _work(args, options, place, wish)
        except KeyboardInterrupt:
            again = f"go on with: {_again(args, place)}" if place.started else "nothing had been begun"
            _tell(f"stopped; {again}")
            return INTERRUPTED
        return _report(args, place)


def _again(args: argparse.Namespace, place: Workspace) -> str:
    """Returns the command that resumes a fit; what was decided when it began is left out."""
    where = ["--cache-dir", str(args.cache_dir)] if args.cache_dir else []
    return shlex.join(["redline", "fit", args.target, "--out", str(place.out), *where, "--resume"])


def _wish(args: argparse.Namespace) -> TrainingOptions:
    """Returns the options of a fit. Raises UsageError."""
    from models.training.training_plan import TrainingOptions

    values: dict[str, Any] = {
        "kind": args.kind or KINDS[0],
        "minutes": args.minutes,
        "conversations": args.conversations,
        "steps": args.steps,
        "vocabulary": args.draft_vocabulary,
        "layers": args.layers,
        "depths": args.depths,
        "reply_tokens": args.reply_tokens,
        "learning_rate": args.learning_rate,
        "seed": args.seed,
    }
    return TrainingOptions(**{name: value for name, value in values.items() if value is not None})


def _place(args: argparse.Namespace, target: str) -> Workspace:
    from models.training.workspace import Workspace

    out: Path = args.out if args.out is not None else Path(f"{target}-{args.kind or KINDS[0]}")
    if not out.name or "\0" in str(out):
        raise UsageError(f"out is {str(out)!r}: give the drafter's folder a name")
    return Workspace(out)


def _check_place(args: argparse.Namespace, place: Workspace) -> None:
    """Whether a fit may begin, or go on, there. Raises UsageError."""
    if args.resume:
        if not place.started:
            raise UsageError(f"{place.out}: there is no unfinished fit to go on with; leave out --resume")
        given = [name for name in _DECIDED if getattr(args, name) is not None]
        if given:
            name = given[0].replace("_", "-")
            raise UsageError(f"{name} was decided when the fit began: leave it out, or start again without --resume")
    elif place.started:
        to_do = f"continue with --resume, or remove {place.path} to start again"
        raise UsageError(f"{place.out}: there is an unfinished fit of it; {to_do}")
    elif place.out.exists() or place.out.is_symlink():
        raise UsageError(f"{place.out} exists: move it away, or give another --out")


def _work(args: argparse.Namespace, options: Options, place: Workspace, wish: TrainingOptions | None) -> None:
    """From loading the target to the finished folder."""
    from app.cli.terminal.progress import show_stages
    from app.inference import pair_loader
    from app.inference.options import target_name
    from models.training.pipeline import TrainingPipeline
    from models.training.training_prompts import load_prompts, read_prompts

    prompts = read_prompts(args.prompts) if args.prompts is not None else []
    _tell(f"loading {target_name(options)}")
    target = pair_loader.open_target(options)
    if wish is not None:
        plan = _begin(target, place, wish, prompts)
    else:
        plan, prompts = _go_on(args, target, place), load_prompts(place.prompts_file)

    def measure(folder: Path) -> Any:
        trees = plan.kind == "medusa"  # the only kind that is judged by its trees too
        return pair_loader.measure_costs(target, pair_loader.open_drafter(str(folder), target, trees))

    show_stages(TrainingPipeline(target, place, plan, prompts, measure).run(), plan.stages_s)


def _begin(target: Loaded, place: Workspace, wish: TrainingOptions, prompts: list[str]) -> TrainingPlan:
    """Measure, say what it will take, and write the plan down. Raises FitError when it does not fit here."""
    from app.inference.machine import memory
    from models.size_text import memory_words
    from models.training import resource_needs
    from models.training.plan_measurement import prepare_training
    from models.training.training_plan import write_plan
    from models.training.training_prompts import save_prompts

    room = resource_needs.FreeResources(resource_needs.free_disk_bytes(place.out.absolute().parent), *memory())
    _tell("measuring what this machine does in a second")
    prepared = prepare_training(target, wish, prompts, room)
    plan, needed = prepared.plan, prepared.needs
    for line in announcement(prepared):
        _tell(line)
    resource_needs.check_disk(needed, room)
    resource_needs.check_memory(needed.memory_bytes, room)
    if room.free_bytes is not None and needed.memory_bytes > room.free_bytes:
        _tell(f"only {memory_words(room.free_bytes)} of memory are free: close other programs if it gets slow")
    place.begin()
    save_prompts(place.prompts_file, prompts)
    write_plan(place.plan_file, plan)
    return plan


def announcement(prepared: PreparedTraining) -> list[str]:
    """What will be done, how long it will take, what it needs, and what of it may not please."""
    from app.cli.terminal.progress import duration
    from models.size_text import memory_words

    plan, needed = prepared.plan, prepared.needs
    amount = f"{plan.tokens:,} tokens of replies" if plan.tokens else f"{plan.conversations:,} conversations"
    stages = ", ".join(f"{name} {duration(seconds)}" for name, seconds in plan.stages_s.items() if seconds)
    lines = [
        f"fitting a drafter of kind {plan.kind} for {plan.target}: {amount}, {plan.steps:,} steps of training",
        f"takes about {duration(sum(plan.stages_s.values()))} ({stages}); Ctrl-C stops it, --resume goes on",
        f"needs at most {memory_words(needed.memory_bytes)} of memory and {memory_words(needed.disk_bytes)} of disk",
    ]
    if prepared.left_out:
        lines.append(f"prompts longer than {plan.prompt_tokens} tokens are left out: {prepared.left_out}")
    if prepared.answers_per_prompt >= _OFTEN:
        often = f"each prompt is answered about {prepared.answers_per_prompt:.0f} times"
        lines.append(f"{often}: more prompts would teach the drafter more, and judge it by more")
    if prepared.max_lost_s > _MUCH_S:
        lines.append(f"the target is slow here: stopping loses up to {duration(prepared.max_lost_s)} of work")
    return lines


def _go_on(args: argparse.Namespace, target: Loaded, place: Workspace) -> TrainingPlan:
    """The plan of the unfinished fit. Raises UsageError: it is another target's, or of another kind."""
    from models.training.plan_measurement import fingerprint

    plan = place.read_plan()
    if plan.fingerprint != fingerprint(target):
        raise UsageError(f"{place.out}: the unfinished fit is for another target, {plan.target}: name that")
    if args.kind not in (None, plan.kind):
        raise UsageError(f"{place.out}: the unfinished fit is of kind {plan.kind}: leave out --kind, or start again")
    _tell(f"going on with a drafter of kind {plan.kind} for {plan.target}")
    return plan


def _report(args: argparse.Namespace, place: Workspace) -> int:
    """What came of it, on standard output."""
    report: dict[str, Any] = place.report()
    if args.json:
        print(json.dumps(report, indent=1))
        return OK
    for line in summary(report, place.out):
        print(line)
    return OK


def summary(report: dict[str, Any], out: Path) -> list[str]:
    """A few lines for people."""

    def row(values: list[float]) -> str:
        return " / ".join(f"{value:.2f}" for value in values)

    best, share = report["best_draft_length"] or 1, report["draft_share_of_a_pass"]
    tau = report["tau_by_draft_length"][min(best, len(report["tau_by_draft_length"]) - 1)]
    lines = [
        report["verdict"],
        f"acceptance by position at temperature 0: {row(report['acceptance_by_position'])}",
        f"expected at temperature 1: {row(report['acceptance_by_position_warm'])}",
        f"tau {tau:.2f} with {best} drafted tokens per round; a draft step costs {share:.0%} of a pass of the target",
        f"the drafter is in {out}, the report in {out / 'report.png'} and {out / 'report.json'}",
    ]
    return [line for line in lines if not line.endswith(": ")]


def _tell(text: str) -> None:
    print(f"redline: {text}", file=sys.stderr, flush=True)
