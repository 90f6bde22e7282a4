"""Pictures of the window, light and dark:
python -m tests.programs.screenshots [FOLDER] [--scale 2] [--zoom 0] [--only NAME]

The real window, transcript and inspector, told a recorded stream (tests/app/host/recorded.jsonl) and made-up replies,
whose rounds and numbers are made up too. Text is drawn in the fonts of this machine. The default folder is
resources/screenshots.
"""

import argparse
import os
import random
import re
import time
from collections.abc import Callable
from contextlib import chdir
from dataclasses import replace as changed
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple

from msgspec.structs import replace
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QApplication, QLabel, QScrollArea, QWidget

from app.api.key_file import PORT
from app.inference.host_file import Host, write_hosts
from app.protocol import Loaded, Machines, Pair, RoundDone, SamplingSettings, Serving, decode_answer
from app.reply import Reply
from app.store.records import ChatSettings, ContextTrim, MessageRecord, Statistics, StoredReceipt
from app.window.api.api_server import ApiState
from app.window.chat import Controller, Notice, SpeculationStatus
from app.window.common.preferences import LARGEST, PREFERENCES, SMALLEST, Preferences, written
from app.window.main_window.main_window import MainWindow
from engine.audit.receipt import Difference, Receipt
from engine.events import Round
from engine.metrics import Metrics
from tests.app.window.chats import DAY_S, add_conversation, make_controller, show_loaded
from tests.app.window.inspector.sample_rounds import CORRECTED
from tests.app.window.race.recorded_race import measured_race, recorded_race
from tests.programs import model_scenes as scenes
from tests.programs.screenshot_texts import FORMULAS, MARKDOWN, SEARCH, SKY, TITLES, TURNS

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests/app/host/recorded.jsonl"
FOLDER = ROOT / "resources/screenshots"
WIDTH, HEIGHT = 1280, 800
SHOWN = 0.7  # of the recorded reply, in the picture of one that streams

DRAFTED, KEPT = 4, 0.8  # tokens a round, and how often one is right, in replies that are made up


class Stage(NamedTuple):
    """What a scene plays on. folder: for files that it writes."""

    controller: Controller
    window: MainWindow
    folder: Path


def ask(id: int, text: str) -> MessageRecord:
    return MessageRecord(id=id, conversation=1, parent=id - 1 or None, role="user", text=text)


def answered(id: int, told: list[RoundDone], **values: object) -> MessageRecord:
    """A reply of these rounds, with its numbers."""
    text = "".join("".join(one.round.texts) for one in told)
    statistics = Statistics.of(Metrics.of(one.round for one in told))
    record = MessageRecord(
        id=id, conversation=1, parent=id - 1, role="assistant", text=text.strip(), statistics=statistics
    )
    return replace(record, **values)


def recorded_rounds() -> list[RoundDone]:
    """The rounds of the first recorded reply."""
    answers = [decode_answer(line) for line in RECORDED.read_bytes().splitlines()]
    told = [answer for answer in answers if isinstance(answer, RoundDone)]
    return [one for one in told if one.id == told[0].id]


def made_up(text: str, seed: int) -> list[RoundDone]:
    """`text` in rounds, cut at its words."""
    chance, words, told, at = random.Random(seed), re.findall(r"\s*\w+|\s*[^\w\s]|\s+", text), list[RoundDone](), 0
    while at < len(words):
        right = next((i for i in range(DRAFTED) if chance.random() > KEPT), DRAFTED)
        said = tuple(words[at : at + right + 1])
        right = min(right, len(said))
        drafted = (*said[:right], *(chance.choice(words) for _ in range(DRAFTED - right)))
        round_ = Round(
            index=len(told),
            tokens=tuple(range(at, at + len(said))),
            texts=said,
            drafted=tuple(range(DRAFTED)),
            accepted=right,
            p=tuple(chance.uniform(0.4, 1) for _ in said),
            q=tuple(chance.uniform(0.2, 1) for _ in drafted),
            width=DRAFTED + 1,
            time_s=0.3 + 0.05 * len(told),
            reason=f"fixed at {DRAFTED}",
        )
        told.append(RoundDone(id=1, round=round_, drafted_texts=drafted))
        at += len(said)
    return told


# --- scenes -----------------------------------------------------------------------------------


def first_run(stage: Stage) -> QWidget:
    stage.controller.library.conversations = list  # type: ignore[method-assign]  # as at the first start
    stage.controller.library.changed.emit()
    return stage.window


def offer(state: Literal["offered", "downloading", "ready", "in use"]) -> Callable[[Stage], QWidget]:
    """The first start with the offer of a better pair, and what becomes of it."""

    def scene(stage: Stage) -> QWidget:
        first_run(stage)
        scenes.offered(stage.window, state)
        if state == "in use":
            used = SpeculationStatus("on", target="Qwen2.5 32B", drafter="Qwen2.5 0.5B")
            stage.controller.pair.status_changed.emit(used)
        return stage.window

    return scene


def time_saved(stage: Stage) -> QWidget:
    """A chat that was sooner than without drafting, by an estimate."""
    long(stage)
    stage.window.change_preferences(tints=True)
    shown = stage.controller.path
    for place, record in enumerate(shown):
        if record.statistics is not None and record.id > 2:  # the first was recorded on a slow machine
            shown[place] = replace(record, statistics=replace(record.statistics, plain_s=0.042))
    stage.controller.path_changed.emit(list(shown))
    return stage.window


def streaming(stage: Stage) -> QWidget:
    """A reply as it is written, the inspector beside it."""
    controller, told = stage.controller, recorded_rounds()
    live = answered(2, [], state="streaming", statistics=None)
    stage.window.show_side("inspector")
    stage.window.panes.setSizes([248, 632, 400])
    controller.open(1)
    path(controller, [ask(1, SKY), live], {2: []})
    controller.busy_changed.emit(True)
    controller.reply_began.emit(live)
    reply = controller.replies.reply_of(2)
    for one in told[: round(len(told) * SHOWN)]:
        reply.add(one)
        controller.replies.changed.emit(2, reply.take_change())
    controller.pair.counted.emit(148, 8192)
    return stage.window


def correction(stage: Stage) -> QWidget:
    """The inspector at a round whose draft was refused, with the reason."""
    told = made_up("At dusk the sky", 3)
    last = replace(CORRECTED, round=changed(CORRECTED.round, index=len(told), time_s=told[-1].round.time_s + 0.06))
    stage.window.show_side("inspector")
    stage.window.panes.setSizes([248, 632, 400])
    stage.controller.open(2)
    path(stage.controller, [ask(1, SKY), answered(2, [*told, last])], {2: [*told, last]})
    return stage.window


def markdown(stage: Stage) -> QWidget:
    told = made_up(MARKDOWN, 3)
    stage.controller.open(2)
    path(stage.controller, [ask(1, SEARCH), answered(2, told)], {2: told})
    stage.controller.pair.counted.emit(412, 8192)
    return stage.window


def long(stage: Stage) -> QWidget:
    """Many turns; the text plain, as one key makes it."""
    shown, known = [ask(1, SKY), answered(2, recorded_rounds())], {2: recorded_rounds()}
    for number, (question, reply) in enumerate(TURNS * 3, 1):
        told = made_up(reply, number)
        shown += [ask(2 * number + 1, question), answered(2 * number + 2, told, versions=1 + number % 2)]
        known[2 * number + 2] = told
    stage.controller.open(1)
    path(stage.controller, shown, known)
    stage.window.change_preferences(tints=False)
    stage.controller.pair.counted.emit(1834, 8192)
    return stage.window


def chat_settings(stage: Stage) -> QWidget:
    streaming(stage)
    stage.controller.busy_changed.emit(False)
    stage.window.show_side("chat settings")
    return stage.window


def machines(stage: Stage) -> QWidget:
    """A target that two machines share: what the settings, the chip and the inspector say of it, after a lost one."""
    controller, told = stage.controller, made_up("At dusk the sky is red.", 3)
    with chdir(stage.folder):
        write_hosts(Path("hosts.json"), [Host("localhost", "10.0.0.1"), Host("studio.local", "10.0.0.2")])
        shared = Machines(
            names=("localhost", "studio.local"),
            memory="38.0 of 64.0 GB here, 22.0 of 24.0 GB on studio.local",
            pass_s=0.0081,
            row_s=0.0003,
        )
        pair = Pair(target="builtin", drafter="lookup", hosts="hosts.json")
        loaded = Loaded(
            id=1, pair=pair, target="Large-70B", drafter="lookup", speculation="on", note="", drafts_trees=False,
            context=8192, machines=shared,
        )  # fmt: skip
        controller.open(1)
        controller.change_settings(ChatSettings(pair=pair))
        controller.host.loaded = loaded
        cut = answered(2, told, pair=pair, state="cut", note="The engine stopped while writing this reply.")
        path(controller, [ask(1, SKY), cut], {2: told})
        controller.host.pair_loaded.emit(loaded)
        controller.host.show_pair_status()
        controller.pair.status_changed.emit(controller.host.status)
        stage.window.show_side("chat settings")
        settle()
        scroll = stage.window.parts.panel.findChild(QScrollArea)
        scroll.ensureWidgetVisible(stage.window.parts.panel.form.pair.machines)
    lost = "The engine stopped (studio.local, which computes a part of this model, has ended) while writing a reply."
    said = f"{lost} The text so far is saved."
    controller.notice.emit(Notice("error", said, (("Continue", print), ("Copy Report", print))))
    return stage.window


def network(stage: Stage) -> QWidget:
    """The inspector, at a round of which it says what the network took."""
    machines(stage)
    stage.window.show_side("inspector")
    stage.window.panes.setSizes([248, 632, 400])
    return stage.window


def find(stage: Stage) -> QWidget:
    """Find in a chat, at the third match."""
    long(stage)
    bar = stage.window.parts.transcript.find_bar
    bar.field.setText("light")
    bar.begin()
    for _ in range(2):
        settle()
        bar.step(1)
    settle()
    return stage.window


def formulas(stage: Stage) -> QWidget:
    """Formulas, of which one is too wide for its line, and Find in Chat at one of them."""
    told = made_up(FORMULAS, 5)
    stage.controller.open(2)
    path(stage.controller, [ask(1, "What is a Taylor series?"), answered(2, told)], {2: told})
    bar = stage.window.parts.transcript.find_bar
    bar.field.setText("n!")
    bar.begin()
    settle()
    return stage.window


def full_context(stage: Stage) -> QWidget:
    """The context was full before, and is again."""
    controller, (question, reply) = stage.controller, TURNS[0]
    told = {2: recorded_rounds()[:20], 4: made_up(reply, 5)}
    summary = (
        "You asked why the sky is blue. It is Rayleigh scattering: the air scatters short waves more than long ones."
    )
    shown = [ask(1, SKY), answered(2, told[2]), ask(3, question), answered(4, told[4])]
    shown[2] = replace(shown[2], trim=ContextTrim(kept=0, summary=summary))
    controller.open(1)
    path(controller, shown, told)
    stage.window.parts.composer.editor.setPlainText("And what would you read next?")
    settle()
    controller.pair._count_timer.stop()
    controller.pair.counted.emit(8502, 8192)
    return stage.window


def settings(stage: Stage) -> QWidget:
    return stage.window.settings.show("appearance")


def serving(stage: Stage) -> QWidget:
    """Other programs use the models: one is being answered, and two wait."""
    window = stage.window.api.show()
    serving, key = Serving(port=PORT, waiting=2, tokens=34), "a key that nobody has, of this length here"
    loaded = Loaded(
        id=0, pair=Pair(), target="SmolLM2-135M-Instruct", drafter="lookup", speculation="on", note="",
        drafts_trees=False, context=8192, tools=True,
    )  # fmt: skip
    window.show_state(True, PORT, ApiState("on", key, serving, loaded))
    return window


def error(stage: Stage) -> QWidget:
    """The engine died in the middle of a reply."""
    controller, told = stage.controller, recorded_rounds()[:40]
    controller.open(1)
    cut = answered(2, told, state="cut", note="The engine was killed while writing this reply.")
    path(controller, [ask(1, SKY), cut], {2: told})
    cause = "was killed (SIGKILL; the system may have run out of memory)"
    controller.pair.status_changed.emit(SpeculationStatus("host down", detail=f"The engine {cause}. It is restarting."))
    said = f"The engine {cause} while writing a reply. The text so far is saved."
    controller.notice.emit(Notice("error", said, (("Continue", print), ("Copy Report", print))))
    return stage.window


def receipt(stage: Stage) -> QWidget:
    """Replies that were verified: one the same, one with a near-tie, one under way."""
    found = (Receipt(0), Receipt(0, (Difference(11, 262, 338, 2.0, 7.5, True, " that", " which"),)))
    shown, known = list[MessageRecord](), dict[int, list[RoundDone]]()
    for id, (question, reply) in zip((2, 4, 6), (TURNS[3], TURNS[0], TURNS[2]), strict=True):
        known[id] = made_up(reply, id)
        shown += [ask(id - 1, question), answered(id, known[id], sampling=SamplingSettings())]
    tokens = {id: sum(len(one.round.tokens) for one in told) for id, told in known.items()}
    for id, kept in zip((2, 4), found, strict=True):
        shown[id - 1] = replace(shown[id - 1], receipt=StoredReceipt(receipt=changed(kept, tokens=tokens[id])))
    stage.controller.open(1)
    path(stage.controller, shown, known)
    stage.controller.verification.progressed.emit(6, f"Verifying, 24 of {tokens[6]} tokens")
    stage.controller.pair.counted.emit(412, 8192)
    return stage.window


def race(stage: Stage) -> QWidget:
    return recorded_race(stage.window)


def race_end(stage: Stage) -> QWidget:
    return recorded_race(stage.window, 1.0)


def race_measuring(stage: Stage) -> QWidget:
    return measured_race(stage.window)


def models(scene: Callable[[MainWindow], QWidget]) -> Callable[[Stage], QWidget]:
    """A state of the Models page."""
    return lambda stage: scene(stage.window)


SCENES: dict[str, Callable[[Stage], QWidget]] = {
    "first-run": first_run,
    "offer": offer("offered"),
    "offer-downloading": offer("downloading"),
    "offer-ready": offer("ready"),
    "offer-in-use": offer("in use"),
    "saved": time_saved,
    "streaming": streaming,
    "correction": correction,
    "markdown": markdown,
    "long": long,
    "full-context": full_context,
    "find": find,
    "formulas": formulas,
    "receipt": receipt,
    "chat-settings": chat_settings,
    "machines": machines,
    "network": network,
    "settings": settings,
    "serving": serving,
    "error": error,
    "models-empty": models(scenes.empty),
    "models-downloading": models(scenes.downloading),
    "models-refused": models(scenes.refused),
    "models-paired": models(scenes.paired),
    "race": race,
    "race-end": race_end,
    "race-measuring": race_measuring,
}


def path(controller: Controller, shown: list[MessageRecord], told: dict[int, list[RoundDone]]) -> None:
    """Shows this branch, which is in no store."""
    controller.path = list(shown)
    replies = {record.id: Reply(told.get(record.id, ())) for record in shown}
    controller.replies.reply_of = replies.__getitem__  # type: ignore[method-assign]
    controller.path_changed.emit(list(shown))


# --- pictures ---------------------------------------------------------------------------------


def fill_sidebar(controller: Controller) -> None:
    """Adds conversations, so that the sidebar looks used."""
    now = time.time()
    for place, title in enumerate(TITLES):
        add_conversation(controller, title, updated_s=now - place * place * 0.09 * DAY_S)
    controller.library.pin(6, True)


def picture(name: str, scheme: str, folder: Path, zoom: int = 0) -> Path:
    """Play a scene, and keep what is seen. scheme: light or dark. zoom: steps of the text size."""
    store = TemporaryDirectory()
    controller = make_controller(Path(store.name))
    fill_sidebar(controller)
    chosen = Preferences(scheme=scheme, motion="reduced", zoom=zoom)  # type: ignore[arg-type]
    controller.library.set_value(PREFERENCES, written(chosen))
    window = MainWindow(controller)
    window.resize(WIDTH, HEIGHT)
    window.show()
    show_loaded(controller)
    settle()
    shown = SCENES[name](Stage(controller, window, Path(store.name)))
    settle()
    while any(label.isVisible() and label.text().startswith("Loading") for label in window.findChildren(QLabel)):
        settle()
    place = folder / f"{name}-{scheme}.png"
    shown.grab().save(str(place))
    window.close()
    window.models.quit()
    window.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    controller.close()
    store.cleanup()
    return place


def settle(seconds: float = 0.7) -> None:
    """Let timers run: plots are drawn ten times a second, tiles made as they come into view."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        QCoreApplication.processEvents()
        time.sleep(0.01)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.programs.screenshots", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--scale", default="2", help="device pixels a px (default: 2)")
    parser.add_argument(
        "--zoom", type=int, default=0, choices=range(SMALLEST, LARGEST + 1), help="steps of the text size"
    )
    parser.add_argument("--only", choices=SCENES, help="one scene")
    given = parser.parse_args()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    os.environ["QT_SCALE_FACTOR"] = given.scale
    given.folder.mkdir(parents=True, exist_ok=True)
    application = QApplication(["redline"])
    for name in [given.only] if given.only else SCENES:
        for scheme in ("light", "dark"):
            print(picture(name, scheme, given.folder, given.zoom))
    application.quit()


if __name__ == "__main__":
    main()
