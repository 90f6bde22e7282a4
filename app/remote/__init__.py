"""Other programs that speak OpenAI's chat protocol, as sides of a race and contestants of a benchmark.

openai_client  the one place that sends anything: a prompt to a server that the user named; and when what came back came
server_reply   its reply as the engine's events, in tokens of the loaded model, and what the server says of it

A server is believed in nothing that can be measured: times are those of arrival, tokens are counted here.
"""
