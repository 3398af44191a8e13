import * as conversation from "./conversation.js";
import { byId, show } from "./dom.js";
import * as key from "./key.js";
import * as models from "./models.js";
import * as parameters from "./parameters.js";

const prompt = byId("prompt");
const send = byId("send");
const stop = byId("stop");

parameters.install();
conversation.install(renew);
models.install(() => {
  parameters.refresh();
  renew();
});
key.install(async () => {
  await models.load();
  if (key.key()) conversation.retryLocked();
});

function renew() {
  const answering = conversation.answering();
  const held = document.activeElement;
  send.disabled = !models.model();
  show(send, !answering);
  show(stop, answering);
  if ((held === send && answering) || (held === stop && !answering)) prompt.focus();
}

function submit() {
  const question = prompt.value.trim();
  if (!question || conversation.answering() || !models.model()) return;
  if (conversation.ask(question)) write("");
}

function write(text) {
  prompt.value = text;
  fit();
}

/** As high as what is written, up to what the style sheet allows. */
function fit() {
  prompt.style.setProperty("height", "auto");
  prompt.style.setProperty("height", `${prompt.scrollHeight}px`);
}

byId("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
prompt.addEventListener("input", fit);
prompt.addEventListener("keydown", (event) => {
  if (event.isComposing) return;
  if (event.key === "Enter" && !event.shiftKey) {
    event.preventDefault();
    submit();
  } else if (event.key === "ArrowUp" && prompt.value === "") {
    event.preventDefault();
    write(conversation.lastQuestion());
  }
});
document.addEventListener("keydown", ({ key }) => key === "Escape" && conversation.stop());
stop.addEventListener("click", conversation.stop);
byId("fresh").addEventListener("click", () => {
  conversation.clear();
  prompt.focus();
});
byId("welcome").addEventListener("click", ({ target }) => {
  if (target.tagName !== "BUTTON") return;
  write(target.textContent);
  submit();
  prompt.focus();
});

models.load();
