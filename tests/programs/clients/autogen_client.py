# /// script
# dependencies = ["autogen-ext[openai]", "autogen-agentchat"]
# ///
"""An assistant, a stream and a structured answer."""

import asyncio
import os

from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import SystemMessage, UserMessage
from autogen_ext.models.openai import OpenAIChatCompletionClient
from pydantic import BaseModel, Field


class Place(BaseModel):
    city: str = Field(max_length=20)


async def main() -> None:
    info = {"vision": False, "function_calling": True, "json_output": True, "structured_output": True}
    client = OpenAIChatCompletionClient(
        model=os.environ["MODEL"], base_url=os.environ["URL"], api_key=os.environ["KEY"], max_tokens=60, temperature=0,
        max_retries=0, model_info=info | {"family": "unknown", "multiple_system_messages": True},
    )  # fmt: skip
    turns = [SystemMessage(content="Be brief."), SystemMessage(content="Name cities.")]
    turns.append(UserMessage(content="Name a city.", source="user"))
    whole = (await client.create(turns)).content
    parts = [part async for part in client.create_stream(turns)]
    assert "".join(part for part in parts if isinstance(part, str)) == whole == parts[-1].content
    answer = await client.create(turns, json_output=Place)
    assert len(Place.model_validate_json(answer.content).city) <= 20
    assert (await AssistantAgent("guide", client).run(task="Name a city.")).messages[-1].content


asyncio.run(main())
print("a stream equals the whole reply; a structured answer; an assistant")
