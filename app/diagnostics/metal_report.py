"""The report of `redline doctor --metal`: costs, memory and identity of the built-in pair, and the sweep over all
architectures, as values for JSON and as Markdown. It names no user, host or folder.

Each section is measured by itself. One that fails says why and does not keep the others from running.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import mlx.core as mx

from app.diagnostics.architecture_sweep import sweep
from app.diagnostics.kernel_costs import ROWS, SHARED_HEADS, attention_times, pass_times, product_times
from app.diagnostics.unseen_kernels import UNSEEN
from app.inference import environment, pair_loader
from app.inference.loaded_pair import LoadedPair, open_target, reason_of
from app.inference.measured_reply import PROMPTS
from app.inference.options import Options
from engine import backend
from engine.audit.reply_check import compare_replies
from engine.errors import ModelError
from engine.events import Round
from engine.policy.fixed import FixedLength
from engine.sampling import Sampler
from engine.session import Prompt
from engine.settings import SamplingSettings

FORMAT = 1
SAMPLINGS = (SamplingSettings(), SamplingSettings(temperature=1))
DRAFT_LENGTHS, REPLY_TOKENS = (1, 4, 8), 48
MEMORY_TOKENS = 1024
# What the report keeps of what MLX says about the GPU. The rest may identify the machine, as the UUID does.
KEPT = ("architecture", "device_name", "memory_size", "max_recommended_working_set_size", "total_memory")
# By when of all its time a section should be done; what it has not reached by then is left out, and the report says so.
ENDS = {"environment": 0.1, "pass_costs": 0.35, "kernel_costs": 0.45, "memory": 0.55, "identity": 0.7, "sweep": 1.0}


class MetalReport:
    """minutes: that all of it may take, by ENDS. notify: told what is measured. options: name the target. drafters: to
    be compared."""

    def __init__(
        self,
        minutes: float,
        notify: Callable[[str], None],
        options: Options = Options(),  # noqa: B008  frozen
        drafters: Sequence[str] = ("lookup", "eagle3"),
    ) -> None:
        self._options, self._drafters = options, drafters
        self._began_s, self._most_s = time.monotonic(), 60 * minutes
        self._section = "environment"
        self._notify = notify
        self._pair: LoadedPair | None = None

    def measure(self) -> dict[str, Any]:
        """Returns the report; a section that failed is {"error": why}."""
        report: dict[str, Any] = {"format": FORMAT, "unseen_on_a_cpu": [asdict(kernel) for kernel in UNSEEN]}
        sections: dict[str, Callable[[], Any]] = {
            "environment": self._environment,
            "pass_costs": self._pass_costs,
            "kernel_costs": self._kernel_costs,
            "memory": self._memory,
            "identity": self._identity,
            "sweep": lambda: sweep(self._left_s, self._notify),
        }
        for name, section in sections.items():
            self._section = name
            self._notify(f"measuring: {name.replace('_', ' ')}")
            began_s = time.monotonic()
            try:
                report[name] = section()
            except Exception as error:  # noqa: BLE001  broad: what fails on a machine is what the report is for
                report[name] = {"error": reason_of(error)}
            report.setdefault("seconds", {})[name] = round(time.monotonic() - began_s, 1)
        return report

    @property
    def _left_s(self) -> float:
        """Seconds that are left to this section."""
        return self._began_s + ENDS[self._section] * self._most_s - time.monotonic()

    def _stop_if_late(self) -> None:
        if self._left_s < 0:
            raise ModelError("it ran out of time: close other programs, or raise --minutes")

    def _open(self) -> LoadedPair:
        if self._pair is None:
            self._pair = open_target(self._options)
        return self._pair

    def _environment(self) -> dict[str, Any]:
        gpu = backend.describe().device == "gpu"
        device = mx.device_info() if gpu else {}
        return {
            **environment.describe(self._options, self._open().target),
            "gpu": {name: device[name] for name in KEPT if name in device},
        }

    def _pass_costs(self) -> dict[str, Any]:
        """Seconds of passes of the built-in target by rows, after 64 tokens."""
        return {"pass_s": pass_times(self._open().target.model, ROWS, self._stop_if_late)}

    def _kernel_costs(self) -> dict[str, Any]:
        attention = {str(shared): attention_times(shared, ROWS) for shared in SHARED_HEADS}
        return {"product_4_bit_s": product_times(ROWS), "attention_s_by_query_heads_per_kv_head": attention}

    def _memory(self) -> list[dict[str, int]]:
        """Bytes in use, in freed buffers and at most, along one plain reply: they must not grow with it."""
        pair, samples, tokens = self._open(), list[dict[str, int]](), 0
        pair.session.forget()
        mx.reset_peak_memory()
        prompt = pair.prompt_ids([{"role": "user", "content": PROMPTS[-1]}], SamplingSettings())
        settings = SamplingSettings(temperature=1, seed=1, max_tokens=MEMORY_TOKENS)
        for event in pair.session.continue_tokens(Prompt(prompt), settings, None, FixedLength(0)):
            if isinstance(event, Round):
                tokens += len(event.tokens)
                if tokens % 32 == 1:
                    samples.append(
                        {
                            "tokens": tokens,
                            "active_bytes": mx.get_active_memory(),
                            "cache_bytes": mx.get_cache_memory(),
                            "peak_bytes": mx.get_peak_memory(),
                        }
                    )
                if self._left_s < 0:
                    break
        return samples

    def _identity(self) -> list[dict[str, Any]]:
        """The built-in pair's replies, greedy and coupled, against plain decoding, by drafter and draft length."""
        pair, found = self._open(), list[dict[str, Any]]()
        for spec in self._drafters:
            drafter = pair_loader.open_drafter(spec, pair.target)
            for length in DRAFT_LENGTHS:
                rows = list(self._compared(pair, drafter, length))
                waits = max((waits for _, waits in rows), default=0)
                verdicts = [verdict for verdict, _ in rows]
                counts = {verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))}
                found.append(
                    {"drafter": drafter.name, "draft_length": length, "waits_a_round": waits, "verdicts": counts}
                )
        return found

    def _compared(self, pair: LoadedPair, drafter: pair_loader.NamedDrafter, length: int) -> Iterator[tuple[str, int]]:
        """Yields the verdict on each reply, as long as there is time, and the most waits of a round."""
        target = pair.target.model
        for words in PROMPTS:
            if self._left_s < 0:
                return
            prompt = pair.prompt_ids([{"role": "user", "content": words}], SamplingSettings())
            for sampling in SAMPLINGS:
                settings = replace(sampling, seed=1, acceptance="coupled", max_tokens=REPLY_TOKENS)
                plain, rounds = (
                    [
                        e
                        for e in pair.session.continue_tokens(Prompt(prompt), settings, one, FixedLength(n))
                        if isinstance(e, Round)
                    ]
                    for one, n in ((None, 0), (drafter.drafter, length))
                )
                ids = [token for round_ in plain for token in round_.tokens]
                sampler = Sampler(settings, target.vocabulary)
                receipt = compare_replies(target, sampler, prompt, ids, rounds)
                pair.session.forget()
                verdict = "identical" if receipt is None else receipt.verdict
                yield verdict, max(round_.waits for round_ in rounds)


def has_failed(report: dict[str, Any]) -> bool:
    """Whether a section failed, or a reply or an architecture differs from plain decoding by more than a near-tie."""
    sections = list(report.values())
    if any(isinstance(section, dict) and "error" in section for section in sections):
        return True
    verdicts = [row["verdict"] for row in report["sweep"]["rows"]]
    return any("failure" in row["verdicts"] for row in report["identity"]) or not {"differs", "crashed"}.isdisjoint(
        verdicts
    )
