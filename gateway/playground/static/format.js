// Figures as they are shown.

const digits = (value, count) =>
  value.toLocaleString("en", {
    minimumFractionDigits: count,
    maximumFractionDigits: count,
    useGrouping: false,
  });

/** Milliseconds, as "96 ms" or "1.30 s". */
export function duration(ms) {
  if (ms < 999.5) return `${digits(ms, ms < 9.95 ? 1 : 0)} ms`;
  return ms < 99_950 ? `${digits(ms / 1000, ms < 9995 ? 2 : 1)} s` : `${digits(ms / 1000, 0)} s`;
}

/** Three significant digits, or all before the point. */
export const rate = (value) => digits(value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);

export const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
