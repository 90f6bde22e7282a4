"""The inspector of the speculation beside the chat, and the legend of the token tints."""

from app.window.inspector.inspector import Inspector
from app.window.inspector.reply_summary import NumberTile
from app.window.inspector.token_painter import Legend

__all__ = ["Inspector", "Legend", "NumberTile"]
