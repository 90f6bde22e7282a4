// npm: openai. Chat whole and streamed, responses, and a call.
import assert from "node:assert";
import OpenAI from "openai";

const { URL: baseURL, KEY: apiKey, MODEL: model } = process.env;
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const asked = { model, messages: [{ role: "user", content: "Name a city." }], max_tokens: 16, temperature: 0 };
const whole = (await client.chat.completions.create(asked)).choices[0].message.content;
let text = "";
for await (const part of await client.chat.completions.create({ ...asked, stream: true }))
  text += part.choices[0]?.delta.content ?? "";
assert.equal(text, whole);
assert((await client.responses.create({ model, input: "Name a city.", max_output_tokens: 16 })).output_text);
const parameters = { type: "object", properties: { city: { type: "string", maxLength: 20 } }, required: ["city"] };
const tools = [{ type: "function", function: { name: "weather", parameters } }];
const answer = await client.chat.completions.create({ ...asked, max_tokens: 60, tools, tool_choice: "required" });
assert.equal(answer.choices[0].message.tool_calls[0].function.name, "weather");
console.log("a stream equals the whole reply; responses; a call");
