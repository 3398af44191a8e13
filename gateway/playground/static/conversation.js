// The turns of a chat, and which of them the model is told.

import { Answer } from "./answer.js";
import { byId, show } from "./dom.js";
import { count, duration, rate } from "./format.js";
import { askForKey, key } from "./key.js";
import { label, request } from "./parameters.js";
import { TurnView } from "./turn.js";

const log = byId("log");
const news = byId("news");
const NEAR_END_PX = 120;

let turns = []; // {question, answer, view}, without those that were asked again
let changed;

/** `onChange` is called when an answer begins or ends. */
export function install(onChange) {
  changed = onChange;
}

const current = () => turns.at(-1);

export const answering = () => Boolean(current()?.answer.open);

export const lastQuestion = () => current()?.question ?? "";

/** Asks; false when a parameter is wrong. */
export function ask(question) {
  const known = turns.filter(({ answer }) => answer.text);
  const messages = known.flatMap(({ question, answer }) => [
    { role: "user", content: question },
    { role: "assistant", content: answer.text },
  ]);
  const asked = request([...messages, { role: "user", content: question }]);
  if (!asked) return false;
  const turn = { question };
  turn.answer = new Answer(asked, (block) => seen(turn, block));
  turn.view = new TurnView(question, label(), turn.answer, key(), () => again(turn));
  turns.push(turn);
  show(byId("welcome"), false);
  log.append(turn.view.root);
  toEnd();
  run(turn);
  return true;
}

export function stop() {
  current()?.answer.stop();
}

/** Forgets all of it. */
export function clear() {
  stop();
  turns = [];
  log.replaceChildren();
  show(byId("welcome"));
  changed();
}

/** Asks the last question again if it was refused for its key. */
export function retryLocked() {
  if (current()?.answer.error?.status === 401) again(current());
}

async function run(turn) {
  const running = turn.answer.run(key());
  changed();
  await running;
  changed();
  const { answer } = turn;
  if (answer.error?.status === 401) askForKey(answer.error.message);
  if (answer.state === "done") news.textContent = `${answer.text} ${spoken(answer)}`;
  if (answer.state === "stopped") news.textContent = "Stopped.";
}

function spoken({ tokens, blocks, elapsed, tokensPerSecond }) {
  const pace = tokensPerSecond === null ? "" : `, ${rate(tokensPerSecond)} tokens a second`;
  return `(${count(tokens, "token")} in ${count(blocks.length, "block")}, ${duration(elapsed)}${pace})`;
}

function seen(turn, block) {
  const near = document.documentElement.scrollHeight - scrollY - innerHeight < NEAR_END_PX;
  turn.view.update(block);
  if (near) toEnd();
}

/** The answer before stays to be seen beside the new one, and the model is not told of it. Later turns hang on it,
 * and are set aside too. */
function again(turn) {
  if (answering()) return;
  const index = turns.indexOf(turn);
  const aside = turns.splice(index);
  if (ask(turn.question)) {
    for (const { view } of aside) view.setAside();
  } else {
    turns.push(...aside);
  }
}

function toEnd() {
  scrollTo(0, document.documentElement.scrollHeight);
}
