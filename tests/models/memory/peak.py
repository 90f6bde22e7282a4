"""What a pair was said to take before it was loaded, and takes: `python -m tests.models.memory.peak DRAFTER CONTEXT`.

Loads the built-in model and the drafter, fills the context but for a reply of REPLY tokens, answers, and prints both in
bytes. A process of its own for each pair, as its highest resident memory is told (on Metal with MLX's own peak).
"""

import json
import resource
import sys
from pathlib import Path

import mlx.core as mx

from app.inference import memory_check, pair_loader
from app.inference.options import Options
from app.inference.pair_resolution import target_folder
from engine.policy.fixed import FixedLength
from engine.session import Prompt
from engine.settings import SamplingSettings
from models.model_folder import check_folder

REPLY = 48


def main(drafter: str, context: int) -> None:
    sampling = SamplingSettings(max_tokens=REPLY, draft_length=4)
    options = Options(drafters=(drafter,), sampling=sampling, context=context)
    said = memory_check.check_memory(check_folder(target_folder(options)), options).needed
    target = pair_loader.open_target(options)
    used = pair_loader.open_drafter(drafter, target)
    session, *_ = pair_loader.open_session(target, options)
    text = "word"
    while len(target.tokenizer.encode(text + " word" * 32)) <= context - REPLY - 64:
        text += " word" * 32
    question = [{"role": "user", "content": text}]
    prompt = Prompt(target.tokenizer.chat(question))
    for _ in session.continue_tokens(prompt, options.sampling, used.drafter, FixedLength(4)):
        pass
    print(json.dumps([said, _peak_resident_bytes() + (mx.get_peak_memory() if mx.metal.is_available() else 0)]))


def _peak_resident_bytes() -> int:
    """Returns the highest resident memory of this process.

    Linux keeps `ru_maxrss` over fork and exec, so a child of a large process starts with its parent's peak there;
    `VmHWM` counts this program alone.
    """
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
