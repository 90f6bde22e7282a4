"""A reply as all who show or store it see it: `Reply` is made from rounds, `ReplyLog` writes them to disk first."""

from app.reply.reply import Change, InconsistentRound, Reply, Section, Span, TokenDetail
from app.reply.reply_log import ReplyLog

__all__ = ["Change", "InconsistentRound", "Reply", "ReplyLog", "Section", "Span", "TokenDetail"]
