// The history: filter, list, lanes, export and import, and the chosen exchange.

import { announce, button, download, fill, h, perFrame } from "./dom.js";
import { entryView } from "./entry-view.js";
import { readFilter } from "./filter.js";
import { drawLanes } from "./lanes.js";
import { ListBox } from "./listbox.js";
import { clock, line, millis, plural } from "./text.js";

const SIGNS = { ok: "✓", error: "✗", waiting: "◔", note: "•" };
const WORDS = { ok: "answered", error: "error", waiting: "no answer yet", note: "notification" };
const LONGEST_BAR_MS = 10_000;

export class HistoryPanel {
  constructor(app) {
    Object.assign(this, { app, chosen: null, shown: [] });
    this.filter = h("input", {
      type: "search", class: "filter", placeholder: "method:tools/call status:error duration:>500 words", "aria-label": "Filter the history",
      "aria-describedby": "filter-problem", spellcheck: "false", autocomplete: "off", "data-testid": "filter", oninput: () => this.onFilter(),
    });
    this.problem = h("p", { class: "field-error", id: "filter-problem", hidden: true });
    this.count = h("span", { class: "quiet", "data-testid": "history-count" });
    this.lanes = h("div", { class: "lanes", "aria-hidden": "true" });
    this.empty = h("p", { class: "empty" });
    this.list = new ListBox({
      label: "History", rowRem: 2.5, testId: "history", keyOf: (entry) => entry.key, textOf: (entry) => entry.method,
      render: (entry) => row(entry), onSelect: (entry, { isUser }) => this.open(entry, isUser),
    });
    this.list.element.addEventListener("scroll", () => this.onScroll(), { passive: true });
    this.detail = h("section", { class: "detail", "aria-label": "Chosen message" });
    this.element = h("section", { class: "history", "aria-labelledby": "history-title" },
      h("div", { class: "history-head" }, h("h2", { id: "history-title", tabindex: "-1" }, "History"), this.count, h("span", { class: "grow" }), this.tools()),
      this.filter, this.problem, this.lanes, this.list.element, this.empty, this.detail);
    this.draw = perFrame(() => this.drawNow());
    this.leave = app.store.on("history", this.draw);
    this.onFilter();
    addEventListener("beforeprint", () => this.forPrint());
    addEventListener("afterprint", () => this.printed?.remove());
  }

  tools() {
    this.file = h("input", { type: "file", hidden: true, accept: ".json,.ndjson,.har", "aria-label": "File to import", "data-testid": "import-file", onchange: () => this.import() });
    const exporter = h("select", { class: "small", "aria-label": "Export what the filter shows", "data-testid": "export", onchange: (event) => this.export(event) },
      [["", "Export …"], ["session", "Session (JSON)"], ["har", "HAR 1.2"], ["ndjson", "NDJSON"]].map(([value, text]) => h("option", { value }, text)));
    return h("div", { class: "tools" }, exporter, button("Import", () => this.file.click(), { class: "small", "data-testid": "import" }), this.file,
      button("Clear", () => { this.app.store.history.clear(); this.open(null); announce("The view is empty; the hub keeps its trace."); }, { class: "small", title: "Empty this view; the hub keeps its trace" }));
  }

  onFilter() {
    this.wanted = readFilter(this.filter.value);
    this.problem.textContent = this.wanted.problem;
    this.problem.hidden = !this.wanted.problem;
    this.filter.removeAttribute("aria-invalid");
    if (this.wanted.problem) this.filter.setAttribute("aria-invalid", "true");
    this.drawNow();
  }

  setFilter(text) {
    this.filter.value = text;
    this.onFilter();
    document.getElementById("history-title").focus();
  }

  drawNow() {
    const { entries } = this.app.store.history;
    this.shown = this.wanted.isEmpty ? entries : entries.filter((entry) => this.wanted.matches(entry));
    this.list.show(this.shown, { stickToEnd: true });
    const isCut = this.shown.length < entries.length;
    this.count.textContent = isCut ? `${this.shown.length.toLocaleString("en")} of ${plural(entries.length, "exchange")}` : plural(entries.length, "exchange");
    this.element.dataset.count = String(this.shown.length);
    this.empty.hidden = this.shown.length > 0;
    fill(this.empty, entries.length ? "Nothing matches the filter." : "Every message between the hub and its servers appears here, the handshake included. Connect a server to see the first.");
    this.list.element.classList.toggle("one-server", new Set(this.shown.slice(-400).map((entry) => entry.server)).size < 2);
    drawLanes(this.lanes, this.shown.slice(-400));
    if (this.chosen && this.chosen.answer !== this.chosenAnswer) this.open(this.chosen, false);
  }

  open(entry, isUser = true) {
    this.chosen = entry;
    this.chosenAnswer = entry?.answer;
    if (!entry) { this.list.mark(null); fill(this.detail); return; }
    if (!isUser) this.list.mark(entry.key);
    fill(this.detail, entryView(this.app, entry));
    this.detail.scrollTop = 0;
  }

  /** At the top of the list the older messages of the hub are read. */
  async onScroll() {
    if (this.list.element.scrollTop > 40 || this.isReading || !this.app.store.olderCursor || this.app.store.offline) return;
    this.isReading = true;
    const before = this.list.element.scrollHeight;
    try {
      await this.app.store.readOlder();
      this.drawNow();
      this.list.element.scrollTop += this.list.element.scrollHeight - before;
    } catch { /* the next scroll tries again */ } finally {
      this.isReading = false;
    }
  }

  async export(event) {
    const kind = event.target.value;
    event.target.value = "";
    if (!kind) return;
    announce("Collecting the messages …");
    const { harFile, ndjsonFile, sessionFile } = await import("./transfer.js");
    await this.app.loadOmitted(this.shown);
    const stamp = new Date().toISOString().slice(0, 19).replaceAll(":", "-");
    const name = `mcphub-${stamp}`;
    if (kind === "session") download(`${name}.json`, sessionFile(this.shown, [...this.app.store.servers.values()]));
    if (kind === "har") download(`${name}.har`, harFile(this.shown));
    if (kind === "ndjson") download(`${name}.ndjson`, ndjsonFile(this.shown), "application/x-ndjson");
    announce(`Exported ${plural(this.shown.length, "exchange")}.`);
  }

  async import() {
    const [file] = this.file.files;
    this.file.value = "";
    if (file) await this.app.openFile(file);
  }

  /** Print: the history alone, with every message opened. */
  forPrint() {
    this.printed?.remove();
    const entries = this.shown.slice(-500);
    this.printed = h("section", { class: "print" }, h("h2", {}, `History of mcphub, ${new Date().toLocaleString()}`),
      this.wanted.isEmpty ? null : h("p", {}, `Filter: ${this.filter.value}`),
      this.shown.length > entries.length ? h("p", {}, `The newest ${entries.length} of ${plural(this.shown.length, "exchange")}.`) : null,
      entries.map((entry) => entryView({ store: { offline: true } }, entry)));
    document.body.append(this.printed);
  }
}

function row(entry) {
  const bar = h("span", { class: "bar", "aria-hidden": "true" });
  const share = entry.duration === null ? 0 : Math.log10(1 + entry.duration) / Math.log10(1 + LONGEST_BAR_MS);
  bar.style.setProperty("--share", String(Math.min(1, share)));
  return [
    h("span", { class: `sign ${entry.status}`, title: WORDS[entry.status] }, h("span", { "aria-hidden": "true" }, SIGNS[entry.status]), h("span", { class: "sr" }, WORDS[entry.status])),
    h("span", { class: "way", title: entry.wentUp ? "to the server" : "from the server" }, h("span", { "aria-hidden": "true" }, entry.wentUp ? "↑" : "↓"), h("span", { class: "sr" }, entry.wentUp ? "up" : "down")),
    h("span", { class: "row-main" }, line(entry.method, 60), entry.target ? h("span", { class: "quiet" }, ` ${line(entry.target, 60)}`) : null),
    entry.isPinned ? h("span", { class: "tag" }, "pinned") : null,
    h("span", { class: "row-server" }, line(entry.server, 30)),
    h("span", { class: "row-time" }, millis(entry.duration) || "–", bar),
    h("time", { class: "row-at", title: clock(entry.at) }, clock(entry.at).slice(0, 8)),
  ];
}
