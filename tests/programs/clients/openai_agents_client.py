# /// script
# dependencies = ["openai-agents"]
# ///
"""Agents over chat and responses: a session, and a structured answer with a tool beside."""

import os

import agents
from agents import Agent, ModelSettings, Runner, SQLiteSession, function_tool
from openai import AsyncOpenAI
from pydantic import BaseModel, Field


class Place(BaseModel):
    city: str = Field(max_length=20)


calls: list[str] = []


@function_tool
def weather(city: str) -> str:
    """Tells the weather."""
    calls.append(city)
    return "rain"


agents.set_tracing_disabled(True)
client = AsyncOpenAI(base_url=os.environ["URL"], api_key=os.environ["KEY"], max_retries=0)
settings = ModelSettings(max_tokens=60, temperature=0)
for kind in (agents.OpenAIChatCompletionsModel, agents.OpenAIResponsesModel):
    model = kind(os.environ["MODEL"], client)
    # Structured, as the client refuses a text that max_tokens cuts off.
    agent = Agent("guide", instructions="Be brief.", model=model, model_settings=settings, output_type=Place)
    session = SQLiteSession("x")
    for question in ("Name a city.", "Another one."):
        assert len(Runner.run_sync(agent, question, session=session).final_output.city) <= 20
    structured = agent.clone(tools=[weather])
    try:
        assert len(Runner.run_sync(structured, "Name a city.", max_turns=2).final_output.city) <= 20
    except agents.MaxTurnsExceeded:  # so small a model may go on calling
        assert calls
print("two turns of a session, a structured answer with a tool beside, over chat and responses")
