"""What a pair really takes, beside what was said before it was loaded.

    python -m tests.models.memory.peak [--target FOLDER] [--drafter NAME]... [--context N]...

Every line is a process of its own that loads the pair, fills the context but for a reply of REPLY tokens, answers, and
tells its highest resident memory (and on Metal MLX's own peak, which is not part of it).
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from app.inference.options import BUILTIN, Options
from engine.settings import SamplingSettings

REPLY = 48
CONTEXTS = (512, 2048, 8192)
DRAFTERS = ("none", "lookup+eagle3")
WORDS = "the quick brown fox jumps over a lazy dog and then tells everybody who asks how it was done in so little time "


@dataclass(frozen=True)
class Peak:
    """In bytes."""

    drafter: str
    context: int
    said: int
    measured: int

    @property
    def ratio(self) -> float:
        """What was said, of what it was."""
        return self.said / self.measured


def peak(drafter: str, context: int, target: str = BUILTIN) -> Peak:
    """Both, from a process of its own. Raises CalledProcessError where it fails."""
    child = [sys.executable, "-m", "tests.models.memory.peak", "--child", target, drafter, str(context)]
    told = subprocess.run(child, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3])
    said, measured = json.loads(told.stdout.splitlines()[-1])
    return Peak(drafter, context, said, measured)


def take(target: str, drafter: str, context: int) -> tuple[int, int]:
    """Bytes said before anything is loaded, and taken at most by this process after a full context."""
    import engine  # noqa: F401  before MLX
    from app.inference import memory_check, pair_loader

    sampling = SamplingSettings(max_tokens=REPLY)
    options = Options(target, (drafter,), draft_lengths=(4,), sampling=sampling, context=context)
    folder = pair_loader.check_folder(pair_loader.target_folder(options))  # type: ignore[attr-defined]
    said = memory_check.check_memory(folder, options).needed
    opened = pair_loader.open_target(options)
    used = pair_loader.open_drafter(drafter, opened)
    session, *_ = pair_loader.open_session(opened, options)
    prompt = [{"role": "user", "content": _text(opened.tokenizer.encode, context - REPLY - 64)}]
    for _ in session.reply(prompt, options.settings(), used.drafter, pair_loader.make_policy(used, 4, None)):
        pass
    return said, _highest()


def _text(encode: object, tokens: int) -> str:
    """Of about so many tokens, no more."""
    words = (WORDS * (tokens // 10)).split()
    low, high = 0, len(words)
    while high - low > 1:
        middle = (low + high) // 2
        if len(encode(" ".join(words[:middle]))) <= tokens:  # type: ignore[operator]
            low = middle
        else:
            high = middle
    return " ".join(words[:low])


def _highest() -> int:
    import mlx.core as mx

    return _peak_resident_bytes() + (mx.get_peak_memory() if mx.metal.is_available() else 0)


def _peak_resident_bytes() -> int:
    """Returns the highest resident memory of this process.

    Linux keeps `ru_maxrss` over fork and exec, so a child of a large process starts with its parent's peak there;
    `VmHWM` counts this program alone.
    """
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default=BUILTIN)
    parser.add_argument("--drafter", action="append")
    parser.add_argument("--context", action="append", type=int)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(take(args.child[0], args.child[1], int(args.child[2]))))
        return
    print(f"{'drafter':16} {'context':>8} {'said MB':>8} {'peak MB':>8}  ratio")
    for drafter in args.drafter or DRAFTERS:
        for context in args.context or CONTEXTS:
            found = peak(drafter, context, args.target)
            megabytes = f"{found.said / 2**20:8.0f} {found.measured / 2**20:8.0f}"
            print(f"{drafter:16} {context:8} {megabytes}  {found.ratio:.3f}", flush=True)


if __name__ == "__main__":
    main()
