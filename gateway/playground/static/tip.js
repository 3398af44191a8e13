// A note beside whatever is pointed at or has the focus.

import { byId } from "./dom.js";

const tip = byId("tip");
const GAP = 8;

/** Stands at that of the element's boxes which is nearest to (x, y), and within the column that the element is in. */
export function showTip(text, at, x, y) {
  tip.textContent = text;
  tip.hidden = false;
  const away = (box) =>
    Math.max(box.left - x, 0, x - box.right) + 4 * Math.max(box.top - y, 0, y - box.bottom);
  const box = [...at.getClientRects()].sort((one, other) => away(one) - away(other))[0];
  if (!box) return hideTip();
  const { width, height } = tip.getBoundingClientRect();
  const column = at.parentElement.getBoundingClientRect();
  const left = Math.min(Math.max(x, box.left) - width / 2, column.right - width);
  const above = box.top - height - GAP;
  tip.style.setProperty("left", `${Math.max(GAP, left)}px`);
  tip.style.setProperty("top", `${above >= GAP ? above : box.bottom + GAP}px`);
}

export function hideTip() {
  tip.hidden = true;
}

addEventListener("scroll", hideTip, { passive: true });
addEventListener("pointerdown", hideTip);
