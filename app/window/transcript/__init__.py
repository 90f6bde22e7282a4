"""The conversation as it streams and ever after: a virtual list of messages, each token with what is known of it."""

from app.window.transcript.telling import TokenDetail
from app.window.transcript.transcript import Transcript

__all__ = ["TokenDetail", "Transcript"]
