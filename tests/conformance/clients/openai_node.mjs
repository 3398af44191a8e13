// Sends requests by openai-node: `node openai_node.mjs <questions.json >seen.json`.
import { readFileSync } from "node:fs";
import OpenAI from "openai";
import { VERSION } from "openai/version";

const AT_ONCE = 8;
const asked = JSON.parse(readFileSync(0, "utf8"));
const client = new OpenAI({ baseURL: asked.base_url, apiKey: "none", maxRetries: 0, timeout: 250_000 });
const root = asked.base_url.replace(/\/v1$/, "");

function send({ path, body, raw }) {
  if (!raw && path === "/v1/chat/completions") return client.chat.completions.create(body);
  if (!raw && path === "/v1/completions") return client.completions.create(body);
  return client.post(`${root}${path}`, { body, stream: body.stream === true });
}

async function ask(question) {
  const seen = {};
  try {
    const answer = await send(question);
    if (Symbol.asyncIterator in answer) {
      seen.events = [];
      for await (const event of answer) seen.events.push(event);
    } else {
      seen.document = answer;
    }
  } catch (error) {
    const { status, code, param, type } = error;
    seen.error = { class: error.constructor.name, status, code, param, type, message: error.message };
  }
  return seen;
}

const seen = new Array(asked.questions.length);
let next = 0;
async function worker() {
  while (next < asked.questions.length) {
    const number = next++;
    seen[number] = await ask(asked.questions[number]);
  }
}
await Promise.all(Array.from({ length: AT_ONCE }, worker));
process.stdout.write(JSON.stringify({ version: VERSION, seen }));
