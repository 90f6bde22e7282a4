"""Between the controller and what shows a conversation: what happens goes to the parts, what is asked goes back."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QStackedWidget

from app.protocol import Loaded, Told
from app.records import Attachment, ConversationRecord, MessageRecord
from app.window.shell.chat_panel import ChatPanel
from app.window.shell.composer import Composer
from app.window.shell.conversations import UNTITLED
from app.window.shell.drafts import Drafts
from app.window.shell.header import Header, words_of
from app.window.shell.notices import Notices
from app.window.shell.preferences import Draft
from app.window.shell.sidebar import Sidebar
from app.window.shell.welcome import Welcome

if TYPE_CHECKING:
    from app.window.controller import Controller, Notice, Speculating
    from app.window.inspector import Inspector
    from app.window.transcript import Transcript


class Parts(NamedTuple):
    """What shows a conversation. middle: the transcript, or the welcome where nothing has been said."""

    sidebar: Sidebar
    header: Header
    notices: Notices
    middle: QStackedWidget
    welcome: Welcome
    transcript: Transcript
    composer: Composer
    inspector: Inspector
    panel: ChatPanel


class Conversing(QObject):
    """Holds no state but which reply the inspector shows, and whether that knows: out of sight, it is not told."""

    def __init__(self, controller: Controller, parts: Parts, parent: QObject) -> None:
        super().__init__(parent)
        self._controller, self._parts = controller, parts
        self._inspected: MessageRecord | None = None
        self._untold = False
        self.drafts = Drafts(controller, self)
        self._hear()
        self._ask()
        self._open(controller.conversation)
        self._list()
        self._show_path(controller.path)
        self._speculate(controller.speculating)
        if controller.loaded_pair is not None:
            self._load(controller.loaded_pair)
        parts.composer.set_busy(controller.busy)

    @property
    def last_reply(self) -> MessageRecord | None:
        """Of the way shown."""
        return next((r for r in reversed(self._controller.path) if r.role == "assistant"), None)

    def edit_last(self) -> None:
        """Let the last question be written again."""
        asked = next((r for r in reversed(self._controller.path) if r.role == "user"), None)
        if asked is not None and not self._controller.busy:
            self._parts.composer.begin_edit(asked.id, asked.text)

    def _hear(self) -> None:
        controller, parts = self._controller, self._parts
        controller.opened.connect(self._open)
        controller.settings_changed.connect(self._show_settings)
        controller.conversations_changed.connect(self._list)
        controller.path_changed.connect(self._show_path)
        controller.reply_began.connect(self._begin)
        controller.told.connect(self._tell)
        controller.progress.connect(parts.transcript.progress)
        controller.reply_ended.connect(self._end)
        controller.speculation_changed.connect(self._speculate)
        controller.loaded.connect(self._load)
        controller.counted.connect(parts.composer.set_count)
        controller.notice.connect(self._notify)
        controller.busy_changed.connect(parts.composer.set_busy)
        controller.verifying.connect(parts.transcript.set_checking)
        controller.verified.connect(parts.transcript.set_checked)
        controller.unverified.connect(parts.transcript.set_uncheckable)

    def _ask(self) -> None:
        controller, parts = self._controller, self._parts
        for name in ("regenerate", "resume", "edit", "select", "verify"):
            getattr(parts.transcript, name).connect(getattr(controller, name))
        composer, sidebar, panel = parts.composer, parts.sidebar, parts.panel
        composer.sent.connect(self._send)
        composer.edited.connect(self._edit)
        composer.stop_asked.connect(controller.stop)
        composer.edit_last_asked.connect(self.edit_last)
        composer.changed.connect(self._keep_draft)
        composer.refused.connect(lambda said: parts.notices.show_notice("warning", said))
        sidebar.opened.connect(self._open_hit)
        sidebar.renamed.connect(controller.rename)
        sidebar.pinned.connect(controller.pin)
        sidebar.deleted.connect(controller.delete)
        sidebar.new.clicked.connect(lambda: controller.new())
        panel.changed.connect(controller.change_settings)
        panel.presets.used.connect(controller.use_preset)
        panel.presets.saved.connect(self._save_preset)
        panel.presets.deleted.connect(self._delete_preset)
        parts.welcome.chosen.connect(lambda text: self._send(text, ()))

    # --- what happens --------------------------------------------------------------------------

    def _open(self, conversation: ConversationRecord) -> None:
        self.drafts.write()
        parts = self._parts
        parts.composer.set_draft(self.drafts.of(conversation.id))
        self._count_draft(parts.composer.draft)
        parts.sidebar.set_open(conversation.id or None)
        self._title()
        self._show_settings(conversation)
        parts.composer.editor.setFocus()

    def _show_settings(self, conversation: ConversationRecord) -> None:
        self._parts.panel.show_chat(conversation.settings, self._controller.presets())

    def _list(self) -> None:
        records = self._controller.conversations()
        self._parts.sidebar.show_all(records)
        self._parts.sidebar.set_open(self._controller.conversation.id or None)
        self._parts.welcome.set_first(not records)
        self._parts.composer.set_busy(self._controller.busy)
        self._title()

    def _title(self) -> None:
        title = self._controller.conversation.title or UNTITLED
        self._parts.header.show_title(title)
        self._parts.header.window().setWindowTitle(title)

    def _show_path(self, path: list[MessageRecord]) -> None:
        parts = self._parts
        parts.transcript.show_path(path, self._controller.told_of)
        parts.middle.setCurrentWidget(parts.transcript if path else parts.welcome)
        self._inspect(self.last_reply)

    def _begin(self, record: MessageRecord) -> None:
        self._parts.transcript.begin(record)
        self._inspect(record)

    def _tell(self, message: int, told: list[Told]) -> None:
        self._parts.transcript.tell(message, told)
        if self._inspected is not None and message == self._inspected.id and not self._untold:
            self._parts.inspector.tell(told)

    def _end(self, record: MessageRecord) -> None:
        self._parts.transcript.end(record)
        if self._inspected is not None and record.id == self._inspected.id:
            self._inspected = record
            if not self._untold:
                self._parts.inspector.end(record)

    def _inspect(self, record: MessageRecord | None) -> None:
        self._inspected, self._untold = record, True
        self.look_at_inspector()

    def look_at_inspector(self) -> None:
        """The inspector may have come into sight."""
        record, inspector = self._inspected, self._parts.inspector
        if not (self._untold and inspector.isVisibleTo(inspector.window())):
            return
        self._untold = False
        if record is None:
            inspector.clear()
            return
        inspector.show_reply(self._controller.told_of(record.id), record.statistics)

    def _speculate(self, state: Speculating) -> None:
        word, rest = words_of(state)
        self._parts.header.chip.show_state(state)
        said = f"{word}: {state.said or rest}" if state.said or rest else word
        self._parts.panel.show_state(said.rstrip(".") + ".")
        ready = state.state in ("on", "off", "unsupported", "fell back") and bool(state.target)
        self._parts.welcome.show_model(state.target, ready)

    def _load(self, loaded: Loaded) -> None:
        self._parts.inspector.set_loaded(loaded)
        self._parts.composer.set_model(loaded.target)
        self._parts.panel.form.set_context(loaded.context)

    def _notify(self, notice: Notice) -> None:
        self._parts.notices.show_notice(notice.level, notice.text, notice.actions)

    # --- what is asked -------------------------------------------------------------------------

    def _send(self, text: str, attachments: tuple[Attachment, ...]) -> None:
        if not self._controller.send(text, attachments):
            draft = Draft(text=text, attachments=attachments)
            self._parts.composer.set_draft(draft)
            self._keep_draft(draft)

    def _edit(self, message: int, text: str) -> None:
        if not self._controller.edit(message, text):
            self._parts.composer.begin_edit(message, text)

    def _keep_draft(self, draft: Draft) -> None:
        self.drafts.keep(self._controller.conversation.id, draft)
        self._count_draft(draft)

    def _count_draft(self, draft: Draft) -> None:
        self._controller.draft_changed(draft.text, draft.attachments)

    def _open_hit(self, conversation: int, message: int | None) -> None:
        """Open what was found; a message that another version hides is brought forward."""
        if conversation != self._controller.conversation.id:
            self._controller.open(conversation)
        if message is None or conversation != self._controller.conversation.id:
            return
        if all(record.id != message for record in self._controller.path):
            self._controller.select(message)
        self._parts.transcript.reveal(message)

    def _save_preset(self, name: str) -> None:
        self._controller.save_preset(name)
        self._show_settings(self._controller.conversation)

    def _delete_preset(self, name: str) -> None:
        settings = self._controller.presets().get(name)
        self._controller.delete_preset(name)
        self._show_settings(self._controller.conversation)
        if settings is not None:
            self._parts.notices.show_notice("info", f"The preset “{name}” is deleted.")
