// npm: ai @ai-sdk/openai @ai-sdk/openai-compatible @ai-sdk/anthropic zod. Two turns, a stream, a call and its result, an object.
import assert from "node:assert";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, Output, streamText, tool } from "ai";
import { z } from "zod";

const { URL: baseURL, KEY: apiKey, MODEL: name } = process.env;
const openai = createOpenAI({ baseURL, apiKey });
const compatible = createOpenAICompatible({ name: "redline", baseURL, apiKey, supportsStructuredOutputs: true });
const models = {
  responses: openai(name),
  chat: openai.chat(name),
  compatible: compatible(name),
  anthropic: createAnthropic({ baseURL, apiKey })(name),
};
const place = z.object({ city: z.string().max(20) });
const weather = tool({ description: "tells the weather", inputSchema: place, execute: async () => "rain" });
const once = {
  openai: { parallelToolCalls: false },
  redline: { parallel_tool_calls: false },
  anthropic: { disableParallelToolUse: true },
};
for (const [kind, model] of Object.entries(models)) {
  const asked = { model, maxOutputTokens: 60, temperature: 0, maxRetries: 0 };
  const messages = [{ role: "user", content: "Name a city." }];
  const whole = await generateText({ ...asked, messages });
  assert.equal(await streamText({ ...asked, messages }).text, whole.text, kind);
  messages.push(...whole.response.messages, { role: "user", content: "Another one." });
  assert((await generateText({ ...asked, messages })).text, kind);
  const calling = { prompt: "The weather?", tools: { weather }, toolChoice: "required", providerOptions: once };
  const called = await generateText({ ...asked, ...calling });
  assert.equal(called.toolResults[0].output, "rain", kind);
  const after = [{ role: "user", content: "The weather?" }, ...called.response.messages];
  assert((await generateText({ ...asked, messages: after, tools: { weather }, toolChoice: "none" })).text, kind);
  const object = await generateText({ ...asked, prompt: "A city?", output: Output.object({ schema: place }) });
  assert(object.output.city.length <= 20, kind);
}
console.log("two turns, a stream, a call and its result, an object, over responses, chat, compatible and anthropic");
