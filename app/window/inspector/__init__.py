"""What can be seen of the speculation beside the chat: the inspector, the legend, the meter of the context."""

from app.window.inspector.inspector import Inspector
from app.window.inspector.legend import Legend
from app.window.inspector.meter import ContextMeter

__all__ = ["ContextMeter", "Inspector", "Legend"]
