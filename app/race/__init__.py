"""Races: two ways of decoding one prompt, measured one after the other, then replayed side by side.

Held        contest     the runs on a loaded target            receipts    what two runs have in common
Kept        document    a race as JSON                          faults      what the types of a document do not tell
            gathering   from what is told to its document       sides       a side as it is typed
Shown       results     medians and spreads over the runs       replaying   what both sides show at a time
            player      the clock of a replay                   words       names and sentences for people
            frames      the moments of an animation             drawing     how pictures are asked for
            command     `redline race`                          terminal    a race in a terminal

Only contest, receipts and command import what decodes. Terminal, window and pictures show a race by the rest alone;
the window's part, and what draws, is `app.window.race`.
"""
