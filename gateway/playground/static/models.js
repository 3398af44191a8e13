// Which model, and in which of its modes.

import { ApiError, models } from "./api.js";
import { byId, element, show } from "./dom.js";
import { askForKey, key } from "./key.js";

const AGAIN_MS = 2000; // while there is no model yet, or one that is not loaded
const select = byId("model");
const fieldset = byId("modes");
const trouble = byId("trouble");

let listed = [];
let timer;
let changed;

/** `onChange` is called whenever another model or mode is chosen. */
export function install(onChange) {
  changed = onChange;
  select.addEventListener("change", renew);
  select.addEventListener("focus", load);
  fieldset.addEventListener("change", () => changed());
  document.addEventListener("visibilitychange", () => document.hidden || load());
}

/** The chosen model as /v1/models lists it, or undefined. */
export const model = () => listed.find(({ id }) => id === select.value);

/** The name of the chosen mode; null: the model's default. */
export const mode = () => fieldset.querySelector("input:checked")?.value || null;

/** An algorithm with its parameters beside it, of the chosen mode; null where a model has but one way. */
export function decision() {
  const decoding = model()?.decoding;
  return decoding ? (decoding.modes[mode()] ?? decoding.default) : null;
}

/** Asks the gateway for its models, again and again while something is missing. */
export async function load() {
  clearTimeout(timer);
  let wait = true;
  try {
    list(await models(key()));
    wait = !listed.length || listed.some(({ created }) => !created);
    tell(listed.length ? "" : "No worker has announced a model yet.");
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    tell(error.status === 401 ? "" : error.message);
    if (error.status === 401) {
      wait = false;
      askForKey(error.message);
    }
  }
  if (wait) timer = setTimeout(load, AGAIN_MS);
}

function tell(message) {
  if (trouble.textContent !== message) trouble.textContent = message;
  show(trouble, message !== "");
}

function list(found) {
  if (JSON.stringify(found) === JSON.stringify(listed)) return;
  const before = select.value;
  listed = found;
  select.replaceChildren(...found.map(({ id }) => element("option", { value: id, textContent: id })));
  if (found.some(({ id }) => id === before)) select.value = before;
  select.disabled = !found.length;
  renew();
}

function renew() {
  const before = mode();
  const decoding = model()?.decoding;
  const modes = Object.entries(decoding?.modes ?? {});
  const same = (one, other) =>
    JSON.stringify(Object.entries(one).sort()) === JSON.stringify(Object.entries(other).sort());
  let usual = modes.find(([, each]) => same(each, decoding.default))?.[0];
  if (decoding && usual === undefined) {
    usual = "";
    modes.unshift(["", decoding.default]);
  }
  const picked = before && modes.some(([name]) => name === before) ? before : usual;
  fieldset.replaceChildren(
    fieldset.firstElementChild,
    ...modes.map(([name, each]) => option(name, each, name === picked)),
  );
  show(fieldset, modes.length > 0);
  changed();
}

function option(name, decision, checked) {
  return element(
    "label",
    { className: "mode" },
    element("input", { type: "radio", name: "mode", value: name, checked }),
    element("span", { textContent: name || "default" }),
    element("small", { textContent: described(decision) }),
  );
}

function described({ algorithm, ...parameters }) {
  return [
    algorithm,
    ...Object.entries(parameters).map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`),
  ].join(", ");
}
