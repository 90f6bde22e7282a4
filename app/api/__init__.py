"""The local API for other programs: the protocols of OpenAI and Anthropic over HTTP, on loopback alone.

HTTP -> access -> application -> chat_completions ... -> reply_stream -> host_client -> the host's lines

access            who may ask, and how much: key, Host, Origin, type, sizes, depth, time
request_reading   the body of a request as a record; what is ignored, left out or refused by name
request_schema    these records and their bounds
omissions         what a request asks for and its reply does without
turns, tools      conversations and tools of the three protocols, as the host takes them
reply_stream      the host's answers as text, tokens, counts and times: one fold for every endpoint
host_client       the host's protocol over a pair of asyncio streams
own_host          the host of `redline serve`, replaced when it is stuck
loopback_server   uvicorn on 127.0.0.1
key_file          the key that clients give

`redline serve` (app/cli/serve.py) starts a host of its own and runs it. For the window it is a process, `python -m
app.api`, whose host is the window (app/window/api).
"""
