"""The window's side of the local API: other programs share its loaded models and its queue.

program -> HTTP -> api_process -> api_requests -> the host's lines, one request at a time
                   `python -m app.api`

api_process     runs the API and exchanges lines with it
api_requests    the requests that wait, and the one that the host answers
api_server      whether programs are served, where, and with which models
api_window      what the user sees of it
"""
