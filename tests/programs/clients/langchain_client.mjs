// npm: @langchain/openai @langchain/core zod. Chat, completion, a call, a structured answer.
import assert from "node:assert";
import { ChatOpenAI, OpenAI } from "@langchain/openai";
import { z } from "zod";

const { URL: baseURL, KEY: apiKey, MODEL: model } = process.env;
const asked = { model, apiKey, configuration: { baseURL }, maxTokens: 60, temperature: 0, maxRetries: 0 };
const chat = new ChatOpenAI(asked);
const whole = (await chat.invoke("Name a city.")).content;
let text = "";
for await (const part of await chat.stream("Name a city.")) text += part.content;
assert.equal(text, whole);
assert(await new OpenAI(asked).invoke("A city is"));
const place = z.object({ city: z.string().max(20) });
const tool = { name: "weather", description: "tells the weather", schema: place };
const called = await chat.bindTools([tool], { tool_choice: "weather" }).invoke("The weather?");
assert.equal(called.tool_calls[0].name, "weather");
for (const method of ["jsonSchema", "functionCalling"])
  assert((await chat.withStructuredOutput(place, { method }).invoke("A city?")).city !== undefined);
console.log("a stream equals the whole reply; a completion; a call; structured answers in both ways");
