// What people read: times, sizes, and texts of strangers made visible.

// Control, bidi, zero-width and tag characters can hide or reorder a text (security reference P16).
const INVISIBLE = new RegExp(
  "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb\\u{e0000}-\\u{e007f}]",
  "gu",
);

/** Return a stranger's text with every invisible character written as its code. */
export function visible(text) {
  return String(text ?? "").replace(/\r\n/g, "\n").replace(INVISIBLE, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

/** Return a stranger's text for one line: visible, cut at `length`, line breaks as spaces. */
export function line(text, length = 200) {
  return clip(visible(String(text ?? "").slice(0, length * 4).replace(/\s+/g, " ")), length);
}

/** Cut a text between characters, never inside one. */
export function clip(text, length) {
  if (text.length <= length) return text;
  const isInside = /[\ud800-\udbff]/.test(text[length - 1]);
  return `${text.slice(0, isInside ? length - 1 : length)}…`;
}

export function bytes(count) {
  if (count < 1024) return `${count} B`;
  return count < 1 << 20 ? `${(count / 1024).toFixed(1)} KB` : `${(count / (1 << 20)).toFixed(1)} MB`;
}

export function millis(value) {
  if (value === null || value === undefined) return "";
  if (value < 1) return "<1 ms";
  if (value < 1000) return `${Math.round(value)} ms`;
  return value < 60_000 ? `${(value / 1000).toFixed(1)} s` : `${(value / 60_000).toFixed(1)} min`;
}

/** The time of day with milliseconds, in the reader's zone. */
export function clock(iso) {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return "";
  const two = (number, width = 2) => String(number).padStart(width, "0");
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return `${time}.${two(at.getMilliseconds(), 3)}`;
}

export function plural(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}
