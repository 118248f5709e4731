// Elements without HTML strings: what a server sent can only ever become text.

let nextId = 0;

/** Return an id that no other element of the page has. */
export function freshId(prefix = "x") {
  nextId += 1;
  return `${prefix}${nextId}`;
}

/** Make an element: `h("p", { class: "quiet", onclick: f, "aria-label": "…" }, "text", child)`. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) set(element, name, value);
  append(element, children);
  return element;
}

function set(element, name, value) {
  if (value === undefined || value === null || value === false) return;
  if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (name === "value" || name === "checked" || name === "disabled") element[name] = value;
  else element.setAttribute(name, value === true ? "" : String(value));
}

function append(element, children) {
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
}

/** Replace everything in an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** A button; `action` gets the event. */
export function button(label, action, attributes = {}) {
  return h("button", { type: "button", onclick: action, ...attributes }, label);
}

/** A link that leaves the page; only http(s) addresses become one, everything else stays text. */
export function outLink(address, label = address) {
  const isWeb = /^https?:\/\//i.test(address);
  if (!isWeb) return h("span", {}, label);
  return h("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, label);
}

/** Say something to people who cannot see the change; polite, one region for the whole page. */
export function announce(text) {
  const region = document.getElementById("announcer");
  if (region) region.textContent = text;
}

/** Run `work` at most once per frame, however often it is asked for. */
export function perFrame(work) {
  let isDue = false;
  return () => {
    if (isDue) return;
    isDue = true;
    setTimeout(() => { isDue = false; work(); }, 16);
  };
}

/** Save text as a file. */
export function download(name, text, type = "application/json") {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = h("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** Copy text; without a clipboard (plain http) it is shown selected instead. */
export async function copyText(text, source) {
  try {
    await navigator.clipboard.writeText(text);
    announce("Copied.");
    if (source) flash(source, "Copied");
  } catch {
    const area = h("textarea", { class: "mono", rows: 12, readonly: true, "aria-label": "Text to copy" });
    area.value = text;
    const dialog = showDialog("Copy this text", area);
    area.select();
    dialog.addEventListener("close", () => source?.focus());
  }
}

function flash(element, text) {
  const before = element.textContent;
  element.textContent = text;
  setTimeout(() => { element.textContent = before; }, 1500);
}

/** Open a modal dialog with a heading and a close button; it is gone when it closes. */
export function showDialog(title, ...content) {
  const id = freshId("dialog");
  const dialog = h("dialog", { "aria-labelledby": id });
  const close = button("Close", () => dialog.close(), { class: "close" });
  dialog.append(h("div", { class: "dialog-head" }, h("h2", { id }, title), close), ...content.flat());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
