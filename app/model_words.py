"""Models and drafters in words, for the terminal and for the window. Imports nothing that takes time."""

from __future__ import annotations

# by the name that --drafter takes
DRAFTER_TITLES = {"eagle3": "EAGLE-3", "medusa": "Medusa", "draft": "draft model", "lookup": "prompt lookup"}
