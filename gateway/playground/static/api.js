// The gateway's API. Paths are relative to the page, so that it works behind a prefix too.

import { events } from "./events.js";

const CHAT = new URL("v1/chat/completions", document.baseURI);
const MODELS = new URL("v1/models", document.baseURI);

export const requestId = (response) => response.headers.get("x-request-id");

/** What the API says of a request that did not succeed.
 * `response` is null where there is none, or its status told nothing of it. */
export class ApiError extends Error {
  constructor({ message, code = null, param = null }, response = null) {
    super(message);
    const status = response?.status ?? 0;
    Object.assign(this, { status, code, param, retryAfter: response?.headers.get("retry-after") });
    this.requestId = response && requestId(response);
  }
}

const headers = (key) => (key ? { authorization: `Bearer ${key}` } : {});

async function ask(url, options) {
  let response;
  try {
    response = await fetch(url, { cache: "no-store", ...options });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError({ message: "The gateway cannot be reached." });
  }
  if (response.ok) return response;
  let said;
  try {
    said = (await response.json()).error;
  } catch {
    // Of a proxy, say.
  }
  const message = said?.message ?? `HTTP ${response.status} ${response.statusText}`.trim();
  throw new ApiError({ ...said, message }, response);
}

/** The models, each as /v1/models lists it. */
export async function models(key) {
  const response = await ask(MODELS, { headers: headers(key) });
  return (await response.json()).data;
}

/** A streamed chat: the response, and its events. One that ends without `[DONE]` raises. */
export async function chat(request, key, signal) {
  const response = await ask(CHAT, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers(key) },
    body: JSON.stringify(request),
    signal,
  });
  return { response, events: whole(response.body, signal) };
}

async function* whole(body, signal) {
  let done = false;
  try {
    for await (const event of events(body)) {
      done = event.data === "[DONE]";
      yield event;
    }
  } catch (error) {
    if (signal.aborted) throw error;
  }
  if (!done) throw new ApiError({ message: "The answer broke off: the connection was lost." });
}

/** The same request for a shell. The key is not in it. */
export function curl(request, key) {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  return [
    `curl -N ${quoted(CHAT.href)}`,
    `-H 'Content-Type: application/json'`,
    ...(key ? [`-H "Authorization: Bearer $API_KEY"`] : []),
    `-d ${quoted(JSON.stringify(request))}`,
  ].join(" \\\n  ");
}
