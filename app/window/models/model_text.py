"""Numbers and states of models and downloads in words. No Qt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from app.duration_text import duration_words
from app.window.models.downloads import Download
from models.catalogue.entries import Measured
from models.size_text import size_words

TIMES = "\N{MULTIPLICATION SIGN}"
BADGES = {"good": "Fits", "tight": "Tight", "no": "Too large", "": ""}
ICONS = {"good": "check", "tight": "warning", "no": "unsupported", "": ""}
TONES = {"good": "good", "tight": "warning", "no": "error", "": "text"}
FITS = {"good": "good", "tight": "tight", "refused": "no"}  # from the level of a MemoryFit to the key of a badge
ORIGINS = {"hub": "Hugging Face cache", "lm-studio": "LM Studio", "redline": "Imported", "builtin": "Built in"}
KINDS = {
    "model": "Draft model",
    "draft": "Draft model",
    "eagle3": "EAGLE-3 head",
    "medusa": "Medusa heads",
    "mtp": "MTP head",
    "gemma4-assistant": "Gemma 4 assistant",
    "dflash": "DFlash",
    "gguf": "GGUF file",
}
STATES = {
    "queued": "Waiting",
    "asking": "Connecting",
    "paused": "Paused",
    "discarding": "Deleting",
    "failed": "Download failed",
    "done": "Done",
}
HINTS = {
    "gated": "Accept the terms on its web page, log in, then resume.",
    "token": "Check the name, or log in with a token that has access.",
    "network": "Resume once the network is back. Nothing is lost.",
    "proxy": "Check the proxy, then resume.",
    "offline": "Downloads are switched off.",
    "disk": "Free some disk space, then resume. Nothing is lost.",
    "server": "The server has a problem. Resume later; nothing is lost.",
    "busy": "Wait a moment, then resume.",
    "damaged": "Resume to download the damaged files again.",
}


def speedup(measured: Iterable[Measured]) -> str:
    """Returns a speed-up, such as 2.43x, or the range of several; "" if nobody measured one: it is never estimated."""
    found = sorted(one.speedup for one in measured)
    if not found:
        return ""
    low, high = found[0], found[-1]
    return f"{low:g}{TIMES}" if low == high else f"{low:g} to {high:g}{TIMES}"


def parameters(billions: float | None) -> str:
    """Returns a number of parameters, such as 8.2 B or 596 M; "" if it is unknown."""
    if billions is None:
        return ""
    return f"{billions:.3g} B" if billions >= 1 else f"{billions * 1000:.0f} M"


def bits(number: float | None) -> str:
    """Returns the width of a weight without its scales, such as 4-bit; "" if it is unknown."""
    if number is None:
        return ""
    return "16-bit" if number >= 16 else "8-bit" if number >= 8 else "4-bit"


def size(size_bytes: int | None, estimated: bool = False) -> str:
    """Returns a size, such as 4.62 GB, with a tilde if it is estimated; "" if it is unknown."""
    return f"{'~' if estimated else ''}{size_words(size_bytes)}" if size_bytes else ""


def automatic(spec: str | None) -> str:
    """Returns the name of the drafter that the automatic choice takes, without the prompt lookup that goes with it."""
    if not spec:
        return ""
    named = [part for part in spec.split("+") if part != "lookup"]
    return " + ".join(map(_short, named)) or "lookup"


def _short(spec: str) -> str:
    """Returns the last part of a name or path; the name of the repository for a snapshot in the Hugging Face cache."""
    parts = spec.rstrip("/").split("/")
    if len(parts) > 2 and parts[-2] == "snapshots" and parts[-3].startswith("models--"):
        return parts[-3].rpartition("--")[2]
    return parts[-1] or spec


def joined(parts: Sequence[str]) -> str:
    """Joins the parts that are not empty, on one line."""
    return " · ".join(part for part in parts if part)


def status(download: Download) -> str:
    """Returns the state of a download on one line."""
    if download.state != "running":
        done = f"{download.share:.0%}" if download.state == "paused" and download.done_bytes else ""
        return joined((STATES[download.state], done))
    if download.message:
        return download.message
    done = f"{size_words(download.done_bytes)} of {size_words(download.total_bytes)}"
    return joined((done, pace(download)))


def pace(download: Download) -> str:
    """Returns the speed of a download and the time that is left; "" while they are unknown."""
    speed = "" if download.bytes_per_s is None else f"{size_words(download.bytes_per_s)}/s"
    left = "" if download.eta_s is None else f"{duration_words(download.eta_s)} left"
    return joined((speed, left))
