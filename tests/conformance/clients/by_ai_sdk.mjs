// A streamed chat and a tool call by Vercel's AI SDK: `node by_ai_sdk.mjs <asked.json >seen.json`.
import { readFileSync } from "node:fs";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const asked = JSON.parse(readFileSync(0, "utf8"));
const version = (name) => {
  const path = new URL(`./node_modules/${name}/package.json`, import.meta.url);
  return JSON.parse(readFileSync(path, "utf8")).version;
};
const provider = createOpenAICompatible({
  name: "dllm-stack",
  baseURL: asked.base_url,
  apiKey: "none",
  includeUsage: true,
});
const model = provider(asked.model);
const fail = ({ error }) => {
  throw error;
};

const chat = streamText({
  model,
  prompt: asked.question,
  maxOutputTokens: asked.max_tokens,
  maxRetries: 0,
  onError: fail,
});
let text = "";
let pieces = 0;
for await (const piece of chat.textStream) {
  text += piece;
  pieces += 1;
}

const told = streamText({
  model,
  prompt: asked.tool_question,
  maxRetries: 0,
  onError: fail,
  stopWhen: stepCountIs(2),
  tools: {
    get_weather: tool({
      description: "The weather in a city",
      inputSchema: z.object({ city: z.string() }),
      execute: async () => asked.weather,
    }),
  },
});
await told.consumeStream();
const [first] = await told.steps;

process.stdout.write(
  JSON.stringify({
    client: `ai ${version("ai")}, @ai-sdk/openai-compatible ${version("@ai-sdk/openai-compatible")}`,
    text,
    pieces,
    tokens: (await chat.usage).outputTokens,
    finish: await chat.finishReason,
    calls: first.toolCalls.map((call) => ({ name: call.toolName, arguments: call.input })),
    call_finish: first.finishReason,
    report: await told.text,
  }),
);
