"""`redline models pull` for people: lines in a pipe, bars on a terminal, and what was meant."""

import io
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from msgspec import structs
from rich.console import Console

from app.cli.models.pull import Bars, HubReference, Lines, event_text, read_reference, with_suggestion
from app.duration_text import ago_words, duration_words
from app.protocol.download_events import (
    Done,
    DownloadEvent,
    DownloadProgress,
    Fetched,
    Planned,
    PlannedFile,
    Resolving,
    Verifying,
    Waiting,
)
from engine.errors import HubError, UsageError
from models.catalogue.entries import Catalogue, read_catalogue
from models.hub.download_events import Discarded
from tests.app.command import Redline
from tests.models.hub.loopback import Loopback
from tests.models.hub.tiny import NAME, tiny

HUB = "https://hub.example"
SHARD = "model-00002-of-00003.safetensors"
GB = 1_000_000_000


@pytest.fixture
def pull(models: Redline, monkeypatch: pytest.MonkeyPatch) -> Redline:
    """Runs `redline models pull` with these words; how far it is, is not said meanwhile."""
    monkeypatch.setattr("app.cli.models.pull._LINE_EVERY_S", 1e9)
    return partial(models, "pull")


# --- in a pipe ------------------------------------------------------------------------------------


def test_a_pipe_gets_a_line_for_what_matters(pull: Redline, server: Loopback) -> None:
    commit = server.repos[NAME].commit[:8]
    done = pull(NAME)
    plan, ready, path, to_do = done.out.splitlines()
    assert done.code == 0 and plan == f"{NAME} at {commit}: 8 files, 481 kB"
    assert re.fullmatch(r"Verified and ready in .+, .+/s", ready)
    assert Path(path.strip()).is_dir() and to_do == f"  redline chat --target {NAME}"
    assert pull(NAME).out.splitlines()[1] == "Ready: already downloaded"
    said = pull(NAME, "--verify").out.splitlines()
    assert said[-3] == "Verified and ready: already downloaded"
    assert f"Verifying the 160 kB of {SHARD} already downloaded" in said
    assert pull(NAME, "--discard").out == f"There is no unfinished download of {NAME}.\n"
    assert pull(f"{server.endpoint}/{NAME}").code == 0


def test_what_fails_is_one_line_with_a_guess_at_what_was_meant(pull: Redline, server: Loopback) -> None:
    done = pull("mlx-community/Qwen3-0.6B-4bits")
    assert done.code == 1
    assert done.only_line.startswith("redline: there is no mlx-community/Qwen3-0.6B-4bits at ")
    assert done.only_line.endswith("; did you mean mlx-community/Qwen3-0.6B-4bit?\n")


def test_a_guess_is_made_of_what_is_missing_and_of_nothing_else() -> None:
    for reason in ("missing", "token"):
        error = with_suggestion(HubError("no", reason), "someone/qwen3-8b-4BIT")
        assert (str(error), error.reason) == ("no; did you mean mlx-community/Qwen3-8B-4bit?", reason)
    for repo, reason in (
        ("someone/qwen3-8b-4bit", "disk"),
        ("mlx-community/Qwen3-8B-4bit", "missing"),
        ("a/b", "token"),
    ):
        assert str(with_suggestion(HubError("no", reason), repo)) == "no"


@pytest.mark.parametrize(
    ("said", "revision", "meant"),
    [
        ("o/m", None, HubReference("o/m", "main")),
        (" o/m ", "v1", HubReference("o/m", "v1")),
        (f"{HUB}/o/m", None, HubReference("o/m", "main")),
        (f"{HUB}/o/m/?library=mlx", "v1", HubReference("o/m", "v1")),
        (f"{HUB}/o/m/tree/refs/pr/3", None, HubReference("o/m", "refs/pr/3")),
        (f"{HUB}/o/m/tree/v2", "v2", HubReference("o/m", "v2")),
        ("https://elsewhere.example/o/m", None, HubReference("https://elsewhere.example/o/m", "main")),
        (f"{HUB}.evil.example/o/m", None, HubReference(f"{HUB}.evil.example/o/m", "main")),
    ],
)
def test_the_address_of_a_models_page_means_the_model(said: str, revision: str | None, meant: HubReference) -> None:
    assert read_reference(said, revision, HUB) == meant
    with pytest.raises(UsageError, match="the address and --revision name different revisions"):
        read_reference(f"{HUB}/o/m/tree/v2", "v1", HUB)


def test_who_pulls_what_does_not_load_yet_is_told(pull: Redline, server: Loopback) -> None:
    server.add(tiny("yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"))
    done = pull("yuhuili/EAGLE3-LLaMA3.1-Instruct-8B")
    assert done.code == 0
    assert done.err == "redline: its weights are a pickle, which Redline never loads; downloading anyway\n"
    assert pull(NAME).err == ""


def test_lines_come_seldom_and_what_was_paused_says_how_far_it_was(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.cli.models.pull._LINE_EVERY_S", 1e9)
    came = DownloadProgress(SHARD, 5, 10, GB // 2, GB, 25e6, 20.0)
    with Lines() as view:
        view.show(came)
        monkeypatch.setattr("app.cli.models.pull._LINE_EVERY_S", 0.0)
        view.show(came)
        view.show(Waiting("the hub answered \x1b[2J503", 90.0, 2, 6))
        view.paused()
    assert capsys.readouterr().out.splitlines() == [
        "500 MB of 1.00 GB, 25 MB/s, 20 s left",
        "Waiting 1 min 30 s: the hub answered \u241b[2J503 (2 of 6)",
        "Paused at 500 MB of 1.00 GB; run the same command to continue.",
    ]


def test_resumed_is_not_called_verified() -> None:
    done = Done("o/m", "c", "p", 10 * GB, 4 * GB, 4 * GB, 100.0)
    assert event_text(done).startswith("Ready in 1 min 40 s, 40 MB/s\n")
    assert event_text(Discarded("o/m", GB)) == "Deleted the unfinished download of o/m: 1.00 GB freed."


# --- on a terminal --------------------------------------------------------------------------------


def frames(width: int, *events: DownloadEvent, pause: bool = False) -> str:
    """What a terminal of so many columns is sent, a frame for each event, without colours and movements."""
    out = io.StringIO()
    bars = Bars(Console(file=out, width=width, force_terminal=True, highlight=False))
    with bars:
        for event in events:
            bars.show(event)
            bars._bars.refresh()
        if pause:
            bars.paused()
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue()).replace("\r", "\n")


PLAN = Planned("o/m", "main", "c0ffee00ff", (PlannedFile(SHARD, 48 * GB, 0),), 99 * GB, GB, 500 * GB, 2)
STORY = (
    Resolving("o/m", "main"),
    PLAN,
    DownloadProgress(SHARD, 12 * GB, 48 * GB, 13 * GB, 99 * GB, 123_456_789.0, 599.0),
    Verifying("model-00003-of-00003.safetensors", 48 * GB),
    Fetched(SHARD, 48 * GB),
    Done("o/m", "c0ffee00ff", "/hub/o-m", 99 * GB, 98 * GB, 99 * GB, 600.0),
)


@pytest.mark.parametrize("width", [80, 140])
def test_bars_stay_on_their_lines_and_say_files_speed_and_time(width: int) -> None:
    shown = frames(width, *STORY)
    rows = [line.rstrip() for line in shown.splitlines()]
    assert max(map(len, rows)) <= width
    assert "o/m at c0ffee00: 1 file, 99.0 GB, 1.00 GB already downloaded" in rows
    whole = [row for row in rows if row.startswith("total")]
    assert whole[-1].endswith("13.0 GB of 99.0 GB 123 MB/s, 9 min 59 s left")
    assert any(re.match(r"model-00002-of-00003\s.+ 12\.0 GB of 48\.0 GB$", row) for row in rows)
    assert any(re.match(r"model-00003-of-00003\s.+ verifying 48\.0 GB$", row) for row in rows)
    assert rows[-3:] == ["Verified and ready in 10 min, 163 MB/s", "  /hub/o-m", "  redline chat --target o/m"]


def test_a_long_name_shows_its_end_and_a_hostile_one_steers_nothing() -> None:
    name = "a" * 60 + "-the-end.safetensors"
    shown = frames(
        80, PLAN, DownloadProgress(name, 1, 9, 1, 9, None, None), DownloadProgress("\x1b[31mx", 1, 9, 2, 9, None, None)
    )
    assert re.search(r"^…a+-the-end ", shown, re.MULTILINE) and "\u241b[31mx" in shown


def test_ctrl_c_leaves_one_line(pull: Redline, server: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = frames(80, *STORY[:3], pause=True)
    assert shown.splitlines()[-1] == "Paused at 13.0 GB of 99.0 GB; run the same command to continue."
    server.add(tiny("o/m"))

    def interrupted(view: Lines, event: DownloadEvent) -> None:
        if isinstance(event, Planned):
            raise KeyboardInterrupt

    monkeypatch.setattr(Lines, "show", interrupted)
    assert pull("o/m")[:2] == (130, "Paused; run the same command to continue.\n")


# --- words ----------------------------------------------------------------------------------------


def test_durations_in_words() -> None:
    said = {0.4: "0 s", 59.4: "59 s", 59.6: "1 min", 200: "3 min 20 s", 700: "12 min", 3600: "1 h"}
    said |= {3900: "1 h 5 min", 86_400: "24 h", 400_000: "5 days", 3599.9: "1 h"}
    assert {seconds: duration_words(seconds) for seconds in said} == said


def test_times_ago_in_words() -> None:
    said = {-5: "just now", 59: "just now", 60: "1 minute ago", 7300: "2 hours ago", 86_400: "yesterday"}
    said |= {5 * 86_400: "5 days ago", 95 * 86_400: "3 months ago"}
    assert {seconds: ago_words(1e6 - seconds, 1e6) for seconds in said} == said
    assert ago_words(None, 1e6) == "never"


# --- the head that a quantized model lacks --------------------------------------------------------


@pytest.fixture
def without_head(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, Path]]:
    """A catalogue that knows where the head of the tiny model is, and the calls that would fetch it."""
    entry = read_catalogue().targets[0]
    known = Catalogue((structs.replace(entry, repository=NAME, drafters=(), head_from="tiny-org/Tiny"),))
    calls: list[tuple[str, Path]] = []

    def fetch(_hub: object, original: str, target: Path, _work: Path) -> Iterator[DownloadEvent]:
        calls.append((original, target))
        yield Resolving(original, "main")
        raise HubError("the hub is silent", "hub")

    monkeypatch.setattr("app.cli.models.pull.read_catalogue", lambda: known)
    monkeypatch.setattr("models.convert.stored_head.fetch_head", fetch)
    return calls


def test_a_model_without_its_head_gets_it_and_is_complete_without(
    pull: Redline, server: Loopback, without_head: list[tuple[str, Path]]
) -> None:
    """A head that cannot be fetched is said; Done comes last all the same."""
    done = pull(NAME)
    ((original, target),) = without_head
    *_, path, to_do = done.out.splitlines()
    assert done.code == 0 and original == "tiny-org/Tiny" and str(target) == path.strip()
    assert f"fetching the MTP head of {NAME} from tiny-org/Tiny" in done.err
    assert "the MTP head was not fetched (the hub is silent)" in done.err
    assert to_do == f"  redline chat --target {NAME}"
    without_head.clear()
    assert pull(NAME, "--no-head").code == 0 and without_head == []
