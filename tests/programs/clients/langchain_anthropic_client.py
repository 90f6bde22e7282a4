# /// script
# dependencies = ["langchain-anthropic"]
# ///
"""A reply, whole and streamed; a call; structured answers in both ways."""

import os

from langchain_anthropic import ChatAnthropic
from pydantic import BaseModel, Field


class Place(BaseModel):
    """A place."""

    city: str = Field(max_length=20)


model = ChatAnthropic(
    model=os.environ["MODEL"], base_url=os.environ["URL"].removesuffix("/v1"), api_key=os.environ["KEY"],
    max_tokens=60, temperature=0, max_retries=0,
)  # fmt: skip
whole = model.invoke("Name a city.")
assert "".join(part.text for part in model.stream("Name a city.")) == whole.text and whole.usage_metadata
(call,) = model.bind_tools([Place], tool_choice="Place").invoke("A city?").tool_calls
assert set(call["args"]) == {"city"}
for method in ("json_schema", "function_calling"):
    assert len(model.with_structured_output(Place, method=method).invoke("A city?").city) <= 20
print("a stream equals the whole reply; a call; structured answers in both ways")
