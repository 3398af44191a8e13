// A note beside whatever is pointed at or has the focus.

import { byId } from "./dom.js";

const tip = byId("tip");
const GAP = 8;

/** `boxes`: where it may stand, of which the one nearest to (x, y) is taken. */
export function showTip(text, boxes, x, y) {
  tip.textContent = text;
  tip.hidden = false;
  const away = (box) =>
    Math.max(box.left - x, 0, x - box.right) + 4 * Math.max(box.top - y, 0, y - box.bottom);
  const box = [...boxes].sort((one, other) => away(one) - away(other))[0];
  if (!box) return hideTip();
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.min(Math.max(x, box.left) - width / 2, document.documentElement.clientWidth - width - GAP);
  const above = box.top - height - GAP;
  tip.style.setProperty("left", `${Math.max(GAP, left)}px`);
  tip.style.setProperty("top", `${above >= GAP ? above : box.bottom + GAP}px`);
}

export function hideTip() {
  tip.hidden = true;
}
