"""Connects the controller with the parts that show a conversation: events go to the parts, requests go back."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QStackedWidget

from app.protocol import Loaded, RoundDone
from app.store.records import Attachment, ConversationRecord, MessageRecord
from app.window.common.preferences import DRAFT, Draft, read, written
from app.window.composer.composer import Composer
from app.window.main_window.header import Header, status_text
from app.window.main_window.notice_banners import NoticeBanners
from app.window.main_window.welcome import Welcome
from app.window.settings.chat_panel import ChatPanel
from app.window.sidebar.conversation_list import UNTITLED
from app.window.sidebar.sidebar import Sidebar

if TYPE_CHECKING:
    from app.window.chat import Controller, Notice, SpeculationStatus
    from app.window.chat.conversation_library import ConversationLibrary
    from app.window.inspector import Inspector
    from app.window.transcript import Transcript

SAVE_DRAFT_MS = 400  # after the last key


class Parts(NamedTuple):
    """The parts that show a conversation. middle: the transcript, or the welcome page where there are no messages."""

    sidebar: Sidebar
    header: Header
    notices: NoticeBanners
    middle: QStackedWidget
    welcome: Welcome
    transcript: Transcript
    composer: Composer
    inspector: Inspector
    panel: ChatPanel


class UnsentDrafts(QObject):
    """Saves what is typed in each conversation, so that not even a crash loses it: a moment after the last change."""

    def __init__(self, library: ConversationLibrary, parent: QObject) -> None:
        super().__init__(parent)
        self._library = library
        self._unsaved: dict[int, Draft] = {}
        self._timer = QTimer(self, singleShot=True, interval=SAVE_DRAFT_MS)
        self._timer.timeout.connect(self.save)

    def of(self, conversation: int) -> Draft:
        """Returns the draft of a conversation."""
        if conversation in self._unsaved:
            return self._unsaved[conversation]
        return read(self._library.value(DRAFT.format(conversation)), Draft)

    def change(self, conversation: int, draft: Draft) -> None:
        """Replaces the draft of a conversation."""
        self._unsaved[conversation] = draft
        self._timer.start()

    def save(self) -> None:
        """Saves all drafts now."""
        self._timer.stop()
        for conversation, draft in self._unsaved.items():
            self._library.set_value(DRAFT.format(conversation), written(draft) if draft else "")
        self._unsaved.clear()


class ChatPresenter(QObject):
    """Its only state is the reply in the inspector, which is filled once it is in sight."""

    def __init__(self, controller: Controller, parts: Parts, parent: QObject) -> None:
        super().__init__(parent)
        self._controller, self._parts = controller, parts
        self._inspected: MessageRecord | None = None
        self._inspector_outdated = False
        self.drafts = UnsentDrafts(controller.library, self)
        self._connect_events()
        self._connect_requests()
        self._show_conversation(controller.conversation)
        self._show_list()
        self._show_path(controller.path)
        self._show_status(controller.status)
        if controller.loaded_pair is not None:
            self._show_pair(controller.loaded_pair)
        parts.composer.set_busy(controller.busy)

    @property
    def last_reply(self) -> MessageRecord | None:
        """The last reply of the current branch."""
        return next((r for r in reversed(self._controller.path) if r.role == "assistant"), None)

    def edit_last(self) -> None:
        """Opens the last question for editing."""
        question = next((r for r in reversed(self._controller.path) if r.role == "user"), None)
        if question is not None and not self._controller.busy:
            self._parts.composer.begin_edit(question.id, question.text)

    def fill_inspector(self) -> None:
        """Shows the inspected reply, if the inspector is in sight and does not show it yet."""
        record, inspector = self._inspected, self._parts.inspector
        if not (self._inspector_outdated and inspector.isVisibleTo(inspector.window())):
            return
        self._inspector_outdated = False
        if record is None:
            inspector.clear()
        else:
            inspector.show_reply(self._controller.rounds_of(record.id), record.statistics)

    def _connect_events(self) -> None:
        controller, parts = self._controller, self._parts
        controller.conversation_opened.connect(self._show_conversation)
        controller.settings_changed.connect(self._show_settings)
        controller.conversations_changed.connect(self._show_list)
        controller.path_changed.connect(self._show_path)
        controller.reply_began.connect(self._begin_reply)
        controller.rounds_received.connect(self._add_rounds)
        controller.prompt_progressed.connect(parts.transcript.show_progress)
        controller.reply_ended.connect(self._end_reply)
        controller.status_changed.connect(self._show_status)
        controller.pair_loaded.connect(self._show_pair)
        controller.context_counted.connect(parts.composer.set_count)
        controller.notice.connect(self._show_notice)
        controller.busy_changed.connect(parts.composer.set_busy)
        controller.verification_progressed.connect(parts.transcript.show_verification_progress)
        controller.reply_verified.connect(parts.transcript.show_receipt)
        controller.verification_failed.connect(parts.transcript.show_verification_error)

    def _connect_requests(self) -> None:
        controller, parts = self._controller, self._parts
        for name in ("regenerate", "resume", "edit", "select", "verify"):
            getattr(parts.transcript, name).connect(getattr(controller, name))
        composer, sidebar, panel = parts.composer, parts.sidebar, parts.panel
        composer.sent.connect(self._send)
        composer.edited.connect(self._edit)
        composer.stop_asked.connect(controller.stop)
        composer.edit_last_asked.connect(self.edit_last)
        composer.changed.connect(self._change_draft)
        composer.refused.connect(lambda text: parts.notices.show_notice("warning", text))
        sidebar.opened.connect(self._open_hit)
        sidebar.renamed.connect(controller.library.rename)
        sidebar.pinned.connect(controller.library.pin)
        sidebar.deleted.connect(controller.delete)
        sidebar.new.clicked.connect(lambda: controller.new())
        panel.changed.connect(controller.change_settings)
        panel.presets.used.connect(controller.use_preset)
        panel.presets.saved.connect(self._save_preset)
        panel.presets.deleted.connect(self._delete_preset)
        parts.welcome.chosen.connect(lambda text: self._send(text, ()))

    # --- events --------------------------------------------------------------------------------

    def _show_conversation(self, conversation: ConversationRecord) -> None:
        self.drafts.save()
        parts = self._parts
        parts.composer.set_draft(self.drafts.of(conversation.id))
        self._count(parts.composer.draft)
        parts.sidebar.set_open(conversation.id or None)
        self._show_title()
        self._show_settings(conversation)
        parts.composer.editor.setFocus()

    def _show_settings(self, conversation: ConversationRecord) -> None:
        self._parts.panel.show_chat(conversation.settings, self._controller.library.presets())

    def _show_list(self) -> None:
        records = self._controller.library.conversations()
        self._parts.sidebar.show_all(records)
        self._parts.sidebar.set_open(self._controller.conversation.id or None)
        self._parts.welcome.set_first(not records)
        self._parts.composer.set_busy(self._controller.busy)
        self._show_title()

    def _show_title(self) -> None:
        title = self._controller.conversation.title or UNTITLED
        self._parts.header.show_title(title)
        self._parts.header.window().setWindowTitle(title)

    def _show_path(self, path: list[MessageRecord]) -> None:
        parts = self._parts
        parts.transcript.show_branch(path, self._controller.rounds_of)
        parts.middle.setCurrentWidget(parts.transcript if path else parts.welcome)
        self._inspect(self.last_reply)

    def _begin_reply(self, record: MessageRecord) -> None:
        self._parts.transcript.begin_reply(record)
        self._inspect(record)

    def _add_rounds(self, message: int, rounds: list[RoundDone]) -> None:
        self._parts.transcript.add_rounds(message, rounds)
        if self._inspected is not None and message == self._inspected.id and not self._inspector_outdated:
            self._parts.inspector.add_rounds(rounds)

    def _end_reply(self, record: MessageRecord) -> None:
        self._parts.transcript.end_reply(record)
        if self._inspected is not None and record.id == self._inspected.id:
            self._inspected = record
            if not self._inspector_outdated:
                self._parts.inspector.end(record)

    def _inspect(self, record: MessageRecord | None) -> None:
        self._inspected, self._inspector_outdated = record, True
        self.fill_inspector()

    def _show_status(self, status: SpeculationStatus) -> None:
        word, rest = status_text(status)
        self._parts.header.chip.show_status(status)
        text = f"{word}: {status.detail or rest}" if status.detail or rest else word
        self._parts.panel.show_state(text.rstrip(".") + ".")
        ready = status.state in ("on", "off", "unsupported", "fell back") and bool(status.target)
        self._parts.welcome.show_model(status.target, ready)

    def _show_pair(self, loaded: Loaded) -> None:
        self._parts.inspector.set_loaded(loaded)
        self._parts.composer.set_model(loaded.target)
        self._parts.panel.form.set_context(loaded.context)

    def _show_notice(self, notice: Notice) -> None:
        self._parts.notices.show_notice(notice.level, notice.text, notice.actions)

    # --- requests ------------------------------------------------------------------------------

    def _send(self, text: str, attachments: tuple[Attachment, ...]) -> None:
        if not self._controller.send(text, attachments):
            draft = Draft(text=text, attachments=attachments)
            self._parts.composer.set_draft(draft)
            self._change_draft(draft)

    def _edit(self, message: int, text: str) -> None:
        if not self._controller.edit(message, text):
            self._parts.composer.begin_edit(message, text)

    def _change_draft(self, draft: Draft) -> None:
        self.drafts.change(self._controller.conversation.id, draft)
        self._count(draft)

    def _count(self, draft: Draft) -> None:
        self._controller.set_draft(draft.text, draft.attachments)

    def _open_hit(self, conversation: int, message: int | None) -> None:
        """Opens a search result; a message on another branch has its branch shown."""
        if conversation != self._controller.conversation.id:
            self._controller.open(conversation)
        if message is None or conversation != self._controller.conversation.id:
            return
        if all(record.id != message for record in self._controller.path):
            self._controller.select(message)
        self._parts.transcript.reveal(message)

    def _save_preset(self, name: str) -> None:
        self._controller.library.save_preset(name, self._controller.conversation.settings)
        self._show_settings(self._controller.conversation)

    def _delete_preset(self, name: str) -> None:
        library = self._controller.library
        existed = name in library.presets()
        library.delete_preset(name)
        self._show_settings(self._controller.conversation)
        if existed:
            self._parts.notices.show_notice("info", f"The preset “{name}” was deleted.")
