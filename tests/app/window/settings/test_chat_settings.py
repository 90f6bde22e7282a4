"""The settings of a chat: the form shows and returns every value, refuses invalid ones, and presets are saved."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QScrollArea

from app.inference.host_file import Host, write_hosts
from app.protocol import Loaded, Machines, Pair, SamplingSettings
from app.store.records import NEW_CHAT, ChatSettings
from app.window.chat import Controller
from app.window.common.form_fields import FolderField
from app.window.common.preferences import LARGEST
from app.window.main_window.main_window import MainWindow
from app.window.settings.chat_panel import ChatForm, ChatPanel
from app.window.settings.sampling_form import TYPING_MS, SamplingForm, read_stops, write_stops
from engine.errors import UsageError
from tests.app.window.stepped_clock import SteppedClock
from tests.app.window.waiting import layouts_end, until

EVERYTHING = ChatSettings(
    pair=Pair(target="builtin", drafter="lookup", tree=True, context=4096),
    sampling=SamplingSettings(
        temperature=0.7,
        top_p=0.9,
        top_k=40,
        min_p=0.005,
        repetition_penalty=1.1,
        presence_penalty=1.5,
        frequency_penalty=-0.25,
        thinking=False,
        effort="high",
        max_thought_tokens=500,
        seed=2**63 - 1,
        acceptance="coupled",
        draft_length=5,
        max_tokens=300,
        stop=("\n\n", "a\\nb", "\tUser:"),
    ),
    system="Be short.",
)


LOADED = Loaded(
    id=1, pair=Pair(), target="Toy", drafter="lookup", speculation="on", note="", drafts_trees=False, context=8192,
    defaults={"temperature": 0.6, "top_p": 0.95, "top_k": 20}, thinking=True, efforts=("low", "high"),
)  # fmt: skip


WRONG_SEEDS = ("-1", "1.5", "abc", "٣", "1_0", "9" * 5000, str(2**63))


@pytest.fixture
def panel(window: MainWindow) -> ChatPanel:
    window.show_side("chat settings")
    return window.parts.panel


@pytest.fixture
def form(app: QApplication) -> Iterator[ChatForm]:
    form = ChatForm()
    form.show()
    yield form
    form.close()


@pytest.fixture
def applied(form: ChatForm) -> list[ChatSettings]:
    """What the form emits as changed by the user."""
    emitted: list[ChatSettings] = []
    form.changed.connect(emitted.append)
    return emitted


# --- the form ---------------------------------------------------------------------------------


def test_every_value_shown_is_the_value_read(form: ChatForm, applied: list[ChatSettings], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    for settings in (EVERYTHING, ChatSettings(pair=Pair(drafter=str(tmp_path))), ChatSettings()):
        form.show_settings(settings)
        assert form.valid
        assert form.settings() == settings
        assert form.pair._drafter_folder.isHidden() == (settings.pair.drafter != str(tmp_path))
    assert applied == []


def test_a_change_applies_at_once_and_typed_text_when_typing_pauses(
    clock: SteppedClock, form: ChatForm, applied: list[ChatSettings]
) -> None:
    form.sampling.temperature.setValue(0.8)
    form.sampling.rule.setCurrentIndex(1)
    form.sampling.rule.activated.emit(1)
    assert [s.sampling.temperature for s in applied] == [0.8, 0.8]
    assert applied[-1].sampling.acceptance == "coupled"
    QTest.keyClicks(form.system, "Be kind. ")
    assert len(applied) == 2
    clock.advance(TYPING_MS / 1000)
    form.show_settings(applied[2])
    assert len(applied) == 3 and applied[2].system == "Be kind."
    assert form.system.toPlainText() == "Be kind. "  # and the cursor stays
    assert form.system.textCursor().position() == 9


@pytest.mark.parametrize(
    ("text", "seed"),
    [("", None), (" 7 ", 7), (str(2**63 - 1), 2**63 - 1), *((text, "wrong") for text in WRONG_SEEDS)],
)
def test_a_seed_is_a_number_or_empty_and_a_wrong_one_is_shown_and_not_applied(
    clock: SteppedClock, form: ChatForm, applied: list[ChatSettings], text: str, seed: object
) -> None:
    form.sampling.seed.setText("5")
    clock.advance(TYPING_MS / 1000)
    form.sampling.seed.setText(text)
    clock.advance(TYPING_MS / 1000)
    assert ("whole number" in form.sampling.fields[-3].error) == (seed == "wrong")
    assert [one.sampling.seed for one in applied] == ([5] if seed == "wrong" else [5, seed])


def enter(field: FolderField, path: Path | str) -> None:
    field.set_text(str(path))
    field.changed.emit()


def test_a_folder_without_a_model_is_shown_as_wrong_and_not_loaded(
    form: ChatForm, applied: list[ChatSettings], tmp_path: Path
) -> None:
    target = form.pair.target
    target.box.choose("folder")
    target.box.activated.emit(1)
    assert not form.valid
    for path, why in ((tmp_path / "none", "does not exist"), (tmp_path, "no config.json"), ("a\0", "does not exist")):
        enter(target.folder, path)
        assert why in form.pair._target_folder.error
    assert applied == []
    (tmp_path / "config.json").write_text("{}")
    enter(target.folder, tmp_path)
    assert applied[-1].pair.target == str(tmp_path)


def test_the_file_of_the_machines_is_checked_and_what_they_have_is_shown(
    form: ChatForm, applied: list[ChatSettings], tmp_path: Path
) -> None:
    field, path = form.pair._machines, tmp_path / "hosts.json"
    for wrong in (path, "a\0"):
        enter(form.pair.machines, wrong)
        assert "does not list machines" in field.error
    assert applied == []
    write_hosts(path, [Host("localhost", "10.0.0.1"), Host("studio.local", "10.0.0.2")])
    enter(form.pair.machines, path)
    shared = Pair(hosts=str(path))
    assert applied[-1].pair == shared
    assert field._below.text() == "2 machines: localhost, studio.local."
    memory = "38.0 of 64.0 GB here, 22.0 of 24.0 GB on studio.local"
    form.set_model(structs.replace(LOADED, pair=shared, machines=Machines(names=("a", "b"), memory=memory)))
    assert field._below.text().endswith(f"Fits: {memory}.")
    enter(form.pair.machines, "")
    assert applied[-1].pair == Pair() and "too large for this computer" in field._below.text()


def test_a_shipped_drafter_for_another_target_is_warned_of(form: ChatForm, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    form.show_settings(ChatSettings(pair=Pair(target=str(tmp_path), drafter="eagle3")))
    assert form.pair._drafter._below.text().startswith("This drafter is made for the built-in target")
    assert form.valid


@pytest.mark.parametrize(("tree", "length", "right"), [(False, 32, True), (False, 33, False), (True, 64, True)])
def test_a_draft_length_is_at_most_what_the_engine_allows(form: ChatForm, tree: bool, length: int, right: bool) -> None:
    form.set_model(LOADED)
    sampling = SamplingSettings(draft_length=length, max_tokens=9000)
    form.show_settings(ChatSettings(pair=Pair(tree=tree), sampling=sampling))
    assert form.valid == right
    assert "8,192" in form.sampling.fields[-2]._below.text()  # a reply longer than the context is valid but explained


@pytest.mark.parametrize(("temperature", "valid"), [(0, True), (0.0005, False), (0.001, True), (100, True)])
def test_the_form_accepts_the_temperatures_that_the_engine_accepts(
    app: QApplication, temperature: float, valid: bool
) -> None:
    form = SamplingForm()
    form.temperature.setValue(temperature)
    assert form.valid == valid
    if valid:
        form.settings().check()
        assert form.settings().temperature == temperature
    else:
        with pytest.raises(UsageError, match="temperature"):
            SamplingSettings(temperature=temperature).check()


def test_values_that_the_user_does_not_set_are_the_models(form: ChatForm) -> None:
    form.show_settings(NEW_CHAT)
    form.set_model(LOADED)
    boxes, settings = form.sampling._numbers, form.settings()
    assert [boxes[name].value() for name in ("temperature", "top_p", "top_k")] == [0.6, 0.95, 20]
    assert settings == NEW_CHAT  # so that it follows the model when another one is chosen
    assert "Model's default" in boxes["temperature"].accessibleDescription()
    assert not form.sampling.reset.isEnabled()
    boxes["temperature"].setValue(0.9)
    changed = form.settings().sampling
    assert changed.temperature == 0.9 and "temperature" not in changed.from_model and "top_p" in changed.from_model
    assert "Model's default is 0.6." in boxes["temperature"].accessibleDescription()
    form.sampling.reset.click()
    assert form.settings() == NEW_CHAT and boxes["temperature"].value() == 0.6


def test_switches_are_those_of_the_models_template(form: ChatForm) -> None:
    form.set_model(LOADED)
    controls = form.sampling
    assert [controls.effort.itemData(i) for i in range(controls.effort.count())] == ["", "low", "high"]
    controls.thinking.choose("off")
    controls.effort.choose("high")
    assert (form.settings().sampling.thinking, form.settings().sampling.effort) == (False, "high")
    form.set_model(structs.replace(LOADED, thinking=False, efforts=()))
    assert not controls.thinking.isEnabled() and not controls.effort.isEnabled()
    assert "does not offer this setting" in controls.thinking.accessibleDescription()
    assert form.settings().sampling.effort == "high"  # kept for a model that has it
    names = {field._control.accessibleName() for field in controls.thought}
    assert names == {"Thinking", "Effort", "Maximum thinking tokens"}


@pytest.mark.parametrize("stops", [(), ("a",), ("\n", "\t"), ("\\n",), ("\\", "a\\\\n")])
def test_stop_strings_are_read_as_they_were_written(stops: tuple[str, ...]) -> None:
    assert read_stops(write_stops(stops)) == stops


def test_the_wheel_does_not_change_a_control_without_focus(form: ChatForm) -> None:
    wheel = QWheelEvent(
        *(QPointF(5, 5), QPointF(5, 5), QPoint(0, 0), QPoint(0, 120), Qt.MouseButton.NoButton),
        *(Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False),
    )
    form.pair.target.box.setFocus()
    QApplication.sendEvent(form.sampling.temperature, wheel)
    assert form.sampling.temperature.value() == 0


# --- the panel --------------------------------------------------------------------------------


def test_the_panel_and_the_conversation_have_the_same_settings(panel: ChatPanel, controller: Controller) -> None:
    panel.form.sampling.temperature.setValue(0.8)
    assert controller.conversation.settings.sampling.temperature == 0.8
    controller.new()
    assert panel.form.settings().sampling.temperature == 0.8  # a new one begins with the settings used last
    controller.open(2)
    assert panel.form.settings() == ChatSettings()
    controller.change_settings(EVERYTHING)
    panel.defaults.click()
    assert controller.conversation.settings == panel.form.settings() == NEW_CHAT


# --- presets ----------------------------------------------------------------------------------


def test_a_preset_is_saved_under_its_name_chosen_and_deleted(panel: ChatPanel, controller: Controller) -> None:
    presets = panel.presets
    controller.change_settings(EVERYTHING)
    presets.save.click()
    presets.name.setText("  ")
    assert not presets.confirm.isEnabled()
    QTest.keyClick(presets.name, Qt.Key.Key_Return)
    assert controller.library.presets() == {}
    presets.name.setText(" Much  at once ")
    QTest.keyClick(presets.name, Qt.Key.Key_Return)
    assert controller.library.presets() == {"Much at once": EVERYTHING}
    assert presets.box.currentText() == "Much at once"
    controller.change_settings(ChatSettings())
    assert presets.box.currentText() == "No Preset"
    assert not presets.delete.isEnabled()
    presets.box.setCurrentIndex(presets.box.findText("Much at once"))
    presets.box.activated.emit(1)
    assert controller.conversation.settings == EVERYTHING
    presets.delete.click()
    assert controller.library.presets() == {}
    assert presets.box.currentText() == "No Preset"


def test_a_warning_comes_before_a_preset_is_replaced(panel: ChatPanel, controller: Controller) -> None:
    presets = panel.presets
    controller.library.save_preset("Short", EVERYTHING)
    controller.settings_changed.emit(controller.conversation)
    presets.save.click()
    presets.name.setText("Short")
    assert "Replaces" in presets.warning.text()
    QTest.keyClick(presets.name, Qt.Key.Key_Escape)
    assert controller.library.presets()["Short"] == EVERYTHING
    assert not presets.name.isVisible()


@pytest.mark.slow
def test_large_text_widens_the_panel_to_its_form_and_a_small_window_scrolls(
    window: MainWindow, panel: ChatPanel
) -> None:
    area = panel.findChild(QScrollArea)
    assert area is not None
    bar = area.horizontalScrollBar()
    window.resize(1280, 800)
    window.panes.setSizes([248, 732, 300])
    until(lambda: bar.maximum() == 0)
    usual = window.panes.sizes()[2]
    window.change_preferences(zoom=LARGEST)
    until(lambda: panel.form.width() >= panel.form.minimumSizeHint().width() == area.viewport().width() > usual)
    assert panel.form.sampling.reset.width() >= panel.form.sampling.reset.sizeHint().width()
    assert layouts_end()
    window.resize(640, 600)
    until(lambda: bar.maximum() > 0 and window.width() == 640)
    assert window.panes.sizes()[1] >= 320
    window.change_preferences(zoom=0)
    until(lambda: bar.maximum() == 0 and panel.form.width() == area.viewport().width())
