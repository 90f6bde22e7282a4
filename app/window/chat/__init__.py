"""What the window does, without widgets: conversations, replies, the connection to the host process, and notices."""

from app.window.chat.controller import Controller
from app.window.chat.conversation_library import title_of
from app.window.chat.notices import Notice, SpeculationStatus

__all__ = ["Controller", "Notice", "SpeculationStatus", "title_of"]
