"""Damage anywhere in the file: the app starts, nothing that can be read is hidden, and the damaged file is kept.

The whole campaign is slow: `pytest -m slow tests/store/test_damage_campaign.py`.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.store import Store
from app.store.records import ChatSettings
from tests.store.toys import SETTINGS, say, told

PAGE = 4096


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store of some 25 pages whose every message names itself all through its text."""
    place = tmp_path_factory.mktemp("whole") / "c.sqlite"
    store = Store.open(place).store
    number = 0
    for length in (10, 30, 10, 900, 20):  # in names; the fourth conversation has texts of more than a page
        conversation, parent = store.create(SETTINGS).id, None
        for _ in range(1 if length == 900 else 5):
            texts = [f"m{number + i:04} " * length for i in range(3)]
            number += 3
            question = store.add_question(conversation, parent, texts[0])
            store.add_question(conversation, parent, texts[1])  # a version on another branch
            parent = say(store, conversation, question.id, [told(0, [texts[2]])]).id
    store.save_preset("mine", ChatSettings(system="mine"))
    store.set_value("window", "here")
    store.close()
    return place


def texts_of(store: Store) -> set[str]:
    """Every text that the user can get at."""
    exports = [json.loads(store.export_json(record.id)) for record in store.conversations()]
    return {message["text"] for export in exports for message in export["messages"]}


def pages_of(data: bytes) -> dict[str, set[int]]:
    """For each text, the pages that hold some of it."""
    pages: dict[str, set[int]] = {}
    for at in re.finditer(rb"m\d{4}", data):
        pages.setdefault(at.group().decode(), set()).add(at.start() // PAGE)
    return pages


class Campaign:
    """Damages copies of a store, opens them, and compares."""

    def __init__(self, whole: Path, folder: Path) -> None:
        self.data = whole.read_bytes()
        self.folder = folder
        self.pages = pages_of(self.data)
        store = Store.open(Path(shutil.copyfile(whole, folder / "sound.sqlite"))).store
        self.wanted = {text.split()[0]: text for text in texts_of(store)}
        store.close()
        assert len(self.wanted) == len(self.pages) == 63

    def open(self, damaged: bytes, what: str) -> tuple[set[str], bool]:
        """Returns the texts that are there, and whether presets and values are."""
        folder = self.folder / "one"
        folder.mkdir()
        place = folder / "c.sqlite"
        place.write_bytes(damaged)
        store, notices = Store.open(place)
        found = texts_of(store)
        extras = store.presets() == {"mine": ChatSettings(system="mine")} and store.value("window") == "here"
        store.add_question(store.create(SETTINGS).id, None, "goes on")
        store.close()
        kept = [path.read_bytes() for path in folder.glob("c.damaged-*.sqlite")]
        assert kept == ([damaged] if notices else []), what
        shutil.rmtree(folder)
        return found, extras

    def check(self, damaged: bytes, pages: set[int], most_lost: int | None, what: str) -> None:
        """Texts that are not on the damaged `pages` are there; of those that are, at most so many are not."""
        found, _ = self.open(damaged, what)
        safe = {self.wanted[name] for name, on in self.pages.items() if not on & pages}
        assert safe <= found, f"{what}: {len(safe - found)} of {len(safe)} hidden"
        lost = set(self.wanted.values()) - found
        assert most_lost is None or len(lost) <= most_lost, f"{what}: {len(lost)} lost"

    def flip(self, at: int, bit: int) -> bytes:
        return self.data[:at] + bytes([self.data[at] ^ (1 << bit)]) + self.data[at + 1 :]

    def schema_place(self, at: int) -> None:
        found, extras = self.open(self.flip(at, 7), f"byte {at} of the schema page")
        assert found == set(self.wanted.values()) and extras, f"byte {at} of the schema page"

    def random_damage(self, dice: random.Random) -> None:
        kind = dice.choice(["flip", "flip", "flip", "zero", "cut"])
        at = dice.randrange(len(self.data))
        page = at // PAGE
        if kind == "cut":
            last = len(self.data) // PAGE
            self.check(self.data[:at], set(range(page, last)), None, f"cut at {at}")
        elif kind == "zero":
            zeroed = self.data[: page * PAGE] + bytes(PAGE) + self.data[(page + 1) * PAGE :]
            self.check(zeroed, {page}, None, f"page {page} zeroed")
        else:
            bit, start = dice.randrange(8), page * PAGE
            cells = int.from_bytes(self.data[start + 3 : start + 5], "big")
            in_header = at - start < 12 + 2 * cells
            self.check(self.flip(at, bit), {page}, None if in_header else 1, f"bit {bit} of byte {at}")


@pytest.fixture
def campaign(whole: Path, tmp_path: Path) -> Campaign:
    return Campaign(whole, tmp_path)


def schema_places(campaign: Campaign) -> Iterator[int]:
    return (at for at, byte in enumerate(campaign.data[:PAGE]) if byte)


@pytest.mark.slow
def test_samples_of_damage_cost_nothing_that_can_be_read(campaign: Campaign) -> None:
    for at in random.Random(1).sample(list(schema_places(campaign)), 25):
        campaign.schema_place(at)
    dice = random.Random(2)
    for _ in range(25):
        campaign.random_damage(dice)


@pytest.mark.slow
def test_no_byte_of_the_schema_page_costs_anything(campaign: Campaign) -> None:
    for at in schema_places(campaign):
        campaign.schema_place(at)


@pytest.mark.slow
def test_a_thousand_random_damages_cost_nothing_that_can_be_read(campaign: Campaign) -> None:
    dice = random.Random(3)
    for _ in range(1000):
        campaign.random_damage(dice)


def test_what_a_damaged_page_held_comes_from_the_backup(whole: Path, tmp_path: Path) -> None:
    campaign = Campaign(whole, tmp_path)
    place = Path(shutil.copyfile(whole, tmp_path / "c.sqlite"))
    Store.open(place).store.close()
    assert len(list(tmp_path.glob("c.backup-*"))) == 1
    data = campaign.data
    for page in [
        page for page in set().union(*campaign.pages.values()) if data[page * PAGE] == 13
    ]:  # a leaf of a table
        place.write_bytes(data[: page * PAGE] + bytes(PAGE) + data[(page + 1) * PAGE :])
        store, notices = Store.open(place)
        assert len(notices) == 1 and texts_of(store) == set(campaign.wanted.values())
        store.close()
