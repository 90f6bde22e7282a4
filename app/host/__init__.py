"""The engine in a process of its own: requests in, answers out, as `app.protocol` lines. `python -m app.host`.

stdin -> read_lines -> TaskQueue -> engine_loop -> worker -> AnswerWriter -> stdout
         \\___ a thread ___/        \\__________ the main thread _________/
  HTTP -> app.api -----^                 \\-> app.api -> HTTP            a thread, while other programs are served

server            reads requests and writes answers
engine_loop       carries out tasks and ends: the process boundary
model_worker      answers with a loaded pair; alone imports MLX
recording_player  answers from a recording instead

The window starts this process, watches over it and starts it again: `app.window.chat.host_process`.
"""
