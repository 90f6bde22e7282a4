"""Connects the controller with the parts that show a conversation: events go to the parts, requests and commands back.

What is typed is saved for each conversation a moment after the last key, so that not even a crash loses it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace
from PySide6.QtCore import QObject, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QStackedWidget, QWidget

from app.protocol import Loaded
from app.replay_page import Lane, replay_page
from app.reply_statistics import in_words
from app.store.records import NEW_CHAT, UNTITLED, Attachment, ConversationRecord, MessageRecord
from app.window.chat.notices import Notice, SpeculationStatus
from app.window.common.file_output import FileError, write_text
from app.window.common.preferences import DRAFT, Draft, read, written
from app.window.common.status_line import StatusLine
from app.window.common.timer import Timer
from app.window.composer.composer import Composer
from app.window.main_window import files
from app.window.main_window.header import Header, NoticeBanners, status_text
from app.window.main_window.menus import STOP_VERIFYING, VERIFY, Commands
from app.window.main_window.welcome import Welcome
from app.window.models.known_models import BUILTIN, BUILTIN_NAME
from app.window.settings.chat_panel import ChatPanel
from app.window.sidebar.sidebar import Sidebar
from app.window.transcript.reply_tile import can_continue

if TYPE_CHECKING:
    from app.window.chat import Controller
    from app.window.inspector import Inspector
    from app.window.transcript import Transcript

SAVE_DRAFT_MS = 400  # after the last key


class Parts(NamedTuple):
    """The parts that show a conversation. middle: the transcript, or the welcome page where there are no messages."""

    sidebar: Sidebar
    header: Header
    notices: NoticeBanners
    progress: StatusLine
    middle: QStackedWidget
    welcome: Welcome
    transcript: Transcript
    composer: Composer
    inspector: Inspector
    panel: ChatPanel


class ChatPresenter(QObject):
    """Shows events of the controller in the parts, and hands what the user does in them to the controller.

    window: the parent of dialogs.
    """

    def __init__(self, controller: Controller, parts: Parts, commands: Commands, window: QWidget) -> None:
        super().__init__(window)
        self._controller, self._parts, self._commands, self._window = controller, parts, commands, window
        self._inspected: MessageRecord | None = None  # the reply in the inspector
        self._inspector_outdated = False
        self._draft = Draft()  # of the open conversation
        self._unsaved_drafts: dict[int, Draft] = {}  # by conversation
        self._draft_timer = Timer(self, singleShot=True, interval=SAVE_DRAFT_MS)
        self._draft_timer.timeout.connect(self.save_drafts)
        self._connect_events()
        self._connect_requests()
        self._connect_commands()
        self._show_conversation(controller.conversation)
        self._show_list()
        self._show_path(controller.path)
        self._show_status(controller.pair.status)
        if controller.host.loaded is not None:
            self._show_pair(controller.host.loaded)
        parts.composer.set_busy(controller.busy)
        self.update_commands()

    def edit_last(self) -> None:
        """Opens the last question for editing."""
        question = self._controller.last("user")
        if question is not None and not self._controller.busy:
            self._parts.transcript.begin_edit(question.id, self._parts.composer.editor)

    def fill_inspector(self) -> None:
        """Shows the inspected reply, if the inspector is in sight and does not show it yet."""
        record, inspector = self._inspected, self._parts.inspector
        if not (self._inspector_outdated and inspector.isVisibleTo(inspector.window())):
            return
        self._inspector_outdated = False
        if record is None:
            inspector.clear()
        else:
            inspector.show_reply(self._controller.replies.reply_of(record.id), record.statistics)
            self._show_machines(self._controller.host.loaded)

    def _connect_events(self) -> None:
        controller, parts = self._controller, self._parts
        controller.conversation_opened.connect(self._show_conversation)
        controller.settings_changed.connect(self._show_settings)
        controller.library.changed.connect(self._show_list)
        controller.library.updated.connect(self._show_update)
        controller.path_changed.connect(self._show_path)
        controller.reply_began.connect(self._begin_reply)
        controller.replies.changed.connect(parts.transcript.show_change)
        controller.replies.changed.connect(self._grow_inspector)
        controller.replies.progress.connect(parts.transcript.show_progress)
        controller.replies.waiting.connect(parts.transcript.show_waiting)
        controller.replies.running_changed.connect(self._show_writing)
        controller.reply_ended.connect(self._end_reply)
        controller.pair.status_changed.connect(self._show_status)
        controller.host.pair_loaded.connect(self._show_pair)
        controller.pair.counted.connect(parts.composer.set_count)
        controller.notice.connect(parts.notices.show_notice)
        controller.importing.progressed.connect(self._show_import)
        parts.progress.stop_asked.connect(controller.importing.cancel)
        controller.busy_changed.connect(parts.composer.set_busy)
        controller.trimmer.progressed.connect(parts.composer.show_summary)
        controller.verification.progressed.connect(parts.transcript.show_verification_progress)
        controller.verification.verified.connect(parts.transcript.show_receipt)
        controller.verification.failed.connect(parts.transcript.show_verification_error)
        for signal in (
            *(controller.conversation_opened, controller.library.changed, controller.path_changed),
            *(controller.reply_began, controller.reply_ended, controller.busy_changed),
            *(controller.pair.status_changed, controller.verification.progressed),
        ):
            signal.connect(self.update_commands)

    def _connect_requests(self) -> None:
        controller, parts = self._controller, self._parts
        for name in ("regenerate", "resume", "select", "delete_version", "verify"):
            getattr(parts.transcript, name).connect(getattr(controller, name))
        parts.transcript.edit.connect(self._edit)
        parts.transcript.edit_changed.connect(self._change_edit)
        composer, sidebar, panel = parts.composer, parts.sidebar, parts.panel
        composer.sent.connect(self._send)
        composer.trim_asked.connect(controller.send_trimmed)
        composer.new_asked.connect(controller.new)
        controller.question_sent.connect(self._clear_draft)
        composer.stop_asked.connect(controller.stop)
        composer.edit_last_asked.connect(self.edit_last)
        composer.changed.connect(self._change_draft)
        composer.refused.connect(lambda text: controller.notice.emit(Notice("warning", text)))
        composer.noted.connect(lambda text: controller.notice.emit(Notice("info", text)))
        composer.attach_asked.connect(self.attach)
        sidebar.opened.connect(self._open_hit)
        sidebar.renamed.connect(controller.library.rename)
        sidebar.pinned.connect(controller.library.pin)
        sidebar.deleted.connect(controller.deletion.delete)
        sidebar.exported.connect(self.export)
        sidebar.copied.connect(self.copy)
        sidebar.imported.connect(self.import_file)
        sidebar.new.clicked.connect(lambda: controller.new())
        panel.changed.connect(controller.change_settings)
        panel.presets.used.connect(self._use_preset)
        panel.presets.saved.connect(self._save_preset)
        panel.presets.deleted.connect(self._delete_preset)
        panel.reset.connect(lambda: controller.change_settings(NEW_CHAT))
        parts.welcome.chosen.connect(lambda text: self._send(text, ()))

    def _connect_commands(self) -> None:
        controller, parts = self._controller, self._parts
        self._commands.connect_all(
            {
                "new": controller.new,
                "attach": self.attach,
                "import": self.import_file,
                "export markdown": lambda: self.export(controller.conversation.id, "markdown"),
                "export json": lambda: self.export(controller.conversation.id, "json"),
                "export page": lambda: self._with_last_reply(self.export_page),
                "copy conversation": lambda: self.copy(controller.conversation.id),
                "edit last": self.edit_last,
                "find": parts.transcript.find_bar.begin,
                "find next": lambda: parts.transcript.find_next(1),
                "find previous": lambda: parts.transcript.find_next(-1),
                "stop": controller.stop,
                "regenerate": lambda: self._with_last_reply(controller.regenerate),
                "resume": lambda: self._with_last_reply(controller.resume),
                "verify": self._verify,
                "unload": controller.pair.unload,
                "message": lambda: parts.composer.editor.setFocus(Qt.FocusReason.ShortcutFocusReason),
                "previous": lambda: self._open_neighbour(-1),
                "next": lambda: self._open_neighbour(1),
                "rename": lambda: parts.sidebar.rename(controller.conversation.id),
                "delete": lambda: controller.deletion.delete(controller.conversation.id),
                "report": controller.host.copy_error_report,
                "logs": self._show_logs,
            }
        )
        self._commands["pin"].triggered.connect(lambda on: controller.library.pin(controller.conversation.id, on))

    # --- events --------------------------------------------------------------------------------

    def _show_conversation(self, conversation: ConversationRecord) -> None:
        self.save_drafts()
        parts, saved = self._parts, self._controller.library.value(DRAFT.format(conversation.id))
        self._draft = read(saved, Draft)
        parts.composer.set_draft(self._draft)
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
        self._show_title()

    def _show_writing(self) -> None:
        self._parts.sidebar.show_writing(self._controller.replies.conversations())

    def _show_update(self, record: ConversationRecord) -> None:
        self._parts.sidebar.show_update(record)
        self._parts.sidebar.set_open(self._controller.conversation.id or None)
        self._parts.welcome.set_first(False)
        self._show_title()

    def _show_title(self) -> None:
        title = self._controller.conversation.title or UNTITLED
        self._parts.header.show_title(title)
        self._parts.header.window().setWindowTitle(title)

    def _show_path(self, path: list[MessageRecord]) -> None:
        parts = self._parts
        parts.transcript.show_branch(path, self._controller.replies.reply_of, self._draft.edits)
        parts.middle.setCurrentWidget(parts.transcript if path else parts.welcome)
        self._inspect(self._controller.last("assistant"))

    def _begin_reply(self, record: MessageRecord) -> None:
        self._parts.transcript.begin_reply(record)
        self._inspect(record)

    def _grow_inspector(self, message: int) -> None:
        if self._inspected is not None and message == self._inspected.id and not self._inspector_outdated:
            self._parts.inspector.grow()

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
        self._show_machines(loaded)
        self._parts.composer.set_model(loaded.target)
        self._parts.panel.form.set_model(loaded)

    def _show_machines(self, loaded: Loaded | None) -> None:
        """Has the inspector estimate what the network took, where the machines of the loaded pair wrote its reply."""
        pair = self._inspected.pair if self._inspected is not None else None
        same = pair and loaded and (pair.target, pair.hosts) == (loaded.pair.target, loaded.pair.hosts)
        self._parts.inspector.set_machines(loaded.machines if loaded and same else None)

    # --- requests ------------------------------------------------------------------------------

    def _send(self, text: str, attachments: tuple[Attachment, ...]) -> None:
        if not self._controller.send(text, attachments):
            draft = Draft(text=text, attachments=attachments)
            self._parts.composer.set_draft(draft)
            self._change_draft(draft)

    def _clear_draft(self) -> None:
        """Empties the composer: what waited there was sent."""
        self._parts.composer.set_draft(Draft())
        self._change_draft(Draft())

    def _edit(self, message: int, text: str) -> None:
        if self._controller.edit(message, text):
            self._change_edit(message, "")
            self._parts.composer.editor.setFocus()

    def _change_edit(self, message: int, text: str) -> None:
        """Keeps the new text of a message until it is saved; "" is none."""
        others = {edited: edit for edited, edit in self._draft.edits.items() if edited != message}
        self._keep_draft(replace(self._draft, edits=others | {message: text} if text else others))

    def _change_draft(self, draft: Draft) -> None:
        self._keep_draft(replace(draft, edits=self._draft.edits))
        self._count(draft)

    def _keep_draft(self, draft: Draft) -> None:
        self._draft = self._unsaved_drafts[self._controller.conversation.id] = draft
        self._draft_timer.start()

    def save_drafts(self) -> None:
        """Saves what is typed in every conversation."""
        self._draft_timer.stop()
        for conversation, draft in self._unsaved_drafts.items():
            self._controller.library.set_value(DRAFT.format(conversation), written(draft) if draft else "")
        self._unsaved_drafts.clear()

    def _count(self, draft: Draft) -> None:
        self._controller.pair.set_draft(draft.text, draft.attachments)

    def _open_hit(self, conversation: int, message: int | None) -> None:
        """Opens a search result; a message on another branch has its branch shown."""
        if conversation != self._controller.conversation.id:
            self._controller.open(conversation)
        if message is None or conversation != self._controller.conversation.id:
            return
        if all(record.id != message for record in self._controller.path):
            self._controller.select(message)
        self._parts.transcript.reveal(message)

    def _use_preset(self, name: str) -> None:
        if (settings := self._controller.library.presets().get(name)) is not None:
            self._controller.change_settings(settings)

    def _save_preset(self, name: str) -> None:
        self._controller.library.save_preset(name, self._controller.conversation.settings)
        self._show_settings(self._controller.conversation)

    def _delete_preset(self, name: str) -> None:
        library = self._controller.library
        existed = name in library.presets()
        library.delete_preset(name)
        self._show_settings(self._controller.conversation)
        if existed:
            self._controller.notice.emit(Notice("info", f"The preset “{name}” was deleted."))

    # --- commands ------------------------------------------------------------------------------

    def attach(self) -> None:
        """Asks for files to attach."""
        if paths := files.ask_attachments(self._window):
            self._parts.composer.attach_files(paths)

    def import_file(self) -> None:
        """Asks for an exported conversation to import."""
        if path := files.ask_conversation(self._window):
            self._controller.import_file(str(path))

    def _show_import(self, text: str, share: float) -> None:
        line = self._parts.progress
        if not text:
            line.clear()
        elif line.isHidden():
            line.show_progress(text)
        else:
            line.text.setText(text)
            line.show_share(share)

    def export(self, conversation: int, kind: str) -> None:
        """Asks where to save a conversation, and saves it. kind: one of files.FORMATS."""
        library = self._controller.library
        found = library.find(conversation)
        path = files.ask_export_path(self._window, found.title if found and found.title else UNTITLED, kind)
        text_of = library.export_json if kind == "json" else library.export_markdown
        if path is not None and (text := text_of(conversation)):
            self._write(path, text)

    def export_page(self, reply: int) -> None:
        """Asks where to save a reply as a web page that plays it, and saves it."""
        controller = self._controller
        record = controller.find(reply)
        question = controller.find(record.parent or 0) if record is not None else None
        path = files.ask_export_path(self._window, controller.conversation.title or UNTITLED, "page")
        if path is None or record is None:
            return
        name = record.pair.target.rstrip("/").rpartition("/")[2] if record.pair is not None else "Reply"
        lane = Lane(BUILTIN_NAME if name == BUILTIN else name, "", controller.rounds_of(reply))
        numbers = in_words(record.statistics) if record.statistics is not None else ""
        self._write(path, replay_page(question.text if question is not None else "", [lane], numbers, ""))

    def _write(self, path: Path, text: str) -> None:
        try:
            write_text(path, text)
        except FileError as error:
            self._controller.notice.emit(Notice("error", str(error)))
        else:
            self._controller.notice.emit(Notice("info", f"Exported to “{path.name}”."))

    def copy(self, conversation: int) -> None:
        """Copies a conversation to the clipboard as Markdown."""
        if text := self._controller.library.export_markdown(conversation):
            QGuiApplication.clipboard().setText(text)
            self._controller.notice.emit(Notice("info", "Conversation copied as Markdown."))

    def _verify(self) -> None:
        """Stops the verification in progress, or verifies the last reply."""
        if (message := self._controller.verification.message) is not None:
            self._controller.verify(message)
        else:
            self._with_last_reply(self._controller.verify)

    def _show_logs(self) -> None:
        """Shows the folder of the log in the Finder, or what the system has for it."""
        if (file := self._controller.host.log_file) is not None:
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(file.parent)))

    def _open_neighbour(self, step: int) -> None:
        """Opens the conversation above or below in the sidebar."""
        current = self._controller.conversation.id
        neighbour = self._parts.sidebar.conversations.neighbour(current or None, step)
        if neighbour is not None and neighbour != current:
            self._controller.open(neighbour)

    def update_commands(self, *_: object) -> None:
        """Enables the commands that can be used now."""
        controller, commands = self._controller, self._commands
        saved, busy, last = bool(controller.conversation.id), controller.busy, self._controller.last("assistant")
        verifying = controller.verification.message is not None
        idle_reply = last is not None and not busy
        for name in ("export markdown", "export json", "copy conversation", "rename", "pin", "delete"):
            commands[name].setEnabled(saved)
        for name in ("regenerate", "edit last", "export page"):
            commands[name].setEnabled(idle_reply)
        commands["pin"].setChecked(controller.conversation.pinned)
        commands["stop"].setEnabled(busy)
        commands["resume"].setEnabled(bool(idle_reply and last and can_continue(last)))
        commands["verify"].setText(STOP_VERIFYING if verifying else VERIFY)
        commands["verify"].setEnabled(verifying or bool(idle_reply and last and last.checkable))
        commands["logs"].setEnabled(controller.host.log_file is not None)
        commands["unload"].setEnabled(controller.host.loaded is not None and not controller.in_use)

    def _with_last_reply(self, action: Callable[[int], object]) -> None:
        last = self._controller.last("assistant")
        if last is not None:
            action(last.id)
