"""How fast, how long, and how often it is said: by a clock that the test holds."""

from models.hub.download_progress import WINDOW_S, ProgressCounter, TransferSpeed
from models.hub.repo_files import HubFile

BIG, SMALL = HubFile("big", 1000, "sha256", "b" * 64), HubFile("small", 100, "git", "a" * 40)


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_there_is_no_speed_before_there_is_enough_to_tell() -> None:
    clock = Clock()
    speed = TransferSpeed(clock)
    speed.add(500)
    clock.now_s += 0.75
    assert speed.bytes_per_s() is None and speed.eta_s(500) is None
    clock.now_s += 0.25
    assert speed.bytes_per_s() == 500.0 and speed.eta_s(250) == 0.5


def test_the_speed_is_of_the_last_seconds_and_falls_to_nothing() -> None:
    clock = Clock()
    speed = TransferSpeed(clock)
    for _ in range(20):  # 1,000 bytes a second for 20 seconds
        clock.now_s += 1
        speed.add(1000)
    assert speed.bytes_per_s() == (WINDOW_S + 1) * 1000 / WINDOW_S  # the second at the window's edge is in it
    clock.now_s += 3
    assert speed.bytes_per_s() == (WINDOW_S - 2) * 1000 / WINDOW_S
    clock.now_s += 3
    assert speed.bytes_per_s() == 0.0 and speed.eta_s(1) is None


def test_each_file_is_told_ten_times_a_second_and_its_end_always() -> None:
    clock = Clock()
    tally = ProgressCounter({BIG.digest: 400, SMALL.digest: 0}, 1100, clock)
    first = tally.moved(BIG, 100, over_the_network=True)
    assert first is not None and (first.file, first.file_bytes, first.done_bytes) == ("big", 500, 500)
    assert tally.moved(BIG, 100, over_the_network=True) is None
    other = tally.moved(SMALL, 50, over_the_network=True)  # is not silenced by the other's
    assert other is not None and (other.file, other.file_bytes, other.done_bytes) == ("small", 50, 650)
    end = tally.moved(SMALL, tally.missing_bytes(SMALL), over_the_network=False)
    assert end is not None and end.file_bytes == end.file_total_bytes == 100
    clock.now_s += 0.11
    assert tally.moved(BIG, 100, over_the_network=True) is not None
    assert (tally.done_bytes, tally.missing_bytes(BIG), tally.fetched_bytes) == (800, 300, 350)


def test_bytes_fetched_again_are_not_counted_twice() -> None:
    tally = ProgressCounter({BIG.digest: 400, SMALL.digest: 100}, 1100, Clock())
    tally.moved(BIG, -400, over_the_network=True)
    assert (tally.done_bytes, tally.fetched_bytes) == (100, 0)


def test_progress_is_reported_in_silence_once_anything_arrived() -> None:
    clock = Clock()
    tally = ProgressCounter({BIG.digest: 0}, 1000, clock)
    assert tally.current() is None
    tally.moved(BIG, 100, over_the_network=True)
    clock.now_s += 20
    still = tally.current()
    assert still is not None and (still.file, still.done_bytes) == ("big", 100)
    assert (still.bytes_per_s, still.eta_s) == (0.0, None)
