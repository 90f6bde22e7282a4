"""The options that every command shares, as one frozen value checked where it enters."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.audit.verify_blocks import WHY_NO_TREES
from engine.errors import UsageError
from engine.settings import ACCEPTANCE_RULES, AcceptanceRule, SamplingSettings
from models.builtin import SHIPPED
from models.paths import name_of

BUILTIN = "builtin"
KV_BITS = (8, 4)
AUTO = "auto"


@dataclass(frozen=True)
class Options:
    """target: "builtin" or a model folder. drafters, temperatures: one, or several for the benchmark; a drafter is
    "auto", "none", "lookup", the name of a shipped one or a folder.
    draft_lengths: tokens a round, each or None for auto; one, or several for the benchmark. tree: whether drafters that
    can branch do; the draft length then counts the nodes. exact: whether plain and speculative decoding are to agree to
    the last bit, which trees cannot. context: tokens, or None for what the model declares and this machine can hold.
    reproducible: whether draft length auto goes by the stored costs alone, so that the same request has the same
    rounds, and never by the clock; at temperature 0 it never does.
    kv_bits: of the target's keys and values, None for as the model computes them.
    cache_root: where imported models go, or None for the user's cache directory."""

    target: str = BUILTIN
    drafters: tuple[str, ...] = (AUTO,)
    temperatures: tuple[float, ...] = (0.0,)
    draft_lengths: tuple[int | None, ...] = (None,)
    tree: bool = False
    exact: bool = False
    reproducible: bool = True
    rule: AcceptanceRule = "rejection"
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    max_tokens: int = 512
    context: int | None = None
    kv_bits: int | None = None
    cache_root: Path | None = None

    def __post_init__(self) -> None:
        if self.exact and self.tree:
            raise UsageError(f"{WHY_NO_TREES}: choose one of the two")
        if self.context is not None and self.context < 2:
            raise UsageError(f"context is {self.context}: give at least 2 tokens")
        for temperature in self.temperatures:
            self.settings(temperature).check(self.tree)
        for length in self.draft_lengths:
            replace(self.settings(), draft_length=length).check(self.tree)

    @property
    def drafter(self) -> str:
        return self.drafters[0]

    @property
    def draft_length(self) -> int | None:
        return self.draft_lengths[0]

    @property
    def seed_line(self) -> str:
        """The seed, where with it the same text can be had again."""
        repeats = self.rule == "coupled" or self.drafter == "none" or not self.by_the_clock
        return f"seed {self.seed}" if self.temperatures[0] > 0 and repeats else ""

    @property
    def by_the_clock(self) -> bool:
        """Whether draft length auto corrects costs by how long rounds take. It remembers over replies how drafts came
        out, so no noise may serve two of them."""
        return self.temperatures[0] > 0 and not self.reproducible and self.draft_length is None

    def settings(self, temperature: float | None = None) -> SamplingSettings:
        """SamplingSettings for one reply, at the first temperature unless another is given."""
        return SamplingSettings(
            temperature=self.temperatures[0] if temperature is None else temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
            seed=self.seed,
            acceptance=self.rule,
            draft_length=self.draft_lengths[0],
            exact=self.exact,
            max_tokens=self.max_tokens,
            stop=self.stop,
        )


def target_name(options: Options) -> str:
    """Returns what to call the target."""
    return "SmolLM2-135M-Instruct" if options.target == BUILTIN else name_of(Path(options.target))


def add_options(parser: argparse.ArgumentParser, several: bool = False, max_tokens: int = 512) -> None:
    """Add the shared options. several: --drafter and --temperature may be repeated."""
    again = "; may be repeated" if several else ""
    add = parser.add_argument_group("model and decoding").add_argument
    add("--target", default=BUILTIN, metavar="FOLDER", help="model folder whose text is kept (default: the built-in)")
    add(
        "--drafter",
        action="append",
        metavar="NAME|FOLDER",
        help=f"who proposes: none, lookup, {', '.join(SHIPPED)} (shipped, for the built-in), a folder, or auto, which "
        f"takes lookup and the best for the target that is here (default: auto){again}",
    )
    add("--draft-length", action="append", metavar="N|auto", help=f"tokens proposed a round (default: auto){again}")
    add("--tree", action="store_true", help="draft trees, where drafter and target can; draft length counts the nodes")
    add(
        "--exact",
        action="store_true",
        help="everyone a second time in exact-verify, which is held against plain decoding to the last bit"
        if several
        else "same arithmetic for every token whatever is drafted: agrees to the last bit",
    )
    _add_sampling(add, again)
    add("--stop", action="append", default=[], metavar="TEXT", help="end the reply before this text; may be repeated")
    add("--max-tokens", type=int, default=max_tokens, metavar="N", help=f"longest reply (default: {max_tokens})")
    add("--context", type=int, metavar="N", help="most tokens of prompt and reply (default: all that fit)")
    add("--kv-bits", type=int, choices=KV_BITS, metavar="N", help="bits of a remembered number, 8 or 4 (default: all)")
    add("--cache-dir", type=Path, metavar="DIR", help="where imported models are kept (default: the user's cache)")


def _add_sampling(add: Callable[..., object], again: str) -> None:
    """Adds the sampling settings. again: the note on options that may be repeated."""
    add("--acceptance", choices=ACCEPTANCE_RULES, default="rejection", help="how drafts are judged above temperature 0")
    add("--temperature", action="append", type=float, metavar="T", help=f"0 is greedy (default: 0){again}")
    add("--top-p", type=float, default=1.0, metavar="P", help="keep the likeliest tokens of this mass (1: off)")
    add("--top-k", type=int, default=0, metavar="K", help="keep the K likeliest tokens (0: off)")
    add("--min-p", type=float, default=0.0, metavar="P", help="drop tokens below P times the likeliest (0: off)")
    add("--repetition-penalty", type=float, default=1.0, metavar="R", help="above 1 discourages repeats (1: off)")
    add(
        "--seed",
        type=int,
        metavar="N",
        help="repeats the noise, and so the text on this machine; on any, where the draft length is fixed or "
        "--acceptance is coupled (default: random in chat and race, 0 in bench)",
    )


def read_options(args: argparse.Namespace, random_seed: bool) -> Options:
    """Options from parsed arguments. Raises UsageError for nonsense."""
    values: dict[str, Any] = {
        "target": args.target,
        "drafters": tuple(args.drafter or (AUTO,)),
        "temperatures": tuple(args.temperature or (0.0,)),
        "draft_lengths": tuple(read_draft_length(text) for text in args.draft_length or (AUTO,)),
        "tree": args.tree,
        "exact": args.exact,
        "reproducible": getattr(args, "reproducible", True) or args.seed is not None,
        "rule": args.acceptance,
        "top_p": args.top_p,
        "top_k": args.top_k,
        "min_p": args.min_p,
        "repetition_penalty": args.repetition_penalty,
        "seed": args.seed if args.seed is not None else secrets.randbelow(2**31) if random_seed else 0,
        "stop": tuple(args.stop),
        "max_tokens": args.max_tokens,
        "context": args.context,
        "kv_bits": args.kv_bits,
        "cache_root": args.cache_dir,
    }
    return Options(**values)


def read_draft_length(text: str) -> int | None:
    """Tokens a round, or None for auto. Raises UsageError for what is neither."""
    if text == AUTO:
        return None
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"draft-length is {text!r}: give auto or a whole number, 0 is plain") from None
