# /// script
# dependencies = ["pydantic-ai-slim[openai,anthropic]"]
# ///
"""Agents over three protocols; answers by a tool and by a schema, with a tool beside."""

import os

from pydantic import BaseModel, Field
from pydantic_ai import Agent, NativeOutput, UsageLimitExceeded, UsageLimits
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider


class Place(BaseModel):
    city: str = Field(max_length=20)


calls: list[str] = []


def weather(city: str) -> str:
    """Tells the weather."""
    calls.append(city)
    return "rain"


url, key, name = os.environ["URL"], os.environ["KEY"], os.environ["MODEL"]
openai = OpenAIProvider(base_url=url, api_key=key)
anthropic = AnthropicProvider(base_url=url.removesuffix("/v1"), api_key=key)
models = [OpenAIChatModel(name, provider=openai), OpenAIResponsesModel(name, provider=openai)]
for model in [*models, AnthropicModel(name, provider=anthropic)]:
    agent = Agent(model, system_prompt="Be brief.", model_settings={"max_tokens": 60, "temperature": 0})
    agent.system_prompt(lambda: "Name cities.")
    first = agent.run_sync("Name a city.")
    second = agent.run_sync("Another one.", message_history=first.all_messages())
    assert first.output and second.output
    assert len(agent.run_sync("A city?", output_type=Place).output.city) <= 20
    calls.clear()
    agent.tool_plain(weather)
    if model in models:
        try:
            asked = {"output_type": NativeOutput(Place), "usage_limits": UsageLimits(request_limit=2)}
            assert len(agent.run_sync("A city?", **asked).output.city) <= 20
        except UsageLimitExceeded:  # so small a model may go on calling
            assert calls
print("two turns, answers by a tool and by a schema, over three protocols")
