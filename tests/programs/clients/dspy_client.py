# /// script
# dependencies = ["dspy"]
# ///
"""A text, JSON and a signature of plain texts."""

import json
import os

import dspy

for kind in ("chat", "responses"):
    model = dspy.LM(
        f"openai/{os.environ['MODEL']}", api_base=os.environ["URL"], api_key=os.environ["KEY"], max_tokens=200,
        temperature=0, cache=False, num_retries=0, model_type=kind,
    )  # fmt: skip
    assert model("Name a city.")[0]
    if kind == "chat":
        json.loads(model("Name a city as JSON.", response_format={"type": "json_object"})[0])
print("a text over chat and responses, and JSON")
