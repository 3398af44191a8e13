// Run with openai-node: `node stream.mjs BASE_URL MODEL` prints what it saw as JSON.
import OpenAI from "openai";

const [baseURL, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
const messages = [{ role: "user", content: "Write the number from 1 to 128" }];

let text = "";
let chunks = 0;
let usage = null;
const stream = await client.chat.completions.create({
  model,
  messages,
  max_tokens: 80,
  stream: true,
  stream_options: { include_usage: true },
});
for await (const chunk of stream) {
  usage = chunk.usage ?? usage;
  const content = chunk.choices[0]?.delta?.content;
  if (content) {
    text += content;
    chunks += 1;
  }
}

let refused = null;
try {
  await client.chat.completions.create({ model, messages, presence_penalty: 1 });
} catch (error) {
  refused = { status: error.status, code: error.code, param: error.param, type: error.type };
}
console.log(JSON.stringify({ streamed: text, streamed_tokens: usage.completion_tokens, chunks, refused }));
