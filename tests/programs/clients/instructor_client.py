# /// script
# dependencies = ["instructor"]
# ///
"""Structured answers in three of its ways."""

import os

import instructor
import openai
from pydantic import BaseModel, Field


class Place(BaseModel):
    city: str = Field(max_length=20)


client = openai.OpenAI(base_url=os.environ["URL"], api_key=os.environ["KEY"], max_retries=0)
say = [{"role": "user", "content": "Name a city."}]
for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA, instructor.Mode.RESPONSES_TOOLS):
    asked = {"model": os.environ["MODEL"], "response_model": Place, "max_retries": 0}
    answer = instructor.from_openai(client, mode=mode).create(messages=say, **asked)
    assert isinstance(answer, Place) and len(answer.city) <= 20
print("structured answers by tools, JSON schema and responses")
