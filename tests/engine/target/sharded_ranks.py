"""Toy targets split over processes on this machine, and how their replies compare with those of one process.

python -m tests.engine.target.sharded_ranks RANKS ARCHITECTURE[,...] [DRAFTER...]

Prints a line for each architecture; the exit code is 1 if one differs. Without drafters all that the target can have.
ARCHITECTURE/pipeline gives each rank some of the layers.
"""

import copy
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any
from unittest import mock

import mlx.core as mx

from engine.drafters import Drafter
from engine.drafters.draft_model import DraftModel
from engine.drafters.eagle3 import Eagle3
from engine.drafters.prompt_lookup import PromptLookup
from engine.errors import ModelError
from engine.session import Session
from engine.target.cached_model import CachedModel
from engine.target.sharded_target import Leader, Message, follow
from engine.target.tree_trial import why_no_trees
from models.corrections import correct, corrected_classes, windows_of
from models.parallel import pipeline, shard
from tests.engine.conversations import CONTEXT, LONG, SHAPED, SHORT, TURN, Reply, answer, events_of, read, same
from tests.engine.drafters.eagles import taught
from tests.engine.fakes import ByteTokenizer, nearby
from tests.engine.replies import PROMPT, earlier_replies, reply
from tests.toys.architecture_common import COMMON, FULL, SLIDING
from tests.toys.architecture_configs import SPECIFIC
from tests.toys.architectures import build

Make = Callable[[], Drafter | None]
KINDS = {"num_hidden_layers": 4, "layer_types": [SLIDING, FULL] * 2}  # so that 2 ranks of a pipeline have both
WINDOWED = "qwen2 with windows"
READY = "ready\n"
LONGER = {"llama", "qwen3_5"}  # whose prompts take more than one chunk too


def use_heads_for(ranks: int) -> None:
    """Gives the toys of this process numbers of heads that so many ranks divide."""
    SPECIFIC["step3p5"]["attention_other_setting"]["num_attention_groups"] = 2
    if ranks <= 2:
        return
    COMMON.update(num_attention_heads=8, num_key_value_heads=4, linear_num_key_heads=4, linear_num_value_heads=8)
    SPECIFIC["deepseek_v41"] |= {"o_groups": 4, "index_n_heads": 4}
    SPECIFIC["minimax_m3_vl"] |= {"index_n_heads": 4}
    SPECIFIC["step3p5"]["num_attention_groups"] = 4
    SPECIFIC["step3p5"]["attention_other_setting"] |= {"num_attention_heads": 8, "num_attention_groups": 4}


def reserve_ports(count: int) -> list[socket.socket]:
    """Sockets that keep a port each from every program that does not share it. MLX's ring shares its ports, so it may
    listen there meanwhile."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            one.setsockopt(socket.SOL_SOCKET, option, 1)
        one.bind(("127.0.0.1", 0))
    return sockets


def join(rank: int, ring: list[list[str]]) -> mx.distributed.Group:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(ring, file)
        file.flush()
        os.environ |= {"MLX_RANK": str(rank), "MLX_HOSTFILE": file.name}
        return mx.distributed.init(strict=True, backend="ring")


def windowed() -> Any:
    """A Qwen2 of which every other layer has a window, as Redline corrects it."""
    window = {"use_sliding_window": True, "sliding_window": 12, "max_position_embeddings": 10_000}
    config = {"model_type": "qwen2", **window, **KINDS}
    network = build("qwen2", num_hidden_layers=4)
    correct(network, config, windows_of(config))
    network.__class__ = corrected_classes(config)[0]
    return network


def whole(name: str) -> Any:
    """The network of an architecture, or of ARCHITECTURE/pipeline."""
    architecture, _, way = name.partition("/")
    if architecture == WINDOWED:
        return windowed()
    if not way:
        return build(architecture)
    config = copy.deepcopy(SPECIFIC.get(architecture, {}))
    if architecture in ("bailing_hybrid", "ministral3", "qwen3_5", "qwen3_next"):
        config |= KINDS
    elif architecture == "kimi_k3":
        config["linear_attn_config"]["kda_layers"] = [1, 3]
    with mock.patch.dict(SPECIFIC, {architecture: config}):
        return build(architecture)


def sharded(name: str, group: mx.distributed.Group) -> CachedModel:
    network = whole(name)
    (pipeline if "/" in name else shard)(network, group)
    return CachedModel(network)


# --- rank 0 -----------------------------------------------------------------------------------------


def drafters(whole: Any, kinds: list[str], reads_states: bool) -> dict[str, Make]:
    """How to make each drafter of these kinds that the target can have, all for none; each call makes a new one."""
    made: dict[str, Make] = {
        "none": lambda: None,
        "lookup": lambda: PromptLookup(1, earlier_replies(64)),
        "draft model": lambda: DraftModel(CachedModel(nearby(whole, 0.05)), 64),
    }
    trees = why_no_trees(CachedModel(whole)) is None
    if trees:
        made["lookup trees"] = lambda: PromptLookup(1, earlier_replies(64), trees=True)
    if not reads_states or (kinds and not any("eagle3" in kind for kind in kinds)):
        return {kind: make for kind, make in made.items() if not kinds or kind in kinds}
    try:
        head = taught(whole, [*PROMPT, *reply(whole, tokens=40)[0]])
    except (ModelError, ValueError):  # states that a head of this size cannot read
        return made
    made["eagle3"] = lambda: Eagle3(head, CachedModel(whole))
    if trees:
        made["eagle3 trees"] = lambda: Eagle3(head, CachedModel(whole), True)
    return {kind: make for kind, make in made.items() if not kinds or kind in kinds}


def conversation(target: CachedModel, make: Make, settings: Any, prompt: list[int]) -> Iterator[Reply]:
    """A reply, the next turn, an edit, a reply that a stop string cuts, one that is cancelled, one walked away from,
    and one that is decoded exactly."""
    s, d = Session(target, ByteTokenizer(), CONTEXT), make()
    first = answer(s, prompt, settings, d)
    yield first
    second = [*prompt, *first.ids, *TURN]
    yield answer(s, second, settings, d)
    yield answer(s, [*second[:-3], 40, 41], settings, d)
    stop = next((first.text[i : i + 2] for i in range(3, len(first.text) - 2) if first.text[i : i + 2].isalpha()), "zz")
    yield answer(s, prompt, replace(settings, stop=(stop,)), d)
    longer, stopped = replace(settings, max_tokens=40), lambda: len(s.tokens) > len(prompt) + 9
    yield read(list(events_of(s, [*prompt, 11], longer, d, cancelled=stopped)))
    events = events_of(s, [*prompt, 12], settings, d)
    list(islice(events, 3))
    events.close()
    yield answer(s, [*prompt, 12, 13], settings, d)
    if d is None or not d.traits.branches:
        yield answer(s, prompt, replace(settings, exact=True), d)


def compare(name: str, target: CachedModel, kinds: list[str]) -> tuple[int, list[str]]:
    """How many replies were compared, and what differs. kinds: of drafters, all for none."""
    one, count, wrong = whole(name), 0, []
    if (mine := why_no_trees(target)) != (theirs := why_no_trees(CachedModel(one))):
        wrong.append(f"trees: {mine} and {theirs}")
    for kind, make in drafters(one, kinds, "/" not in name).items():
        for settings in (SHORT, SHAPED):
            for prompt in [PROMPT, *([LONG] if name in LONGER else [])]:
                pairs = zip(
                    conversation(target, make, settings, prompt),
                    conversation(CachedModel(one), make, settings, prompt),
                    strict=True,
                )
                for turn, (mine_, theirs_) in enumerate(pairs):
                    count += 1
                    try:
                        same(mine_, theirs_)
                    except AssertionError:
                        wrong.append(f"{kind}, temperature {settings.temperature}, turn {turn}")
    return count, wrong


def lead(ranks: int, names: list[str], kinds: list[str]) -> int:
    reserved = reserve_ports(ranks)
    ring = [[f"127.0.0.1:{one.getsockname()[1]}"] for one in reserved]
    use_heads_for(ranks)
    command = [sys.executable, "-m", "tests.engine.target.sharded_ranks", "follow", json.dumps(ring)]
    followers = [
        subprocess.Popen([*command, str(rank), *names], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for rank in range(1, ranks)
    ]
    for follower in followers:  # MLX gives up on a rank that does not listen after half a minute
        assert follower.stdout is not None and follower.stdout.readline() == READY
    group, failed = join(0, ring), False

    def tell(message: Message) -> None:
        for follower in followers:
            assert follower.stdin is not None
            follower.stdin.write(f"{json.dumps(message)}\n")
            follower.stdin.flush()

    for name in names:
        target = sharded(name, group)
        leader = Leader(target, group, tell)
        count, wrong = compare(name, target, kinds)
        tell({})
        print(json.dumps({"name": name, "replies": count, "passes": leader.passes, "wrong": wrong}), flush=True)
        failed = failed or bool(wrong)
    return int(failed) | max(follower.wait() for follower in followers)


def follow_all(ring: list[list[str]], rank: int, names: list[str]) -> None:
    use_heads_for(len(ring))
    print(READY, end="", flush=True)
    group = join(rank, ring)
    for name in names:
        follow(sharded(name, group), group, iter(lambda: json.loads(sys.stdin.readline()), {}))


if __name__ == "__main__":
    if sys.argv[1] == "follow":
        follow_all(json.loads(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
    else:
        sys.exit(lead(int(sys.argv[1]), sys.argv[2].split(","), sys.argv[3:]))
