"""The Settings window, and the panel of the open chat's settings. They show values and emit changed ones.

settings_window  the pages; a preference applies at once (`MainWindow.set_preferences`)
chat_panel       the settings of a chat and their presets; they apply from the next reply (`Controller.change_settings`)
pair_form        its models
sampling_form    its sampling
info_pages       where the data is, keyboard shortcuts, versions and licences

The defaults are in `app.window.common.preferences` and, of a chat, in `app.store.records`.
"""
