"""The window itself: sidebar, composer, menus, settings, and the places of the transcript and the inspector.

`window.MainWindow` is the whole.
"""
