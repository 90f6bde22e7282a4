"""What a controller tells: its signals, and nothing else."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal


class Signals(QObject):
    """Signals carry the records named here; lists are the listener's to keep.

    conversations_changed()             opened(ConversationRecord)       settings_changed(ConversationRecord)
    path_changed(list[MessageRecord])   reply_began(MessageRecord)       told(int, list[Told]), once a frame
    progress(int, PromptProgress)       reply_ended(MessageRecord)       speculation_changed(Speculating)
    loaded(Loaded)                      counted(int, int)                notice(Notice)
    busy_changed(bool): whether a reply of the open conversation is being written.
    verifying(int, str): how far the check of a message is, for people; "" once it is over. verified(MessageRecord).
    unverified(int, str): why a message cannot be checked.

    A reply is told only while it is on the way shown. One that goes on behind another conversation is kept all the
    same; when its conversation is opened it is part of the way, and `reply_began` comes for it again.
    """

    conversations_changed = Signal()
    opened = Signal(object)
    settings_changed = Signal(object)
    path_changed = Signal(object)
    reply_began = Signal(object)
    told = Signal(int, object)
    progress = Signal(int, object)
    reply_ended = Signal(object)
    speculation_changed = Signal(object)
    loaded = Signal(object)
    counted = Signal(int, int)
    notice = Signal(object)
    busy_changed = Signal(bool)
    verifying = Signal(int, str)
    verified = Signal(object)
    unverified = Signal(int, str)
