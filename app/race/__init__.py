"""Races: two ways of decoding one prompt, measured one after the other, then replayed side by side.

race_runs       the runs on a loaded target, and what the two runs of a pair have in common
race_document   a race as JSON, its results, and what builds it from the answers that report it
race_replay     what both sides show at a time, and the clock of a replay
race_text       names, numbers and sentences for people
race_picture    a moment of a replay drawn by Pillow, with the fonts of `race_fonts`
race_export     the picture and the animation of a race as files

Only `race_runs` imports what decodes. The commands are in `app.cli`, the window is in `app.window.race`.
"""
