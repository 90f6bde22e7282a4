"""A server as a contestant: compared with the target alone, and a verdict with an interval."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from app.bench.server_contestant import bootstrap, compared, drawn_order
from tests.app.bench.bench_runs import row
from tests.app.command import Redline
from tests.app.remote.toy_servers import TEXT, honest, serving


def test_a_server_is_measured_beside_the_others(redline: Redline, toy_folder: Path, tmp_path: Path) -> None:
    prompts, out = tmp_path / "prompts.jsonl", tmp_path / "out.json"
    lines = [{"question_id": i, "category": "toy", "turns": [f"why {i}?"]} for i in range(3)]
    prompts.write_text("\n".join(map(json.dumps, lines)))
    words = ["bench", prompts, "--target", toy_folder, "--drafter", "none", "--max-tokens", "8", "--json", out]
    with serving(honest) as server:
        done = redline(*words, "--against", server.url, "--pause", "0", "--order-seed", "3")
        again = redline(*words, "--against", server.url, "--pause", "0", "--order-seed", "3", "--resume")
    assert done.code == again.code == 0
    name = f"toy at 127.0.0.1:{server.server_port}"
    document = json.loads(out.read_text())
    assert document["contestants"] == ["none", name] and document["environment"]["order_seed"] == 3
    theirs = [run for run in document["runs"] if run["drafter"] == name]
    assert [run["report"]["tokens"] for run in theirs] == [6, 6, 6]
    assert all(run["peer"] and run["matches_plain"] is False and run["arrivals_s"] for run in theirs)
    assert "its text is that of the target alone in 0 of 3" in " ".join(done.out.split())
    sent = [one["messages"][0]["content"] for one in server.asked]
    assert sorted(set(sent)) == ["why 0?", "why 1?", "why 2?"] and TEXT not in sent


@pytest.mark.parametrize(
    ("speedups", "words"),
    [
        ([0.5, 0.5, 0.5], "Redline with lookup decodes 4.00 times as fast as far: 4.00 to 4.00 (95%, over 3 prompts)"),
        ([1.0, 2.0, 4.0], "Redline with lookup and far are too close to call (1.00 times as fast): 0.50 to 2.00"),
    ],
)
def test_the_verdict_has_an_interval_over_prompts(speedups: list[float], words: str) -> None:
    ours = [row("lookup", 2, question, 2.0) for question in range(3)]
    theirs = [row("far", None, i, value, peer=True, matches_plain=i == 0) for i, value in enumerate(speedups)]
    found = compared("lookup", ours, theirs)
    assert found.startswith(words) and found.endswith("its text is that of the target alone in 1 of 3")
    assert "speed is unknown" in compared("lookup", ours, [replace(one, speedup=None) for one in theirs])


def test_the_interval_is_narrower_over_more_prompts_and_holds_the_mean() -> None:
    few, many = bootstrap([1.0, 2.0, 1.5]), bootstrap([1.0, 2.0, 1.5] * 12)
    for mean, low, high in (few, many):
        assert low <= mean <= high
    assert few[0] == pytest.approx(many[0]) and few[2] - few[1] > many[2] - many[1]


def test_the_order_follows_from_its_seed_and_is_another_each_time() -> None:
    names = ["none", "lookup", "far"]
    orders = [tuple(drawn_order(names, 7, number)) for number in range(60)]
    assert orders == [tuple(drawn_order(names, 7, number)) for number in range(60)]
    assert len(set(orders)) == 6 and all(sorted(order) == sorted(names) for order in orders)
