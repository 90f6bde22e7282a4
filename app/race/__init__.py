"""Races: two ways of decoding one prompt, measured one after the other, then replayed side by side.

race_runs       the runs on a loaded target, and what the two runs of a pair have in common
race_document   a race as JSON, its results, and what builds it from the answers that report it
race_replay     what both sides show at a time, and the clock of a replay
race_text       names, numbers and sentences for people
race_animation  a replay as an animated file, whose frames somebody else draws
race_export     has the pictures of a race drawn, by a process that paints the board of the window

Only `race_runs` imports what decodes. The commands are in `app.cli`, the window is in `app.window.race`.
"""
