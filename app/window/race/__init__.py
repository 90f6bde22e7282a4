"""The race in the window: asked for, measured, replayed side by side, drawn as pictures.

opening   made by the main window: opens the race's own window, with a prompt or a race that was saved
asking    one race with the engine's host: loaded, asked, gathered, stopped, lost
window    the window: form above, and below what is measured or replayed
board     both sides at a time: what the window shows and the pictures are made of
drawing   pictures, in a process of its own: `python -m app.window.race.drawing`
"""
