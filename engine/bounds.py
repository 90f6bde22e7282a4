"""Bounds of a law that are checked where nothing heavy may be loaded, too."""

MOST_TEMPERATURE = MOST_PENALTY = 100.0  # nothing is left of a law far below
