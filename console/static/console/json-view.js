// JSON and long texts on the page: coloured while small, cut while large, always as text.

import { button, copyText, fill, h } from "./dom.js";
import { pretty } from "./json.js";
import { bytes, visible } from "./text.js";

const SHOWN = 20_000;
const STEP = 500_000;
const CHUNK = 8_000;
const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null)\b|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)/g;

/** A value as JSON, with a copy button. */
export function jsonView(value, label) {
  return textView(pretty(value), { label, isJson: true });
}

/** A text of any length: the first part, then more on demand. */
export function textView(text, { label = "Text", isJson = false } = {}) {
  const code = h("pre", { class: isJson ? "json" : "plain", tabindex: "0", "aria-label": label });
  const more = h("div", { class: "more" });
  const copy = button("Copy", (event) => copyText(text, event.target), { class: "small copy", "aria-label": `Copy: ${label}` });
  let shown = 0;
  const extend = (length) => {
    const piece = text.slice(shown, endOf(text, shown + length));
    if (isJson && text.length <= SHOWN * 2) code.append(coloured(piece));
    else code.append(...chunksOf(piece));
    shown += piece.length;
    fill(more, shown >= text.length ? null : [
      h("span", {}, `${bytes(shown)} of ${bytes(text.length)} shown. `),
      button("Show all", () => extend(text.length), { class: "small" }),
      text.length - shown > STEP ? button("Show more", () => extend(STEP), { class: "small" }) : null,
    ]);
  };
  extend(SHOWN);
  return h("div", { class: "code" }, copy, code, more);
}

/** Where a text can be cut at or before `end`: never inside a character. */
function endOf(text, end) {
  return end < text.length && /[\ud800-\udbff]/.test(text[end - 1]) ? end - 1 : end;
}

/** Long texts as blocks, of which the browser lays out only those in view. */
function* chunksOf(text) {
  if (text.length <= CHUNK) { yield visible(text); return; }
  for (let at = 0; at < text.length;) {
    const lineEnd = text.lastIndexOf("\n", at + CHUNK);
    const end = lineEnd > at && at + CHUNK < text.length ? lineEnd + 1 : endOf(text, at + CHUNK);
    yield h("span", { class: "chunk" }, visible(text.slice(at, end)));
    at = end;
  }
}

function coloured(text) {
  const fragment = document.createDocumentFragment();
  let last = 0;
  for (const found of text.matchAll(TOKEN)) {
    const [all, string, colon, word, number] = found;
    fragment.append(visible(text.slice(last, found.index)));
    if (string) fragment.append(h("span", { class: colon ? "j-key" : "j-string" }, visible(string)), colon ?? "");
    else fragment.append(h("span", { class: word ? "j-word" : "j-number" }, visible(word ?? number)));
    last = found.index + all.length;
  }
  fragment.append(visible(text.slice(last)));
  return fragment;
}
