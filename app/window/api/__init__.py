"""The window's side of the local API, which the engine's process serves (app/api).

api_server      whether programs are served, where, and with which models
api_window      what the user sees of it
"""
