// The ledger: the calls of this server, running and ended, from any client.

import { button, fill, h, showDialog } from "./dom.js";
import { problemLine } from "./problem-view.js";
import { clock, line, millis } from "./text.js";

const OPEN = new Set(["queued", "running", "input_required"]);
const SIGNS = { succeeded: "✓", failed: "✗", cancelled: "–", expired: "✗", outcome_unknown: "?" };

export class CallsPanel {
  constructor(app, id) {
    Object.assign(this, { app, id });
    this.failure = h("p", { class: "field-error", role: "alert", hidden: true });
    this.body = h("tbody", {});
    this.table = h("table", { "data-testid": "calls" },
      h("thead", {}, h("tr", {}, ["State", "What", "Since", "Took", ""].map((name) => h("th", { scope: "col" }, name || h("span", { class: "sr" }, "Actions"))))), this.body);
    this.empty = h("p", { class: "empty" }, "No call yet. Calls of every client that uses your account appear here, long-running ones too.");
    this.element = h("div", { class: "stack" }, this.failure, this.empty, h("div", { class: "scroll-x", tabindex: "0", role: "region", "aria-label": "Calls" }, this.table),
      h("p", { class: "help" }, "What was begun by any client is here until the hub forgets it, long-running work too. A call that waits for you is answered under “Requests”."));
    this.leave = app.store.on("calls", () => this.draw());
    this.draw();
  }

  close() { this.leave(); }

  shown() {
    if (!this.app.store.offline) this.app.store.readCalls().catch(() => {});
  }

  draw() {
    const calls = [...this.app.store.calls.values()].filter((call) => call.server === this.id)
      .sort((a, b) => (a.id < b.id ? 1 : -1)).slice(0, 100);
    this.empty.hidden = calls.length > 0;
    this.table.hidden = calls.length === 0;
    fill(this.body, calls.map((call) => this.row(call)));
  }

  row(call) {
    const isOpen = OPEN.has(call.status);
    const took = call.finishedAt && call.createdAt ? millis(new Date(call.finishedAt) - new Date(call.createdAt)) : "";
    return h("tr", { "data-status": call.status },
      h("td", {}, h("span", { class: `badge ${isOpen ? "busy" : (call.status === "succeeded" && !call.isToolError ? "good" : "bad")}` }, `${SIGNS[call.status] ?? "◔"} ${call.status.replaceAll("_", " ")}${call.isToolError ? ", tool error" : ""}`)),
      h("td", {}, h("code", {}, `${call.method} ${line(call.target, 60)}`), call.problem ? h("span", { class: "quiet" }, ` ${call.problem.code}`) : null),
      h("td", {}, call.createdAt ? clock(call.createdAt) : ""), h("td", {}, took),
      h("td", {}, isOpen ? button("Cancel", () => this.cancel(call), { class: "small" }) : button("Result", () => this.showResult(call), { class: "small" }), " ", isOpen ? null : button("Messages", () => this.app.filterHistory(`call:${call.id}`), { class: "small" })));
  }

  async showResult(call) {
    this.failure.hidden = true;
    try {
      const [{ outcomeView }, { jsonView }, whole] = await Promise.all([import("./outcome.js"), import("./json-view.js"), this.app.store.hub.get(`/calls/${call.id}`)]);
      const { result, error } = whole.outcome ?? {};
      const view = result ? outcomeView(result) : (error ? jsonView(error, "The server's error") : h("p", { class: "empty" }, whole.problem?.detail || "There is no result."));
      showDialog(`${call.method} ${line(call.target, 60)}: ${call.status.replaceAll("_", " ")}`, h("div", { "data-testid": "call-result" }, view));
    } catch (problem) {
      this.failure.textContent = problemLine(problem);
      this.failure.hidden = false;
    }
  }

  async cancel(call) {
    this.failure.hidden = true;
    try {
      this.app.store.keepCall(await this.app.store.hub.post(`/calls/${call.id}/cancel`));
    } catch (problem) {
      this.failure.textContent = problemLine(problem);
      this.failure.hidden = false;
    }
  }
}
