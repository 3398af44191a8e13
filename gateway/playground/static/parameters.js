// What a request says beside its messages.

import { byId, element, show } from "./dom.js";
import { decision, mode, model } from "./models.js";

const form = byId("fields");
const algorithm = byId("algorithm");
const decoding = byId("decoding");
const system = byId("system");
const NUMBERS = ["max_tokens", "temperature", "top_p", "top_k", "seed"];
const DRAWN = ["top_p", "top_k", "seed"]; // without effect, and refused, where nothing is drawn

export function install() {
  algorithm.addEventListener("change", refresh);
  form.addEventListener("input", settle);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(refresh));
}

/** To be called when another model or mode is chosen. */
export function refresh() {
  const can = model()?.decoding;
  show(decoding, Boolean(can));
  const names = Object.keys(can?.algorithms ?? {});
  const before = names.includes(algorithm.value) ? algorithm.value : "";
  const option = (value, textContent) => element("option", { value, textContent });
  algorithm.replaceChildren(option("", "as the mode has it"), ...names.map((name) => option(name, name)));
  algorithm.value = before;
  byId("modes").disabled = before !== "";
  const typed = Object.fromEntries([...own()].map(({ id, value }) => [id, value]));
  const usual = before ? {} : (decision() ?? {});
  decoding.replaceChildren(
    decoding.firstElementChild,
    ...(can?.algorithms[inForce()] ?? []).map((name) => number(name, usual[name], typed[`dllm.${name}`])),
  );
  settle();
}

const inForce = () => algorithm.value || decision()?.algorithm;
const own = () => decoding.querySelectorAll("input");
const value = (field) => (field.disabled || field.value === "" ? undefined : Number(field.value));

function number(name, usual, typed) {
  const id = `dllm.${name}`;
  const input = element("input", {
    id,
    type: "number",
    step: "any",
    placeholder: usual ?? "its own",
    value: typed ?? "",
  });
  const words = name.split("_").flatMap((word, place) => (place ? ["_", element("wbr"), word] : [word]));
  return element("label", { htmlFor: id }, ...words, input);
}

/** Closes what would be refused, and says what differs from the default. */
function settle() {
  const { decoding: can, kind, capabilities } = model() ?? {};
  const honours = (name) => capabilities?.includes(name) ?? true;
  const draws = can ? can.sampling.includes(inForce()) : honours("temperature");
  const usual = kind === "autoregressive" ? "1" : "0";
  const temperature = byId("temperature");
  temperature.disabled = !draws;
  temperature.placeholder = usual;
  const drawing = draws && Number(temperature.value || usual) > 0;
  for (const name of DRAWN) byId(name).disabled = !drawing || (!can && !honours(name));
  show(byId("drawing"), !drawing);
  byId("drawing").textContent =
    draws || !can
      ? "Without a temperature the most probable tokens are taken."
      : `${inForce()} takes the most probable tokens.`;
  const seed = byId("seed");
  seed.setCustomValidity(Number.isSafeInteger(Number(seed.value)) ? "" : "A whole number, up to 2^53.");
  const numbers = [...NUMBERS.map(byId), ...own()].filter((field) => value(field) !== undefined);
  byId("changed").textContent = [
    ...(system.value.trim() ? ["system prompt"] : []),
    ...(algorithm.value ? [algorithm.value] : []),
    ...numbers.map((field) => `${field.id.replace("dllm.", "")} ${field.value}`),
  ].join(", ");
}

/** The body of a request, or null when there is no model any more, or a field holds no number: then it is shown. */
export function request(messages) {
  if (!model()) return null;
  const wrong = [...form.elements].find((field) => !field.disabled && !field.validity?.valid);
  if (wrong) {
    byId("parameters").open = true;
    wrong.reportValidity();
    return null;
  }
  const asked = { model: model().id, messages: [...instructions(), ...messages] };
  for (const name of NUMBERS) asked[name] = value(byId(name));
  if (model().decoding) {
    const how = algorithm.value ? { algorithm: algorithm.value } : mode() ? { mode: mode() } : {};
    const changed = [...own()].map((field) => [field.id.replace("dllm.", ""), value(field)]);
    asked.dllm = { ...how, ...Object.fromEntries(changed), stats: true };
  }
  asked.return_token_ids = true; // so that each block has an event, even one whose text is held back
  asked.stream = true;
  asked.stream_options = { include_usage: true, include_queue_position: true };
  return asked;
}

function instructions() {
  const content = system.value.trim();
  return content ? [{ role: "system", content }] : [];
}

/** How it is decoded, in a few words. */
export function label() {
  return [model().id, algorithm.value || mode()].filter(Boolean).join(" · ");
}
