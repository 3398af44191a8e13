// One answer as it arrives, without a picture of it.

import { ApiError, chat, requestId } from "./api.js";

/** Tokens committed together.
 * `tokens` and `forwards` are null until, and unless, they are told; `took` is ms since the block before, or since
 * the request was sent. */
class Block {
  constructor(index, text, tokens, at, took) {
    Object.assign(this, { index, text, tokens, at, took, forwards: null });
  }
}

export class Answer {
  /** `seen` is called after every change, with the block that is new if there is one. */
  constructor(request, seen) {
    this.request = request;
    this.blocks = [];
    this.text = "";
    this.tokens = 0;
    this.log = []; // [ms since the request was sent, line]
    this.state = "waiting"; // running | done | stopped | failed
    this.place = null; // what the gateway says while the request waits
    this.finish = null;
    this.tokensPerForward = null;
    this.error = null;
    this.requestId = null;
    this.#seen = seen;
  }

  #seen;
  #abort = new AbortController();

  get open() {
    return this.state === "waiting" || this.state === "running";
  }

  /** Ms from sending to the last block, or until now. */
  get elapsed() {
    return (this.open ? performance.now() : this.#last) - this.started;
  }

  get toFirst() {
    return this.blocks.length ? this.blocks[0].took : null;
  }

  /** Over the time from sending to the last block. */
  get tokensPerSecond() {
    const took = this.#last - this.started;
    return this.tokens && took > 0 ? (1000 * this.tokens) / took : null;
  }

  get #last() {
    return this.blocks.length ? this.blocks.at(-1).at : this.ended ?? performance.now();
  }

  stop() {
    this.#abort.abort();
  }

  /** Asks, and reads to the end. Errors are kept in `error`. */
  async run(key) {
    this.started = performance.now();
    try {
      const { response, events } = await chat(this.request, key, this.#abort.signal);
      this.requestId = requestId(response);
      this.#note(`HTTP ${response.status}, x-request-id ${this.requestId}`);
      for await (const event of events) this.#take(event);
      this.#end("done");
    } catch (error) {
      if (this.#abort.signal.aborted) return this.#end("stopped");
      if (!(error instanceof ApiError)) console.error(error);
      this.error = error;
      this.requestId ??= error.requestId;
      if (error.status) this.#note(`HTTP ${error.status}, ${error.code ?? "no code"}: ${error.message}`);
      this.#end("failed");
    }
  }

  #end(state) {
    this.ended = performance.now();
    this.state = state;
    this.#seen();
  }

  #note(line, at = performance.now()) {
    this.log.push([at - this.started, line]);
  }

  #take({ at, data, comment }) {
    this.#note(data ?? `: ${comment}`, at);
    if (data === undefined) {
      this.place = comment;
      return this.#seen();
    }
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new ApiError(chunk.error);
    const choice = chunk.choices[0];
    const block = this.#block(choice?.delta?.content ?? "", choice?.token_ids, chunk.usage?.completion_tokens, at);
    this.finish = choice?.finish_reason ?? this.finish;
    if (chunk.dllm) this.#cost(chunk.dllm);
    if (block || this.finish) this.#seen(block);
  }

  /** The block that a chunk tells of. Its length is that of its ids, or else what the usage so far has grown by. */
  #block(text, ids, used, at) {
    const tokens = ids?.length ?? (used === undefined ? null : used - this.tokens);
    if (!text && !tokens) return null;
    const before = this.blocks.at(-1)?.at ?? this.started;
    const block = new Block(this.blocks.length, text, tokens, at, at - before);
    this.blocks.push(block);
    this.text += text;
    this.tokens += tokens ?? 0;
    this.state = "running";
    return block;
  }

  /** The gateway's statistics have a block more where one had no text to send. */
  #cost({ per_block, tokens_per_forward }) {
    this.tokensPerForward = tokens_per_forward;
    let next = 0;
    let told = 0;
    let shown = 0;
    for (const block of this.blocks) {
      shown += block.tokens ?? 0;
      let forwards = 0;
      while (next < per_block.length && told + per_block[next].tokens <= shown) {
        told += per_block[next].tokens;
        forwards += per_block[next++].forwards;
      }
      if (forwards) block.forwards = forwards;
    }
  }
}
