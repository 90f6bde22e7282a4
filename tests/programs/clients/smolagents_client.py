# /// script
# dependencies = ["smolagents[openai]"]
# ///
"""A reply, whole and streamed, and a call that it wants."""

import os

from smolagents import OpenAIServerModel, tool
from smolagents.models import ChatMessage, MessageRole


@tool
def weather(city: str) -> str:
    """Tells the weather.

    Args:
        city: where
    """
    return "rain"


asked = {"api_base": os.environ["URL"], "api_key": os.environ["KEY"], "max_tokens": 60, "temperature": 0}
model = OpenAIServerModel(os.environ["MODEL"], **asked)
turns = [ChatMessage(role=MessageRole.USER, content=[{"type": "text", "text": "Name a city."}])]
whole = model.generate(turns).content
assert "".join(part.content or "" for part in model.generate_stream(turns)) == whole
(call,) = model.generate(turns, tools_to_call_from=[weather]).tool_calls
assert call.function.name == "weather"
print("a stream equals the whole reply; a call")
