"""Damage anywhere in the file of conversations. The app must start, nothing that can be read may be hidden, and the
damaged file must lie beside the new one as it was."""

import json
import random
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from app.store import Store
from app.store.records import ChatSettings
from tests.app.store.toys import SETTINGS, round_done, say

PAGE = 4096
Case = Callable[["Target"], str]  # returns what did not hold, or ""


class Target:
    """A store of some 30 pages whose every message names itself all through its text, and copies of it to damage."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        place = folder / "sound.sqlite"
        store = Store.open(place).store
        names = iter(range(1000))
        for length in (10, 30, 10, 900, 20):  # in names; the fourth conversation has texts of more than a page
            conversation, parent = store.create(SETTINGS).id, None
            for _ in range(1 if length == 900 else 5):
                texts = [f"M{next(names):04} " * length for _ in range(3)]
                question = store.add_question(conversation, parent, texts[0])
                store.add_question(conversation, parent, texts[1])  # a version on another branch
                parent = say(store, conversation, question.id, [round_done(0, [texts[2]])]).id
        store.save_preset("mine", ChatSettings(system="mine"))
        store.set_value("window", "here")
        self.wanted = {text.split()[0]: text for text in texts_of(store)}
        store.close()
        self.data = place.read_bytes()
        self.pages: dict[str, set[int]] = {}  # for each text, those that hold some of it
        for at in re.finditer(rb"M\d{4}", self.data):
            self.pages.setdefault(at.group().decode(), set()).add(at.start() // PAGE)

    def open(self, damaged: bytes) -> tuple[set[str], str]:
        """Opens a damaged copy; returns the texts that are there, and what else did not hold."""
        folder = self._folder / "damaged"
        folder.mkdir()
        place = folder / "c.sqlite"
        place.write_bytes(damaged)
        store, notices = Store.open(place)
        found = texts_of(store)
        wrong = "" if store.presets() == {"mine": ChatSettings(system="mine")} else "presets are hidden"
        wrong = wrong if store.value("window") == "here" else "values are hidden"
        store.add_question(store.create(SETTINGS).id, None, "goes on")
        store.close()
        kept = [path.read_bytes() for path in folder.glob("c.damaged-*.sqlite")]
        shutil.rmtree(folder)
        return found, wrong if kept == ([damaged] if notices else []) else "the damaged file was not kept"

    def flipped(self, at: int, bit: int) -> bytes:
        return self.data[:at] + bytes([self.data[at] ^ (1 << bit)]) + self.data[at + 1 :]


def texts_of(store: Store) -> set[str]:
    """Every text that the user can get at."""
    exports = [json.loads(store.export_json(record.id)) for record in store.conversations()]
    return {message["text"] for export in exports for message in export["messages"]}


def flip_schema_byte(target: Target, at: int) -> str:
    """Bit 7 of a byte of the first page: costs nothing."""
    found, wrong = target.open(target.flipped(at, 7))
    return wrong or ("" if found == set(target.wanted.values()) else "texts are hidden")


def flip(target: Target, dice: random.Random) -> str:
    """Any bit: costs at most the text it is in, where nothing tells which of two copies is right."""
    at = dice.randrange(len(target.data))
    found, wrong = target.open(target.flipped(at, dice.randrange(8)))
    lost = set(target.wanted.values()) - found
    if len(lost) > 1:
        return f"a flip at {at} costs {len(lost)} texts"
    return wrong if wrong.startswith("the damaged") else ""


def truncate(target: Target, dice: random.Random) -> str:
    """The end of the file is missing: costs what was there."""
    at = dice.randrange(len(target.data))
    found, wrong = target.open(target.data[:at])
    missing = set(range(at // PAGE, len(target.data) // PAGE))
    return hidden(target, found, missing) or (wrong if wrong.startswith("the damaged") else "")


def zero_page(target: Target, dice: random.Random) -> str:
    """A page of zeros: costs no text, as there are two copies of every message."""
    return replace_page(target, dice.randrange(len(target.data) // PAGE), bytes(PAGE))


def spoil_page(target: Target, dice: random.Random) -> str:
    """A page of noise: costs no text, as there are two copies of every message."""
    return replace_page(target, dice.randrange(len(target.data) // PAGE), dice.randbytes(PAGE))


def replace_page(target: Target, page: int, content: bytes) -> str:
    found, wrong = target.open(target.data[: page * PAGE] + content + target.data[(page + 1) * PAGE :])
    return hidden(target, found, set()) or (wrong if wrong.startswith("the damaged") else "")


def hidden(target: Target, found: set[str], damaged: set[int]) -> str:
    """Texts that are on no damaged page must be there."""
    safe = {target.wanted[name] for name, pages in target.pages.items() if not pages & damaged}
    return f"{len(safe - found)} of {len(safe)} texts are hidden" if safe - found else ""


def cases(seed: int, short: bool) -> Iterator[tuple[str, list[Case]]]:
    dice = random.Random(seed)
    places = dice.sample(range(PAGE), 40) if short else range(PAGE)
    yield "bit 7 of each byte of the schema page", [lambda target, at=at: flip_schema_byte(target, at) for at in places]
    for name, kind, count in (
        ("random flips", flip, 1000),
        ("truncations", truncate, 200),
        ("zeroed pages", zero_page, 200),
        ("pages of noise", spoil_page, 200),
    ):
        yield name, [lambda target, kind=kind: kind(target, dice) for _ in range(count // 20 if short else count)]


def attack(seed: int, short: bool) -> list[str]:
    """Prints a count for each kind of damage; returns what did not hold."""
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        target = Target(Path(folder))
        for name, all_cases in cases(seed, short):
            held = 0
            for number, case in enumerate(all_cases):
                if wrong := outcome(target, case):
                    failures.append(f"{name}, case {number}: {wrong}")
                held += not wrong
            print(f"{name}: {held:,} of {len(all_cases):,} held", flush=True)
    return failures


def outcome(target: Target, case: Case) -> str:
    try:
        return case(target)
    except Exception as error:  # noqa: BLE001 - whatever keeps the store from opening is looked for
        shutil.rmtree(target._folder / "damaged", ignore_errors=True)
        return f"not opened: {error!r}"
