"""The local API for other programs: the protocols of OpenAI and Anthropic over HTTP, on loopback alone.

HTTP -> access -> application -> endpoint -> reply_stream -> engine_client -> the engine's queue

access            who may ask, and how much: key, Host, Origin, type, sizes, time
endpoint          a request read, answered, and told as a document or a stream, in the form of its protocol:
                  chat_completions, completions, responses, anthropic_messages
request_reading   the body of a request as a record; what is ignored, left out or refused by name
request_schema    these records and their bounds, and the grammar that `response_format` asks for
thinking_fields   how much a model thinks, by the field of any client
api_errors        what is refused, and what a request asks for and its reply does without
turns, tools      conversations and tools of the three protocols, as the host takes them
reply_stream      the engine's answers as text, tokens, counts and times: one fold for every endpoint
engine_client     requests as tasks of the engine's queue (app/task_queue.py), and the watchdog that ends them
http_replies      a reply as JSON or as server-sent events
recent_responses  what /v1/responses remembers
loopback_server   uvicorn on 127.0.0.1, and how long connections are kept
api_thread        the thread of the engine's process in which all this runs
key_file          the key that clients give, the address and the port
agents            the commands that start agents of other makers
openapi           the page of the interface

The window has its host serve (app/host/server.py); `redline serve` is a process of the same kind (app/cli/serve.py).
"""
