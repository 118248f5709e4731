// A listbox for any number of rows: only what is in view is in the page.

import { freshId, h, perFrame } from "./dom.js";

const SPARE_ROWS = 8;
const TYPE_AHEAD_MS = 700;

/**
 * `options`: `label`, `rowRem` (height of a row), `keyOf(item)`, `textOf(item)` for type-ahead,
 * `render(item)` → children of the row, `onSelect(item, {isUser})`, `testId`.
 */
export class ListBox {
  constructor(options) {
    Object.assign(this, options, { items: [], selected: null, id: freshId("list"), typed: "", typedAt: 0 });
    this.space = h("div", { class: "list-space", role: "presentation" });
    this.element = h("div", {
      class: "listbox", role: "listbox", tabindex: "0", "aria-label": this.label, "data-testid": this.testId,
      onkeydown: (event) => this.onKey(event), onmousedown: (event) => this.onPress(event), onclick: (event) => this.onClick(event),
    }, this.space);
    this.redraw = perFrame(() => this.draw());
    this.element.addEventListener("scroll", this.redraw, { passive: true });
    this.watcher = new ResizeObserver(this.redraw);
    this.watcher.observe(this.element);
  }

  get rowHeight() {
    return this.rowRem * Number.parseFloat(getComputedStyle(document.documentElement).fontSize);
  }

  /** Show other items; the selection stays where its key is, the view stays unless it was at the end. */
  show(items, { stickToEnd = false } = {}) {
    const wasAtEnd = this.isAtEnd;
    this.items = items;
    this.indexes = null;
    this.element.hidden = items.length === 0;
    this.space.style.height = `${items.length * this.rowRem}rem`;
    if (stickToEnd && wasAtEnd) this.element.scrollTop = this.element.scrollHeight;
    this.draw();
  }

  get isAtEnd() {
    const { scrollTop, clientHeight, scrollHeight } = this.element;
    return scrollTop + clientHeight >= scrollHeight - this.rowHeight;
  }

  draw() {
    const height = this.rowHeight;
    const visible = this.element.clientHeight || innerHeight; // not laid out yet, as in a tab in the background
    const first = Math.max(0, Math.floor(this.element.scrollTop / height) - SPARE_ROWS);
    const last = Math.min(this.items.length, Math.ceil((this.element.scrollTop + visible) / height) + SPARE_ROWS);
    const rows = [];
    for (let index = first; index < last; index += 1) rows.push(this.row(index));
    const active = this.indexOf(this.selected);
    if (active >= 0 && (active < first || active >= last)) rows.push(this.row(active));
    this.space.replaceChildren(...rows);
    if (active >= 0) this.element.setAttribute("aria-activedescendant", `${this.id}-${active}`);
    else this.element.removeAttribute("aria-activedescendant");
  }

  row(index) {
    const item = this.items[index];
    const key = this.keyOf(item);
    const row = h("div", {
      class: "row", role: "option", id: `${this.id}-${index}`, "data-key": key,
      "aria-selected": key === this.selected ? "true" : "false",
      "aria-setsize": this.items.length, "aria-posinset": index + 1,
    }, this.render(item));
    row.style.height = `${this.rowRem}rem`;
    row.style.top = `${index * this.rowRem}rem`;
    return row;
  }

  indexOf(key) {
    if (key === null) return -1;
    this.indexes ??= new Map(this.items.map((item, index) => [this.keyOf(item), index]));
    return this.indexes.get(key) ?? -1;
  }

  /** Select by key without telling anybody. */
  mark(key) {
    this.selected = key;
    this.draw();
  }

  select(index, { isUser = true } = {}) {
    const item = this.items[index];
    if (!item) return;
    this.selected = this.keyOf(item);
    this.reveal(index);
    this.draw();
    this.onSelect(item, { isUser });
  }

  reveal(index) {
    const height = this.rowHeight;
    const top = index * height;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + height > scrollTop + clientHeight) this.element.scrollTop = top + height - clientHeight;
  }

  /** The press decides: a list that is drawn again before the release would lose the click. */
  onPress(event) {
    if (event.button === 0) this.choose(event.target.closest(".row"));
  }

  /** Clicks without a press come from assistive technology. */
  onClick(event) {
    if (event.detail === 0) this.choose(event.target.closest(".row"));
  }

  choose(row) {
    if (row) this.select(this.indexOf(row.dataset.key));
  }

  onKey(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.rowHeight) - 1);
    const now = this.indexOf(this.selected);
    const end = this.items.length - 1;
    const moves = {
      ArrowDown: now + 1, ArrowUp: now < 0 ? end : now - 1, Home: 0, End: end, PageDown: now + page, PageUp: now - page,
    };
    let target = moves[event.key];
    if (target === undefined) target = this.ahead(event, now);
    if (target === undefined) return;
    event.preventDefault();
    this.select(Math.min(end, Math.max(0, target)));
  }

  /** Type-ahead: letters jump to the next row that begins with them. */
  ahead(event, now) {
    if (event.key.length !== 1 || event.key === "?") return undefined;
    this.typed = event.timeStamp - this.typedAt > TYPE_AHEAD_MS ? event.key : this.typed + event.key;
    this.typedAt = event.timeStamp;
    const wanted = this.typed.toLowerCase();
    const from = this.typed.length === 1 ? now + 1 : Math.max(0, now);
    const begins = (index) => this.textOf(this.items[index % this.items.length]).toLowerCase().startsWith(wanted);
    for (let step = 0; step < this.items.length; step += 1) {
      if (begins(from + step)) return (from + step) % this.items.length;
    }
    return undefined;
  }
}
