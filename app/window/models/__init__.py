"""The Models page: what this machine can run, which drafter goes with it, how much faster that is, and getting it.

Everything is asked of child processes (`python -m app models ... --json`), so that the window never waits and imports
neither MLX nor huggingface_hub.

opening    made by the main window: owns the library and the downloads, opens the page, names what is here for the forms
documents  what the children print, as frozen records
asking     children that answer with one document, a few at a time
library    what is known: asked anew whenever something came or went
shelf      from that to sections of rows; pure
download   one download as a fold over its events; pure
pulling    the queue of downloads: one child at a time, paused when the app quits
window     the page: the machine above, the list at the left, the details at the right
listing    the list as a model and a view; rows draws it
details    the right side, made of title, downloading, fitting, drafting and facts
wording    numbers and verdicts in words
deleting   what would go, asked before it goes
"""
