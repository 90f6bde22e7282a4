# /// script
# dependencies = ["outlines[openai]"]
# ///
"""A text and a structured answer."""

import os

import openai
import outlines
from pydantic import BaseModel, Field


class Place(BaseModel):
    city: str = Field(max_length=20)


client = openai.OpenAI(base_url=os.environ["URL"], api_key=os.environ["KEY"], max_retries=0)
model = outlines.from_openai(client, os.environ["MODEL"])
assert model("Name a city.", max_tokens=20)
assert "".join(model.stream("Name a city.", max_tokens=20))
assert len(Place.model_validate_json(model("A city?", Place, max_tokens=60)).city) <= 20
print("a text, a stream, a structured answer")
