// What a server is, why it is in its state, and the checklist of a diagnosis.

import { button, fill, h } from "./dom.js";
import { Problem, serverPath } from "./hub.js";
import { problemView } from "./problem-view.js";
import { relaysView } from "./relays.js";
import { clock, line, millis, visible } from "./text.js";

const STEPS = {
  dns: "Name (DNS)", address: "Address allowed", tcp: "Connection (TCP)", tls: "Encryption (TLS)", http: "HTTP answer",
  era: "Protocol version", auth: "Authorization",
};
const SIGNS = { ok: "✓", failed: "✗", skipped: "–" };

export class OverviewPanel {
  constructor(app, id) {
    Object.assign(this, { app, id });
    this.facts = h("div", {});
    this.checks = h("div", { "data-testid": "checklist" });
    this.timeline = h("div", {});
    this.relays = h("div", {});
    this.element = h("div", { class: "stack" }, this.checks, this.facts, this.relays, this.timeline);
    this.leave = app.store.on("servers", () => this.draw());
  }

  close() { this.leave(); }

  shown() {
    this.drawn = null;
    this.draw();
  }

  draw() {
    const server = this.app.store.servers.get(this.id);
    if (!server) return;
    const key = JSON.stringify({ ...server, seq: 0 });
    if (key === this.drawn) return;
    this.drawn = key;
    const { serverInfo = {}, capabilities = {} } = server;
    const facts = [
      ["Server says it is", [serverInfo?.title ?? serverInfo?.name, serverInfo?.version].filter(Boolean).join(" ")],
      ["Protocol", server.protocolVersion ? `${server.protocolVersion} (${era(server.protocolVersion)})` : ""],
      ["Transport", server.transport],
      ["Credentials", credentialsOf(server.auth)],
      ["Capabilities", Object.keys(capabilities ?? {}).join(", ")],
      ["Connected since", server.connectedAt ? new Date(server.connectedAt).toLocaleString() : ""],
      ["Next attempt", server.nextRetryAt ? clock(server.nextRetryAt) : ""],
      ["Kind", server.kind === "custom" ? "added by you" : `preset “${server.connector ?? server.id}”`],
      ["Id", server.id],
    ].filter(([, text]) => text);
    fill(this.facts,
      server.instructions ? h("blockquote", { class: "foreign" }, h("p", { class: "by" }, "The server's instructions"), visible(server.instructions.slice(0, 4000))) : null,
      h("dl", { class: "facts" }, facts.flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, line(text, 300))])));
    if (!this.app.store.offline) { fill(this.relays, relaysView(this.app, server)); this.readTimeline(); }
  }

  async readTimeline() {
    try {
      const steps = await this.app.store.hub.get(serverPath(this.id, "/timeline"));
      const rows = steps.slice(0, 60).map((step) => h("li", {},
        h("time", { datetime: step.at }, clock(step.at)), h("strong", {}, words(step.kind)), h("span", { class: "quiet" }, details(step.detail))));
      fill(this.timeline, h("h3", {}, "Why it is in this state"),
        rows.length ? h("ol", { class: "timeline", "data-testid": "timeline" }, rows) : h("p", { class: "empty" }, "Nothing has happened yet: connect to see every step here."));
    } catch { fill(this.timeline); /* the head shows that the hub is away */ }
  }

  async diagnose() {
    fill(this.checks, h("h3", {}, "Diagnosis"), h("p", { class: "quiet", role: "status" }, "Checking step by step …"));
    try {
      const result = await this.app.store.hub.post(serverPath(this.id, "/diagnose"));
      fill(this.checks, h("h3", {}, "Diagnosis"), h("ol", { class: "checklist", "data-state": result.ok ? "ok" : "failed" }, result.steps.map(stepView)),
        h("div", { class: "run-actions" }, button("Check again", () => this.diagnose(), { class: "small" }), button("Close", () => fill(this.checks), { class: "small" })));
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      fill(this.checks, problemView(problem, this.app.store.hub));
    }
  }
}

function stepView(step) {
  const detail = Object.entries(step.detail ?? {});
  return h("li", { class: step.outcome, "data-outcome": step.outcome },
    h("span", { class: "sign", "aria-hidden": "true" }, SIGNS[step.outcome]),
    h("div", {}, h("strong", {}, STEPS[step.name] ?? step.name), ` ${step.outcome} `,
      h("span", { class: "quiet" }, step.outcome === "skipped" ? "" : millis(step.durationMs)),
      step.hint ? h("p", {}, step.hint, step.code ? [" ", h("code", {}, step.code)] : null) : null,
      detail.length ? h("p", { class: "quiet" }, detail.map(([name, value]) => `${name}: ${String(value)}`).join(" · ")) : null));
}

function era(version) {
  return version >= "2026" ? "without sessions" : "with sessions";
}

function credentialsOf({ type, hasCredentials, headerNames }) {
  if (type === "none") return "none";
  const names = headerNames?.length ? ` (${headerNames.join(", ")})` : "";
  return `${type}${names}, ${hasCredentials ? "stored" : "missing"}`;
}

const words = (kind) => ` ${String(kind).replaceAll("_", " ")} `;

function details(detail) {
  if (!detail || typeof detail !== "object") return "";
  return line(Object.entries(detail).map(([name, value]) => `${name}: ${typeof value === "object" ? JSON.stringify(value) : value}`).join(" · "), 300);
}

