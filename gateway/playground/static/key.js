// The API key: in this tab's sessionStorage, and nowhere else.

import { byId, show } from "./dom.js";

const NAME = "dllm-stack.key";
const WRITTEN = /^[\x21-\x7e]+$/; // what a header can carry
const field = byId("key");

let held = "";
try {
  held = sessionStorage.getItem(NAME) ?? "";
} catch {
  // A browser may forbid it: then the key is kept until the page is left.
}

export const key = () => held;

/** `changed` is called when there is another key, or none any more. */
export function install(changed) {
  byId("unlock").addEventListener("submit", (event) => {
    event.preventDefault();
    const given = field.value.trim();
    if (!given) return field.focus();
    if (!WRITTEN.test(given)) return askForKey("A key has no spaces, and no letters but those of English.");
    keep(given);
    byId("access").open = false;
    changed();
  });
  byId("forget").addEventListener("click", () => {
    keep("");
    field.focus();
    changed();
  });
  tell();
}

/** Asks for a key; `why` is the API's message. */
export function askForKey(why) {
  const locked = byId("locked");
  locked.textContent = why;
  show(locked);
  byId("access").open = true;
  field.focus();
  field.select();
}

function keep(value) {
  held = value;
  try {
    if (value) sessionStorage.setItem(NAME, value);
    else sessionStorage.removeItem(NAME);
  } catch {
    // As above.
  }
  field.value = "";
  show(byId("locked"), false);
  tell();
}

function tell() {
  byId("held").textContent = held ? "in use" : "none";
  show(byId("forget"), held !== "");
}
