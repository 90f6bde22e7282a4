# /// script
# dependencies = ["llama-index-llms-openai-like"]
# ///
"""Chat and completion, whole and streamed, and a call."""

import os

from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike

model = OpenAILike(
    model=os.environ["MODEL"], api_base=os.environ["URL"], api_key=os.environ["KEY"], is_chat_model=True,
    is_function_calling_model=True, context_window=8192, max_tokens=60, temperature=0, max_retries=0,
)  # fmt: skip
say = [ChatMessage(role="user", content="Name a city.")]
whole = model.chat(say).message.content
assert [*model.stream_chat(say)][-1].message.content == whole
assert [*model.stream_complete("Name a city.")][-1].text == model.complete("Name a city.").text
tool = FunctionTool.from_defaults(lambda city: "rain", name="weather", description="tells the weather")
answer = model.chat_with_tools([tool], user_msg="The weather?", tool_required=True)
(call,) = model.get_tool_calls_from_response(answer)
assert call.tool_name == "weather"
print("streams equal the whole replies; a call")
