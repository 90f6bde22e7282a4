"""The conversation on screen: a virtual list of messages, whose tokens show what is known of them."""

from app.window.transcript.transcript import Transcript

__all__ = ["Transcript"]
