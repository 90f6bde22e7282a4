"""The Settings window: choices apply at once and at the next start; conversations are exported and imported."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace
from PySide6.QtCore import Qt
from PySide6.QtGui import QPalette
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QCheckBox, QComboBox, QStyle, QStyleOptionComboBox, QToolButton, QWidget

from app.store.records import NEW_CHAT
from app.window.chat import Controller
from app.window.common import form_fields, theme
from app.window.common.appearance import DARK, LIGHT, READABLE, Appearance, contrast, with_accent
from app.window.common.file_output import FileError, file_name, write_text
from app.window.common.layouts import column
from app.window.common.preferences import LARGEST, SMALLEST, Places, Preferences, read, written
from app.window.main_window import files
from app.window.main_window.main_window import MainWindow
from tests.app.window.chats import add_conversation, end, open_chat, open_window
from tests.app.window.stepped_clock import SteppedClock
from tests.app.window.waiting import layouts_end, until


def test_preferences_apply_at_once_and_at_the_next_start(window: MainWindow, controller: Controller) -> None:
    controls = window.settings.show("appearance").appearance.controls
    assert controller.pair._idle_minutes == 30
    choices: dict[str, str | int] = {"scheme": "dark", "zoom": 2, "motion": "reduced", "unload_minutes": 0}
    for name, value in choices.items():
        box = controls[name]
        assert isinstance(box, form_fields.Choice)
        box.choose(value)
        box.activated.emit(0)
    for name in ("tints", "show_refused", "announce", "learn_replies"):
        controls[name].click()
    chosen = Preferences(scheme="dark", zoom=2, motion="reduced", tints=False, show_refused=True, announce=False)
    chosen = replace(chosen, unload_minutes=0, learn_replies=False)
    assert window.preferences == chosen
    assert controller.pair._idle_minutes == 0
    assert (window.theme.appearance.scheme, window.theme.appearance.scale) == ("dark", chosen.scale)
    shown = window.parts.transcript.options
    assert shown.still and not shown.tints and window.theme.reduced_motion
    second = open_window(controller)
    assert (second.preferences, controller.pair._idle_minutes) == (chosen, 0)
    assert second.settings.show("appearance").appearance.controls["zoom"].currentText() == "121%"
    end(second)


def test_the_button_the_menu_and_the_transcript_agree_about_tints(window: MainWindow) -> None:
    window.commands["tints"].trigger()
    assert not window.preferences.tints
    assert not window.parts.header.tints.isChecked()
    window.parts.header.tints.click()
    assert window.preferences.tints and window.commands["tints"].isChecked()
    window.commands["refused"].trigger()
    assert window.preferences.show_refused and window.parts.transcript.options.refused


def test_text_zooms_within_limits_and_back(window: MainWindow) -> None:
    normal = window.parts.composer.editor.font().pixelSize()
    window.change_preferences(zoom=LARGEST - 1)
    for _ in range(2):  # of which the second changes nothing
        window.commands["zoom in"].trigger()
    assert window.preferences.scale == pytest.approx(1.1**8)
    assert window.parts.composer.editor.font().pixelSize() > 2 * normal
    window.change_preferences(zoom=SMALLEST)
    window.commands["zoom out"].trigger()
    assert window.preferences.scale == pytest.approx(1.1**-3)
    window.commands["zoom reset"].trigger()
    assert window.parts.composer.editor.font().pixelSize() == normal


def test_sentences_are_read_aloud_only_if_the_user_wants(window: MainWindow, monkeypatch: pytest.MonkeyPatch) -> None:
    announced: list[str] = []
    monkeypatch.setattr("app.window.main_window.main_window.announce", lambda _, text: announced.append(text))
    window._announce("One.")
    window.change_preferences(announce=False)
    window._announce("Two.")
    assert announced == ["One."]


def test_new_chats_begin_with_the_defaults(window: MainWindow, controller: Controller) -> None:
    shown = window.settings.show("chat")
    shown.defaults.sampling.temperature.setValue(0.5)
    assert controller.library.default_settings().sampling.temperature == 0.5
    shown.reset.click()
    assert controller.library.default_settings() == NEW_CHAT
    assert controller.conversation.settings == NEW_CHAT  # the open one is new as well
    controller.library.set_value("chat.settings", "damaged")
    assert controller.library.default_settings() == NEW_CHAT


@pytest.mark.parametrize("saved", [True, False])
def test_the_system_prompt_of_a_chat_is_not_that_of_new_ones(controller: Controller, saved: bool) -> None:
    """They have the one in the settings of new chats."""
    controller.library.set_default_settings(replace(NEW_CHAT, system="Be brief."))
    controller.open(1) if saved else controller.new()
    controller.change_settings(replace(NEW_CHAT, system="You are a pirate."))
    assert controller.conversation.settings.system == "You are a pirate."
    controller.new()
    assert controller.conversation.settings.system == "Be brief."


def test_escape_closes_the_settings_and_a_menu_shows_a_page(window: MainWindow) -> None:
    shown = window.settings.show("info")
    QTest.keyClick(shown, Qt.Key.Key_Escape)
    assert not shown.isVisible()
    window.commands["shortcuts"].trigger()
    assert shown.isVisible()
    assert shown.page == "keyboard"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"zoom": "big"}', '{"scheme": "pink"}', "\x00", "[" * 100_000])
def test_damaged_values_are_replaced_by_defaults(text: str) -> None:
    assert read(text, Preferences) == Preferences()
    assert read(text, Places) == Places()
    chosen = Preferences(scheme="dark", zoom=-2, tints=False)
    assert read(written(chosen), Preferences) == chosen


# --- the look ---------------------------------------------------------------------------------


def test_the_colours_of_the_appearance_are_shown_except_for_the_palette_of_macos(window: MainWindow) -> None:
    open_chat(window.controller, "Hello", "So.")
    before = QApplication.palette()
    window.change_preferences(scheme="dark")
    palette = QApplication.palette()
    shown = [palette.color(role).name() for role in (QPalette.ColorRole.Window, QPalette.ColorRole.Text)]
    assert palette == before if theme.NATIVE else shown == [DARK.background, DARK.text]
    assert f"color: {DARK.text}" in QApplication.instance().styleSheet()
    image = window.parts.transcript.grab().toImage()  # style sheets and palettes around it could hide it
    assert image.pixelColor(4, image.height() - 4).name() == DARK.background


@pytest.mark.parametrize("accent", ["#ffcc00", "#007aff", "#8c8c8c", "#ff2d55", "#000000", "#ffffff"])
@pytest.mark.parametrize("look", [LIGHT, DARK], ids=["light", "dark"])
def test_any_accent_of_the_system_is_readable(accent: str, look: Appearance) -> None:
    appearance = with_accent(look, accent)
    assert contrast(appearance.accent, appearance.background) >= READABLE
    assert contrast(appearance.accent, appearance.on_accent) >= READABLE


@pytest.mark.parametrize("look", [LIGHT, DARK], ids=["light", "dark"])
def test_every_colour_of_text_is_readable_on_every_background(look: Appearance) -> None:
    grounds = (look.background, look.sidebar, look.raised)
    inks = (look.text, look.faint, look.accent, look.good, look.warning, look.error)
    assert min(contrast(ink, ground) for ink in inks for ground in grounds) >= READABLE


def test_the_window_follows_the_system_unless_the_user_chose(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    for scheme, look in ((Qt.ColorScheme.Dark, DARK), (Qt.ColorScheme.Unknown, LIGHT)):
        monkeypatch.setattr(window.theme, "_hints", SimpleNamespace(colorScheme=lambda scheme=scheme: scheme))
        window.theme.follow()
        assert window.theme.appearance.scheme == look.scheme and theme.current() == window.theme.appearance
        assert look.background in QApplication.instance().styleSheet()


def test_macos_draws_its_own_controls(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (theme, form_fields):
        monkeypatch.setattr(module, "NATIVE", True)
    QApplication.setPalette(QApplication.style().standardPalette())
    before = QApplication.palette()
    window = open_window(controller)
    window.change_preferences(scheme="dark")
    window.show_side("chat settings")
    assert QApplication.palette() == before
    assert "QScrollBar" not in QApplication.instance().styleSheet()
    assert "QComboBox {" not in QApplication.instance().styleSheet()
    end(window)


def test_motion_is_full_if_the_mac_cannot_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theme, "NATIVE", True)
    monkeypatch.setattr("app.macos._runtime", lambda: None)
    assert not theme.system_reduces_motion()


# --- data -------------------------------------------------------------------------------------


def test_a_conversation_is_exported_copied_and_imported_or_the_reason_is_shown(
    window: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = window.controller
    controller.open(2)
    monkeypatch.setattr(files, "ask_export_path", lambda _, title, kind: tmp_path / f"{title}.{files.FORMATS[kind][0]}")
    window.commands["export markdown"].trigger()
    window.commands["copy conversation"].trigger()
    window.parts.sidebar.exported.emit(3, "json")
    assert (tmp_path / "Counting to thirty.md").read_text().startswith("# Counting to thirty")
    assert QApplication.clipboard().text().startswith("# Counting to thirty")
    assert (tmp_path / "Bread.json").read_text() == controller.library.export_json(3)
    monkeypatch.setattr(files, "ask_conversation", lambda _: tmp_path / "Bread.json")
    window.commands["import"].trigger()
    until(lambda: not controller.importing.running)
    assert controller.conversation.id == 5 and controller.conversation.title == "Bread"
    open_chat(controller, "Why <b>?", "So.")
    monkeypatch.setattr(files, "ask_export_path", lambda *_: tmp_path / "reply.html")
    window.commands["export page"].trigger()
    page = (tmp_path / "reply.html").read_text()
    assert "Why \\u003cb>?" in page and '"name":"Reply"' in page
    monkeypatch.setattr(files, "ask_export_path", lambda *_: tmp_path / "none" / "a.md")
    window.commands["export markdown"].trigger()
    banner = window.parts.notices.banners[0]
    assert banner.level == "error" and "a.md" in banner.text


def test_a_file_is_complete_or_not_written(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "ä\n")
    assert path.read_bytes() == "ä\n".encode()
    with pytest.raises(FileError, match="Choose another place"):
        write_text(tmp_path, "b")
    link = tmp_path / "link.txt"
    link.symlink_to("a.txt")
    write_text(link, "b\n")
    assert link.is_symlink() and path.read_bytes() == b"b\n"
    assert {entry.name for entry in tmp_path.iterdir()} == {"a.txt", "link.txt"}


@pytest.mark.parametrize(
    ("title", "name"), [("a/b: c?", "a b c"), ("..", "Chat"), ("", "Chat"), ("x" * 99, "x" * 60), ("a.", "a")]
)
def test_every_title_makes_a_file_name(title: str, name: str) -> None:
    assert file_name(title) == name


def test_all_conversations_are_exported_under_different_names(
    clock: SteppedClock, window: MainWindow, controller: Controller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2, 4):
        controller.deletion.delete(number)
    add_conversation(controller, "bread")
    add_conversation(controller, "")
    (tmp_path / "Chat.json").write_text("mine")
    monkeypatch.setattr(files, "ask_folder", lambda _: tmp_path)
    page = window.settings.show("data").data
    page.export.click()
    clock.settle()
    assert page.result.text().startswith("Exported 3 conversations to")
    names = sorted(path.name for path in tmp_path.glob("*.json"))
    assert names == ["Bread.json", "Chat 2.json", "Chat.json", "bread 2.json"]
    assert (tmp_path / "Chat.json").read_text() == "mine"


@pytest.mark.slow_for(str(SMALLEST))
@pytest.mark.parametrize("zoom", [SMALLEST, LARGEST])
def test_no_choice_is_clipped(window: MainWindow, controller: Controller, zoom: int) -> None:
    window.change_preferences(zoom=zoom)
    window.show_side("chat settings")
    tops = (window, window.settings.show("chat"), window.races.show())
    QApplication.processEvents()
    boxes = [one for top in tops for one in top.findChildren(QComboBox) if one.isVisible() and one.window() is top]
    assert len(boxes) > 10
    for box in boxes:
        option = QStyleOptionComboBox()
        box.initStyleOption(option)
        field = QStyle.SubControl.SC_ComboBoxEditField
        place = box.style().subControlRect(QStyle.ComplexControl.CC_ComboBox, option, field, box)
        widest = max(box.fontMetrics().horizontalAdvance(box.itemText(i)) for i in range(box.count()))
        assert widest <= place.width(), box.accessibleName()
    for kind in (QCheckBox, QToolButton):
        assert all(one.width() >= one.sizeHint().width() for one in tops[1].findChildren(kind) if one.isVisible())
    tops[2].close()


def test_a_field_that_has_been_laid_out_asks_for_no_other_layout(app: QApplication) -> None:
    page = QWidget()
    column(form_fields.Field("Temperature", form_fields.choice({"": "Any"}), help="Of what is drawn."), on=page)
    page.show()
    assert layouts_end()


def test_a_control_goes_below_its_name_where_both_do_not_fit(app: QApplication) -> None:
    page = QWidget()  # which decides how wide it is
    field = form_fields.Field("Temperature", form_fields.choice({"": "Any"}))
    field.setParent(page)
    page.show()
    box, width = field.findChild(QComboBox), form_fields.CONTROL_WIDTH
    assert box is not None
    both = width + form_fields.BESIDE + field.minimumSizeHint().width()
    for field_width in (both, both - 1, width - 100):
        field.resize(field_width, 300)
        QApplication.processEvents()
        assert box.width() == min(width, field_width) and (box.x() > 0) == (field_width == both)
