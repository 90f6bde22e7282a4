# /// script
# dependencies = ["aiohttp"]
# ///
"""Requests in a row over one connection, and a stream read as it comes."""

import asyncio
import json
import os

import aiohttp


async def main() -> None:
    body = {"model": os.environ["MODEL"], "max_tokens": 16, "temperature": 0}
    body["messages"] = [{"role": "user", "content": "Name a city."}]
    path, head = f"{os.environ['URL']}/chat/completions", {"Authorization": f"Bearer {os.environ['KEY']}"}
    async with aiohttp.ClientSession(headers=head) as session:
        for _ in range(2):
            async with session.post(path, json=body) as answer:
                whole = (await answer.json())["choices"][0]["message"]["content"]
        text = ""
        async with session.post(path, json=body | {"stream": True}) as answer:
            async for line in answer.content:
                if line.startswith(b"data: {"):
                    text += json.loads(line[6:])["choices"][0]["delta"].get("content") or ""
    assert text == whole


asyncio.run(main())
print("a stream equals the whole reply, over one connection")
