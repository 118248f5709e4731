// One server: its head with the actions, and the tabs.

import { announce, button, fill, h, showDialog } from "./dom.js";
import { Problem, serverPath } from "./hub.js";
import { line } from "./text.js";
import { authorizeView, openAuthorization, openBlank } from "./authorize.js";
import { problemView } from "./problem-view.js";
import { stateBadge } from "./states.js";
import { Tabs } from "./tabs.js";

const SETTLE_MS = 60_000;

// Loaded when they are first opened: the first load of the page stays small.
const PANELS = [
  ["overview", "Overview", async () => (await import("./overview-panel.js")).OverviewPanel],
  ["tools", "Tools", async () => (await import("./tools-panel.js")).ToolsPanel],
  ["resources", "Resources", async () => (await import("./resources-panel.js")).ResourcesPanel],
  ["prompts", "Prompts", async () => (await import("./prompts-panel.js")).PromptsPanel],
  ["requests", "Requests", async () => (await import("./requests-panel.js")).RequestsPanel],
  ["calls", "Calls", async () => (await import("./calls-panel.js")).CallsPanel],
];

export class ServerPage {
  constructor(app, id) {
    Object.assign(this, { app, id, panels: new Map() });
    this.head = h("header", { class: "page-head", onpointerdown: () => this.hold() });
    this.failure = h("div", {});
    this.tabs = new Tabs({ label: "Parts of the server", tabs: PANELS.map(([name, title]) => [name, title]), onChange: (name) => this.show(name) });
    this.body = h("div", { class: "panel-body" });
    this.element = h("div", { class: "page" }, this.head, this.failure, this.tabs.element, this.body);
    this.leave = [app.store.on("servers", () => this.draw()), app.store.on("elicitations", () => this.draw())];
    this.draw();
  }

  close() {
    for (const leave of this.leave) leave();
    for (const panel of this.panels.values()) panel.close?.();
  }

  get server() { return this.app.store.servers.get(this.id); }

  draw() {
    const { server } = this;
    if (!server) { fill(this.head, h("h2", {}, "This server is gone")); this.tabs.element.hidden = true; fill(this.body); return; }
    if (this.isAwaited && server.connectionState === "connected") {
      this.isAwaited = false;
      if (this.name === "overview") this.show("tools"); // whoever connects wants to use it
    }
    const asked = this.app.store.elicitations.length;
    this.tabs.count("tools", server.tools.length);
    this.tabs.count("requests", asked);
    const key = JSON.stringify([server, asked, Boolean(this.app.store.offline)]);
    if (key === this.drawn || this.isHeld) return; // nothing moves below a reader's finger
    this.drawn = key;
    const focused = this.head.contains(document.activeElement) ? document.activeElement.dataset.testid : null;
    fill(this.head,
      h("div", { class: "page-title" }, h("h2", {}, line(server.name, 80)), stateBadge(server), h("span", { class: "grow" }), this.app.store.offline ? null : this.actions(server)),
      h("p", { class: "quiet address" }, line(server.url, 300)),
      server.lastError ? lastErrorView(server) : null,
      server.authorizationUrl ? authorizeView(server, this.app.store.hub) : null);
    if (focused) (this.head.querySelector(`[data-testid="${focused}"]`) ?? this.head.querySelector("button"))?.focus();
  }

  /** A head that is drawn anew between press and release would lose the click. */
  hold() {
    this.isHeld = true;
    addEventListener("pointerup", () => setTimeout(() => { this.isHeld = false; this.draw(); }), { once: true });
  }

  actions(server) {
    const isOn = ["connected", "connecting"].includes(server.connectionState);
    const isOwn = server.kind === "custom";
    return h("div", { class: "actions" },
      isOn ? button("Disconnect", () => this.disconnect(), { "data-testid": "disconnect" })
        : button("Connect", () => this.connect(), { class: "primary", "data-testid": "connect" }),
      this.app.store.hub.isDirect ? null : button("Diagnose", () => this.diagnose(), { "data-testid": "diagnose" }),
      server.auth.type === "oauth" && server.auth.hasCredentials ? button("Sign in again", () => this.signInAgain(), { "data-testid": "sign-in-again", title: "Drop the authorization and ask for a new one" }) : null,
      button("Credentials …", () => this.editCredentials()),
      server.auth.hasCredentials ? button("Forget credentials", () => this.disconnect({ forget: true })) : null,
      isOwn ? button("Remove …", () => this.remove(), { class: "danger" }) : null);
  }

  async attempt(work) {
    fill(this.failure);
    try {
      return await work();
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      fill(this.failure, problemView(problem, this.app.store.hub));
      return null;
    }
  }

  connect() {
    this.isAwaited = true;
    const popup = this.server.auth.type === "oauth" ? openBlank() : null;
    return this.attempt(() => this.app.connect(this.id)).then(() => this.leadOn(popup));
  }

  /** Where to sign in is known when the attempt has settled; a popup that is not needed closes. */
  async leadOn(popup) {
    if (!popup) return;
    const server = await this.app.store.settled(this.id, SETTLE_MS);
    if (server?.authorizationUrl) openAuthorization(popup, server.authorizationUrl);
    else popup.close();
  }

  /** The popup has to be opened by the click itself; forgetting comes after. */
  signInAgain() {
    const popup = openBlank();
    return this.attempt(async () => {
      await this.app.store.hub.post(serverPath(this.id, "/disconnect"), { forget: true });
      await this.app.connect(this.id);
    }).then(() => this.leadOn(popup));
  }

  disconnect(body = {}) {
    return this.attempt(async () => {
      this.app.store.keepServer(await this.app.store.hub.post(serverPath(this.id, "/disconnect"), body));
      announce(body.forget ? "Disconnected, credentials forgotten." : "Disconnected.");
    });
  }

  async editCredentials() {
    const { serverForm } = await import("./server-form.js");
    const dialog = showDialog("Credentials", serverForm(this.app, () => dialog.close(), this.server));
  }

  remove() {
    const dialog = showDialog("Remove this server?",
      h("p", {}, `“${line(this.server.name, 80)}” and its stored credentials are deleted. The history stays.`),
      h("div", { class: "run-actions" },
        button("Remove", () => { dialog.close(); this.removeNow(); }, { class: "danger", "data-testid": "confirm-remove" }),
        button("Keep it", () => dialog.close())));
  }

  removeNow() {
    return this.attempt(async () => {
      await this.app.store.hub.ask("DELETE", serverPath(this.id));
      this.app.store.dropServer(this.id);
      this.app.openFirstServer();
    });
  }

  async diagnose() {
    const panel = await this.show("overview");
    await panel.diagnose();
  }

  /** Open a part; returns its panel, even when another part was opened meanwhile. */
  async show(name) {
    const known = PANELS.some(([one]) => one === name) ? name : "overview";
    this.name = known;
    this.tabs.mark(known);
    this.app.remember();
    const panel = await this.panelOf(known);
    if (this.name !== known) return panel;
    fill(this.body, this.tabs.panelFor(known, panel.element));
    panel.shown?.();
    return panel;
  }

  async panelOf(name) {
    const [, , load] = PANELS.find(([one]) => one === name);
    const Panel = await load();
    if (!this.panels.has(name)) this.panels.set(name, new Panel(this.app, this.id));
    return this.panels.get(name);
  }
}

function lastErrorView(server) {
  const { message, code, hint, retryable } = server.lastError;
  return h("div", { class: "problem slim", "data-error": code, "data-testid": "last-error" },
    h("p", { class: "problem-title" }, line(message, 300)),
    h("p", {}, hint ? `${hint} ` : "", retryable ? "Connecting again may help. " : "Connecting again will not help by itself. ", h("code", {}, code)));
}
