"""The report of `redline doctor --metal` as Markdown: what a reader of an issue wants to see first."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MIB = 1024**2


def markdown(report: Mapping[str, Any]) -> str:
    """Returns the report as Markdown. A section that failed says why."""
    parts = ["# Redline on this GPU", *_environment(report["environment"])]
    for title, key, text in (
        ("What a pass costs", "pass_costs", _pass_costs),
        ("What its kernels cost", "kernel_costs", _kernel_costs),
        ("Memory during a plain reply", "memory", _memory),
        ("Replies against plain decoding", "identity", _identity),
        ("Architectures", "sweep", _sweep),
    ):
        section = report[key]
        failed = isinstance(section, dict) and "error" in section
        parts += ["", f"## {title} ({report['seconds'][key]:.0f} s)", ""]
        parts += [f"Failed: {section['error']}"] if failed else text(section)
    if report["environment"].get("library") != "cuda":
        parts += ["", "## Code that only runs on Metal", "", *_unseen(report["unseen_on_a_cpu"])]
    return "\n".join(parts) + "\n"


def table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> list[str]:
    """Returns the lines of a table."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(map(str, line))} |" for line in lines]


def _environment(found: Mapping[str, Any]) -> list[str]:
    if "error" in found:
        return [f"Failed: {found['error']}"]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    gpu = [found["gpu"][name] for name in ("device_name", "architecture") if name in found["gpu"]] or ["no GPU"]
    parts = dict.fromkeys((found["processor"], *gpu, found["platform"]))  # on a Mac the first two are the same
    return [f"{', '.join(parts)}; {versions}; {found['target']} in {found['dtype']}."]


def _pass_costs(costs: Mapping[str, Any]) -> list[str]:
    narrow = costs["pass_s"][1]
    rows = [(width, f"{1000 * s:.1f}", f"{s / narrow:.2f}") for width, s in costs["pass_s"].items()]
    return table(("rows", "ms", "of one row"), rows)


def _kernel_costs(costs: Mapping[str, Any]) -> list[str]:
    product, attention = costs["product_4_bit_s"], costs["attention_s_by_query_heads_per_kv_head"]
    curves = [product, *attention.values()]
    head = ("rows", "4-bit product", *(f"attention, {shared} query heads a KV head" for shared in attention))
    return table(head, [(width, *(f"{curve[width] / curve[1]:.2f}" for curve in curves)) for width in product])


def _memory(samples: Sequence[Mapping[str, int]]) -> list[str]:
    names = ("active_bytes", "cache_bytes", "peak_bytes")
    rows = [
        (one["tokens"], *(f"{one[name] / MIB:.0f}" for name in names)) for one in samples[:: len(samples) // 8 or 1]
    ]
    return table(("tokens", "in use, MiB", "freed buffers, MiB", "most, MiB"), rows)


def _identity(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    def verdicts(one: Mapping[str, Any]) -> str:
        return ", ".join(f"{count} {verdict}" for verdict, count in one["verdicts"].items()) or "not reached in time"

    lines = [(one["drafter"], one["draft_length"], verdicts(one), one["waits_a_round"] or "") for one in rows]
    return table(("drafter", "draft length", "greedy and coupled replies", "max waits per round"), lines)


def _sweep(found: Mapping[str, Any]) -> list[str]:
    counts = Counter(row["verdict"] for row in found["rows"])
    first = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    others = [(row["name"], row["verdict"], row["reason"]) for row in found["rows"] if row["verdict"] != "exact"]
    missing = [f"Not reached in time: {', '.join(found['not_reached'])}.", ""] if found["not_reached"] else []
    return [f"{first}, over {found['tokens']} tokens each.", "", *missing, *table(("name", "verdict", "why"), others)]


def _unseen(kernels: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = [(one["name"], one["what"], ", ".join(one["architectures"]) or "all") for one in kernels]
    return table(("where", "on Metal", "architectures"), rows)
