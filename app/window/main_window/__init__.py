"""The window itself: sidebar, composer, menus, settings, and the places of the transcript and the inspector.

`main_window.MainWindow` is the whole.
"""
