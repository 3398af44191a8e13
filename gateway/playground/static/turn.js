// A question and its answer as they are seen.

import { curl } from "./api.js";
import { element, show } from "./dom.js";
import { count, duration, rate } from "./format.js";
import { hideTip, showTip } from "./tip.js";

const LIVE_MS = 100;
const MANY = 120; // blocks, between which there is no room for gaps

/** What is told of an answer: name, value or null, and how it is written. */
const FIGURES = [
  ["TTFT", ({ toFirst, open, elapsed }) => toFirst ?? (open ? elapsed : null), duration],
  ["tokens/s", ({ tokensPerSecond }) => tokensPerSecond, rate],
  ["tokens/forward", ({ tokensPerForward }) => tokensPerForward, rate],
  ["tokens", ({ tokens }) => tokens || null, String],
  ["blocks", ({ blocks }) => blocks.length || null, String],
  ["in all", ({ elapsed }) => elapsed, duration],
];

export class TurnView {
  /** `again` is called when the question is to be asked once more. */
  constructor(question, label, answer, key, again) {
    this.answer = answer;
    this.text = element("div", { className: "text" });
    this.strip = element("div", { className: "strip", role: "group", "aria-label": "Blocks over time" });
    this.waiting = element("span", { className: "wait", "aria-hidden": "true" });
    this.strip.append(this.waiting);
    this.status = element("p", { className: "status" });
    this.figures = FIGURES.map(([name, value, shown]) => new Figure(name, value, shown));
    this.log = element("ol", { tabIndex: 0, "aria-label": "Events" }); // it scrolls
    this.events = element(
      "details",
      { className: "events" },
      element("summary", { textContent: "Events" }),
      this.log,
    );
    this.again = button("Ask again", again);
    const copies = navigator.clipboard
      ? [
          button("Copy", () => navigator.clipboard.writeText(answer.text)),
          button("Copy as curl", () => navigator.clipboard.writeText(curl(answer.request, key))),
        ]
      : [];
    this.actions = element("div", { className: "actions" }, this.again, ...copies);
    this.root = element(
      "article",
      { className: "turn" },
      element("h2", { className: "asked", textContent: question }),
      this.strip,
      this.text,
      this.status,
      element(
        "div",
        { className: "margin" },
        element("p", { className: "how", textContent: label }),
        element("dl", {}, ...this.figures.map(({ root }) => root)),
      ),
      this.events,
      this.actions,
    );
    this.events.addEventListener("toggle", () => this.#logged());
    this.#pointed();
    this.timer = setInterval(() => this.#live(), LIVE_MS);
  }

  /** To be called after every change of the answer. */
  update(block) {
    if (block) this.#put(block);
    if (!this.answer.open) this.#finish();
    this.#live();
    this.#logged();
  }

  /** It is no longer a part of the conversation. */
  setAside() {
    this.root.classList.add("set-aside");
    this.again.remove();
    this.ended = "Set aside: no part of the conversation any more.";
    this.#live();
  }

  #put(block) {
    const there = this.text.children[block.index];
    if (there) {
      there.textContent = block.text;
      return;
    }
    const kind = block.index % 2 ? "odd" : "even";
    this.text.append(
      element("span", { className: `block ${kind}`, textContent: block.text, "data-block": block.index }),
    );
    this.text.classList.toggle("code", this.answer.text.includes("```"));
    const segment = element("button", {
      type: "button",
      className: kind,
      tabIndex: block.index ? -1 : 0,
      "data-block": block.index,
    });
    segment.style.setProperty("flex-grow", block.took);
    this.strip.insertBefore(segment, this.waiting);
    segment.style.setProperty("--tokens", block.tokens);
    segment.setAttribute("aria-label", this.#says(block.index));
    this.strip.style.setProperty("--most", Math.max(1, ...this.answer.blocks.map(({ tokens }) => tokens)));
    this.strip.classList.toggle("many", block.index >= MANY);
  }

  #segments = () => [...this.strip.querySelectorAll("button")];

  #says(index) {
    const { tokens, forwards, took } = this.answer.blocks[index];
    return [
      `block ${index + 1}`,
      count(tokens, "token"),
      ...(forwards === null ? [] : [count(forwards, "forward")]),
      index ? `${duration(took)} after the one before` : `${duration(took)} after the request`,
    ].join(", ");
  }

  #live() {
    const { answer } = this;
    const since = answer.elapsed - (answer.blocks.length ? answer.blocks.at(-1).at - answer.started : 0);
    this.waiting.style.setProperty("flex-grow", answer.open ? since : 0);
    for (const figure of this.figures) figure.show(answer);
    this.status.textContent = answer.state === "waiting" ? (answer.place ?? "waiting") : (this.ended ?? "");
  }

  #finish() {
    clearInterval(this.timer);
    const { state, error, finish } = this.answer;
    this.root.classList.add(state);
    for (const [index, each] of this.#segments().entries())
      each.setAttribute("aria-label", this.#says(index));
    if (state === "stopped") this.ended = "Stopped.";
    if (finish === "length") this.ended = "Cut off at the limit of tokens.";
    if (error) this.#failed(error);
    show(this.waiting, false);
  }

  #failed({ message, code, param, retryAfter }) {
    const { requestId } = this.answer;
    const marks = [
      code,
      param && `param ${param}`,
      retryAfter && `retry after ${retryAfter} s`,
      requestId && `request ${requestId}`,
    ].filter(Boolean);
    this.text.after(
      element(
        "p",
        { className: "trouble", role: "alert" },
        message,
        ...(marks.length ? [element("small", { textContent: marks.join(", ") })] : []),
      ),
    );
  }

  #logged() {
    if (!this.events.open) return;
    if (!this.log.children.length) this.log.append(line("sent", JSON.stringify(this.answer.request)));
    const { log } = this.answer;
    const lines = log.slice(this.log.children.length - 1).map(([ms, said]) => line(`+${duration(ms)}`, said));
    this.log.append(...lines);
  }

  /** A block, in the text or on the strip, is pointed at, touched or reached by the arrow keys. */
  #pointed() {
    const light = (index) => {
      for (const lit of this.root.querySelectorAll(".lit")) lit.classList.remove("lit");
      for (const each of this.root.querySelectorAll(`[data-block="${index}"]`)) each.classList.add("lit");
    };
    const tell = ({ target, clientX, clientY }) => {
      const at = target.closest("[data-block]");
      light(at?.dataset.block);
      if (!at) return hideTip();
      const { left, top, width } = at.getBoundingClientRect();
      showTip(this.#says(Number(at.dataset.block)), at, clientX ?? left + width / 2, clientY ?? top);
    };
    const leave = () => {
      light();
      hideTip();
    };
    this.root.addEventListener("pointerover", tell);
    this.root.addEventListener("pointermove", tell); // what there is to tell may have changed
    this.root.addEventListener("click", tell); // a finger leaves when it is lifted
    this.root.addEventListener("pointerleave", leave);
    this.strip.addEventListener("focusin", tell);
    this.strip.addEventListener("focusout", leave);
    this.strip.addEventListener("keydown", (event) => {
      const segments = this.#segments();
      const now = segments.indexOf(event.target);
      const next = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: segments.length - 1 }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      const to = segments[next];
      if (!to) return;
      segments[now].tabIndex = -1;
      to.tabIndex = 0;
      to.focus();
    });
  }
}

class Figure {
  #value;
  #written;

  constructor(name, value, written) {
    this.#value = value;
    this.#written = written;
    this.told = element("dd");
    this.root = element("div", {}, element("dt", { textContent: name }), this.told);
  }

  show(answer) {
    const value = this.#value(answer);
    this.told.textContent = value === null ? "–" : this.#written(value);
    show(this.root, value !== null || answer.open);
  }
}

function button(textContent, pressed) {
  const made = element("button", { type: "button", className: "quiet", textContent });
  made.addEventListener("click", pressed);
  return made;
}

function line(when, said) {
  return element("li", {}, element("time", { textContent: when }), element("code", { textContent: said }));
}
