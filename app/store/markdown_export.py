"""A conversation as Markdown, for people."""

from __future__ import annotations

from app.reply_statistics import in_words, receipt_in_words
from app.store.records import MessageRecord


def to_markdown(title: str, path: list[MessageRecord], statistics: bool) -> str:
    """Returns a branch as Markdown: headings say who speaks, attachments are fenced, notes and numbers in italics."""
    parts = [f"# {title or 'Conversation'}"]
    for record in path:
        parts.append("## You" if record.role == "user" else "## Reply")
        parts.append(record.content.strip() or "*(empty)*")
        if record.state in ("stopped", "cut", "failed"):
            parts.append(f"*{' '.join(f'{record.state.capitalize()}. {record.note}'.split())}*")
        if statistics and record.statistics is not None:
            parts.append(f"*{in_words(record.statistics)}*")
        if statistics and record.receipt is not None:
            parts.append(f"*Receipt: {receipt_in_words(record.receipt, record.stale)}*")
    return "\n\n".join(parts) + "\n"
