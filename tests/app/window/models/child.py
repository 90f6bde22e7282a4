"""Stands in for `redline models`: python -S child.py FOLDER WORD... [--json]. Needs nothing but Python.

An answer is FOLDER/WORDS.json, a download FOLDER/pull NAME.jsonl, with dashes for slashes. FOLDER/complaint, if it
exists, is printed on standard error, and answers then have exit status 1. In a download, {"wait": true} waits for
SIGTERM and then pauses, and {"exit": N} ends without a last event.
"""

import json
import os
import signal
import sys
from pathlib import Path


def main(folder: Path, words: list[str]) -> int:
    with (folder / "calls").open("a") as calls:
        calls.write(" ".join(words) + "\n")
    name = " ".join(words).replace("/", "-")
    if words[:1] == ["pull"] and "--discard" in words:
        say({"type": "Discarded", "repo": words[1], "freed_bytes": 1})
        return 0
    if words[:1] == ["pull"]:
        return pull(folder / f"{name}.jsonl", words[1])
    answer = folder / f"{name}.json"
    complaint = folder / "complaint"
    if complaint.exists():
        print(complaint.read_text(), file=sys.stderr)
    if answer.exists():
        print(answer.read_text())
        return int(complaint.exists())
    print(f"redline: nothing is known of {name}", file=sys.stderr)
    return 1


def pull(path: Path, repo: str) -> int:
    paused: dict[str, object] = {"type": "Paused", "repo": repo, "done_bytes": 0, "total_bytes": 0}

    def pause(*_: object) -> None:
        say(paused)
        os._exit(130)

    signal.signal(signal.SIGTERM, pause)
    event: dict[str, object] = {}
    for line in path.read_text().splitlines():
        event = json.loads(line)
        if "exit" in event:
            return int(str(event["exit"]))
        if "wait" in event:
            signal.pause()
        else:
            say(event)
            if event["type"] == "DownloadProgress":
                paused.update(done_bytes=event["done_bytes"], total_bytes=event["total_bytes"])
    return 1 if event.get("type") == "Failed" else 0


def say(event: dict[str, object]) -> None:
    os.write(1, f"{json.dumps(event)}\n".encode())  # print is not reentrant, and a signal may interrupt it


sys.exit(main(Path(sys.argv[1]), [word for word in sys.argv[2:] if word != "--json"]))
