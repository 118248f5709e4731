// Tools: search, the server's claims, what changed since the last visit, and running one.

import { button, fill, h, showDialog } from "./dom.js";
import { Problem, serverPath } from "./hub.js";
import { changesSince } from "./captures.js";
import { jsonView } from "./json-view.js";
import { ListBox } from "./listbox.js";
import { problemLine } from "./problem-view.js";
import { line, visible } from "./text.js";

const CLAIMS = [
  ["readOnlyHint", true, "reads only"], ["destructiveHint", true, "may destroy"], ["idempotentHint", true, "repeatable"], ["openWorldHint", true, "open world"],
];

export class ToolsPanel {
  constructor(app, id) {
    Object.assign(this, { app, id, chosen: null, panels: new Map() });
    this.search = h("input", { type: "search", placeholder: "Search tools", "aria-label": "Search tools", "data-testid": "tool-search", oninput: () => this.draw() });
    this.empty = h("p", { class: "empty" });
    this.list = new ListBox({
      label: "Tools", rowRem: 3.4, testId: "tools",
      keyOf: (tool) => tool.name, textOf: (tool) => tool.title ?? tool.name,
      render: (tool) => this.row(tool), onSelect: (tool) => this.open(tool.name),
    });
    this.problems = h("div", {});
    this.savedList = h("div", {});
    this.detail = h("section", { class: "detail", "aria-label": "Tool", "data-testid": "tool" }, h("p", { class: "empty" }, "Choose a tool to see its arguments and to run it."));
    this.compare = button("Compare lists …", () => this.openComparison(), { class: "small", "data-testid": "compare" });
    this.refresh = button("Ask again", () => this.readProblems({ refresh: true }), { class: "small", title: "Ask the server for its list again" });
    this.element = h("div", { class: "two" },
      h("div", { class: "chooser" }, this.search, this.list.element, this.empty, this.problems, this.savedList, h("div", { class: "run-actions" }, this.refresh, this.compare)),
      this.detail);
    this.leave = [app.store.on("servers", () => this.draw()), app.store.on("lists", (server) => server === this.id && this.readProblems())];
    app.saved.onChange = () => this.drawSaved();
    this.draw();
    this.readProblems();
    this.drawSaved();
  }

  close() {
    for (const leave of this.leave) leave();
  }

  get server() { return this.app.store.servers.get(this.id); }

  row(tool) {
    const change = this.changes.get(tool.name);
    return [
      h("span", { class: "row-main" }, line(tool.title ?? tool.name, 80)),
      h("span", { class: "row-sub" }, change ? h("span", { class: "tag new" }, change) : null,
        tool.enabled === false ? h("span", { class: "tag" }, "off") : null, claims(tool), line(tool.title ? tool.name : tool.description, 80)),
    ];
  }

  draw() {
    const { server } = this;
    if (!server) return;
    this.changes = changesSince(this.id);
    const wanted = this.search.value.trim().toLowerCase();
    const tools = server.tools.filter((tool) => !wanted || [tool.name, tool.title, tool.description].some((text) => String(text ?? "").toLowerCase().includes(wanted)));
    this.list.show(tools);
    this.empty.hidden = tools.length > 0;
    fill(this.empty, server.tools.length ? "No tool matches." : this.why(server));
    if (this.chosen && !server.tools.some((tool) => tool.name === this.chosen)) this.drawGone();
  }

  why(server) {
    if (server.connectionState !== "connected") return "Not connected: connect to read the tools.";
    return "The server offers no tools.";
  }

  drawGone() {
    this.chosen = null;
    fill(this.detail, h("p", { class: "empty" }, "The server no longer lists this tool."));
  }

  /** Say which tools cannot be used, and why: the hub keeps the reasons beside the list. */
  async readProblems({ refresh = false } = {}) {
    if (this.app.store.offline) return;
    try {
      const { problems, error, isComplete } = await this.app.store.list(this.id, "tools", { refresh });
      if (refresh) await this.app.store.readServer(this.id);
      fill(this.problems,
        error ? h("p", { class: "check bad" }, `✗ ${line(error.message, 300)}`) : null,
        isComplete ? null : h("p", { class: "check bad" }, "✗ The list was cut: the server has more tools than the hub takes."),
        problems.length ? h("details", {}, h("summary", {}, `${problems.length} tools cannot be used`), jsonView(problems, "Tools that cannot be used, and why")) : null);
    } catch (problem) {
      fill(this.problems, h("p", { class: "help" }, problem instanceof Problem ? problemLine(problem) : ""));
    }
  }

  drawSaved() {
    const saved = this.app.saved.of(this.id);
    fill(this.savedList, saved.length === 0 ? null : h("details", { open: true }, h("summary", {}, "Saved calls"),
      h("ul", { class: "saved" }, saved.map((one) => h("li", {},
        button(`${line(one.tool, 40)} ${line(JSON.stringify(one.arguments), 60)}`, () => this.open(one.tool, { arguments: one.arguments }), { class: "link" }),
        button("✕", () => this.app.saved.drop(one), { class: "small", "aria-label": `Forget the saved call of ${line(one.tool, 40)}` }))))));
  }

  async openComparison() {
    const { compareView } = await import("./compare.js");
    showDialog("What changed in the tools", compareView(this.app, this.id));
  }

  /** Open a tool; with `arguments` they are put in, with `isRun` it starts at once. */
  async open(name, { arguments: given, isRun = false } = {}) {
    const tool = this.server?.tools.find((one) => one.name === name || one.publicName === name);
    if (!tool) return null;
    this.chosen = tool.name;
    this.list.mark(tool.name);
    this.app.remember(tool.name);
    const { RunPanel } = await import("./run-panel.js");
    if (this.chosen !== tool.name) return null;
    const key = JSON.stringify(tool);
    let kept = this.panels.get(tool.name);
    if (kept?.key !== key) {
      kept = { key, panel: new RunPanel(this.app, runOf(this.id, tool)) };
      this.panels.set(tool.name, kept);
    }
    fill(this.detail, toolHead(tool, this), this.app.store.offline ? h("p", { class: "empty" }, "Offline view: nothing can be run.") : kept.panel.element);
    if (given) kept.panel.write(given);
    if (isRun) kept.panel.run();
    return kept.panel;
  }

  async toggle(tool) {
    try {
      await this.app.store.hub.ask("PATCH", serverPath(this.id, `/tools/${encodeURIComponent(tool.name)}`), { body: { enabled: !tool.enabled } });
      await this.app.store.readServer(this.id);
      this.open(tool.name);
    } catch (problem) {
      fill(this.problems, h("p", { class: "check bad", role: "alert" }, `✗ ${problemLine(problem)}`));
    }
  }
}

function runOf(server, tool) {
  return {
    server, method: "tools/call", target: tool.name, schema: tool.inputSchema ?? {}, outputSchema: tool.outputSchema,
    paramsOf: (value) => ({ name: tool.name, arguments: value }),
  };
}

function claims(tool) {
  return CLAIMS.filter(([name, value]) => tool.annotations?.[name] === value).map(([name, , text]) => h(
    "span", { class: `tag ${name === "destructiveHint" ? "warn" : ""}`, title: "The server's own claim; nobody checked it" }, text));
}

function toolHead(tool, panel) {
  const { inputSchema, outputSchema, annotations } = tool;
  return h("header", { class: "detail-head" },
    h("h3", {}, line(tool.title ?? tool.name, 120)),
    h("p", { class: "quiet" }, h("code", {}, line(tool.name, 200)), tool.publicName ? [" · for models: ", h("code", {}, tool.publicName)] : null),
    tool.description ? h("p", { class: "foreign" }, visible(String(tool.description).slice(0, 6000))) : null,
    annotations ? h("p", { class: "claims" }, claims(tool), h("span", { class: "quiet" }, " the server's own claims")) : null,
    tool.enabled === false ? h("p", { class: "check bad" }, "✗ Switched off: the hub refuses calls. ", button("Switch on", () => panel.toggle(tool), { class: "small", "data-testid": "tool-on" })) : null,
    h("details", {}, h("summary", {}, "Definition"), jsonView({ inputSchema, outputSchema, annotations }, "Definition of the tool"),
      tool.enabled === false || panel.app.store.offline ? null : button("Switch off for everything that uses the hub", () => panel.toggle(tool), { class: "small", "data-testid": "tool-off" })));
}
