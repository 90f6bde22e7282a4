"""The engine in a process of its own: requests in, answers out, as `app.protocol` lines. `python -m app.host`.

stdin -> read_lines -> TaskQueue -> serve -> worker -> AnswerWriter -> stdout
         \\___ a thread ___/        \\_______ the main thread ________/

server            reads, answers and ends: the process boundary
task_queue        the requests that wait, and the one that is being answered
model_worker      answers with a loaded pair; alone imports MLX
verify_job        checks a finished reply for it
recording_player  answers from a recording instead

The window starts this process, watches over it and starts it again: `app.window.chat.host_process`.
"""
