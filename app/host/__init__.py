"""The engine in a process of its own: requests in, answers out, as `app.protocol` lines. `python -m app.host`.

stdin -> lines -> Reader -> TaskQueue -> serve -> Worker -> AnswerWriter -> stdout
         \\________ a thread ______/   \\______ the main thread _______/

lines     bytes to lines, however long        room       the worker with a model: load, exchange, count
inbox     what waits, and what is stopped     opened     a loaded pair, its costs, its caches put right
desk      Reader and serve: the boundary      answering  one reply, with or without its drafter to the end
outbox    whole lines, and the recording      watched    a drafter whose errors and times are known
main      streams, signals, leaving           replay     the worker with a recording
"""
