// npm: @anthropic-ai/sdk. Messages whole and streamed, tokens counted, a call and its result.
import assert from "node:assert";
import Anthropic from "@anthropic-ai/sdk";

const { URL: url, KEY: apiKey, MODEL: model } = process.env;
const client = new Anthropic({ baseURL: url.replace(/\/v1$/, ""), apiKey, maxRetries: 0 });
const messages = [{ role: "user", content: "Name a city." }];
const asked = { model, messages, max_tokens: 60 };
const whole = await client.messages.create({ ...asked, temperature: 0 });
const stream = client.messages.stream({ ...asked, temperature: 0 });
assert.equal(await stream.finalText(), whole.content[0].text);
assert((await client.messages.countTokens({ model, messages })).input_tokens > 0);
const input_schema = { type: "object", properties: { city: { type: "string", maxLength: 20 } }, required: ["city"] };
const tools = [{ name: "weather", input_schema }];
const called = await client.messages.create({ ...asked, tools, tool_choice: { type: "any" } });
const result = { type: "tool_result", tool_use_id: called.content[0].id, content: "rain" };
const turns = [...messages, { role: "assistant", content: called.content }, { role: "user", content: [result] }];
assert((await client.messages.create({ ...asked, messages: turns, tools, tool_choice: { type: "none" } })).content[0].text);
console.log("a stream equals the whole message; tokens counted; a call and its result");
