"""What the window does, without widgets: conversations, replies, the engine's host, notices."""

from app.window.controller.controller import Controller
from app.window.controller.values import Notice, Speculating, title_of

__all__ = ["Controller", "Notice", "Speculating", "title_of"]
