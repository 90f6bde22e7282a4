# /// script
# dependencies = ["haystack-ai"]
# ///
"""Chat and text generators, and a call."""

import os

from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import Tool
from haystack.utils import Secret

asked = {"api_key": Secret.from_token(os.environ["KEY"]), "api_base_url": os.environ["URL"], "max_retries": 0}
given = {"max_tokens": 60, "temperature": 0}
chat = OpenAIChatGenerator(model=os.environ["MODEL"], generation_kwargs=given, **asked)
say, parts = [ChatMessage.from_user("Name a city.")], []
whole = chat.run(say)["replies"][0].text
assert whole == chat.run(say, streaming_callback=lambda part: parts.append(part.content))["replies"][0].text
assert "".join(parts) == whole
schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
tool = Tool("weather", "tells the weather", schema, lambda city: "rain")
answer = chat.run(say, tools=[tool], generation_kwargs={"tool_choice": "required"})["replies"][0]
assert answer.tool_calls[0].tool_name == "weather"
print("a stream equals the whole reply; a call")
