// One answer as it arrives, without a picture of it.

import { ApiError, chat, requestId } from "./api.js";

/** Tokens committed together.
 * `forwards` is null until the end, and where nobody tells; `took` is ms since the block before, or since the request
 * was sent. */
class Block {
  constructor(index, text, tokens, at, took) {
    Object.assign(this, { index, text, tokens, at, took, forwards: null });
  }
}

export class Answer {
  /** `seen` is called after every change, with the block that is new or has grown, if there is one. */
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
    return this.blocks.length ? this.blocks.at(-1).at : (this.ended ?? performance.now());
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
    const block = choice && this.#block(choice.delta.content ?? "", choice.token_ids.length, at);
    this.finish = choice?.finish_reason ?? this.finish;
    if (chunk.dllm) this.#cost(chunk.dllm);
    if (block || this.finish) this.#seen(block);
  }

  /** The block that a chunk tells of: a new one, or the last one when the text that it held back comes without any
   * tokens; null: none. */
  #block(text, tokens, at) {
    const last = this.blocks.at(-1);
    this.text += text;
    this.tokens += tokens;
    if (!tokens && last) {
      last.text += text;
      return text ? last : null;
    }
    if (!tokens && !text) return null;
    this.state = "running";
    const block = new Block(this.blocks.length, text, tokens, at, at - (last?.at ?? this.started));
    this.blocks.push(block);
    return block;
  }

  #cost({ per_block, tokens_per_forward }) {
    this.tokensPerForward = tokens_per_forward;
    const told = per_block.filter(({ tokens }) => tokens);
    for (const [index, block] of this.blocks.entries()) block.forwards = told[index]?.forwards || null;
  }
}
