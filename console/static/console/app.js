// The page: starts, signs in, ties the panels together, and keeps the address of what is open.

import { announce, button, fill, h } from "./dom.js";
import { Problem, serverPath } from "./hub.js";
import { CHANNEL } from "./authorize.js";
import { HistoryPanel } from "./history-panel.js";
import { listenForShortcuts, showHelp } from "./help.js";
import { problemView } from "./problem-view.js";
import { SavedCalls } from "./saved.js";
import { ServerList } from "./server-list.js";
import { ServerPage } from "./server-page.js";
import { directHub, forgetCredential, knownHub, signInView } from "./sign-in.js";
import { Store } from "./store.js";
import { plural } from "./text.js";

const LINE = {
  live: ["Live", "good"], direct: ["Direct, no hub", "good"], connecting: ["Connecting …", "busy"], offline: ["Offline, trying again", "bad"], "signed-out": ["Signed out", "bad"], file: ["File, offline", "idle"],
};
const AT_ONCE = 4;

class App {
  constructor() {
    const { csrfCookie = "", exported } = document.documentElement.dataset;
    this.page = { csrfCookie, isExported: exported === "true" };
    this.main = document.getElementById("main");
    this.root = document.getElementById("app");
    this.status = document.getElementById("line");
    this.account = document.getElementById("account");
    this.saved = new SavedCalls();
    document.getElementById("help").addEventListener("click", showHelp);
    listenForShortcuts({
      S: () => this.sidebar?.list.element.focus(), T: () => this.focusTools(), A: () => this.sidebar?.openForm(),
      H: () => this.history?.list.element.focus(), F: () => this.history?.filter.focus(),
    });
    addEventListener("hashchange", () => this.openAddress());
    new BroadcastChannel(CHANNEL).addEventListener("message", () => this.store?.readServers().catch(() => {}));
  }

  async start() {
    const hub = await knownHub(this.page);
    if (!hub) { this.askForCredential(); return; }
    try {
      this.enter(hub, await hub.get("/tenants/current"));
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      if (problem.status === 401) this.askForCredential({ reason: hub.key ? problem.title : "" });
      else this.showFailure(problem);
    }
  }

  showFailure(problem) {
    this.root.dataset.state = "failed";
    fill(this.main, problemView(problem, null), h("div", { class: "run-actions" }, button("Try again", () => this.start(), { class: "primary" })));
  }

  askForCredential(options = {}) {
    this.stop();
    forgetCredential();
    this.root.dataset.state = "signed-out";
    fill(this.account);
    this.status.textContent = "";
    this.status.className = "badge";
    const opener = h("input", { type: "file", hidden: true, accept: ".json,.ndjson,.har", "aria-label": "History file", "data-testid": "open-file", onchange: () => this.openFile(opener.files[0]) });
    fill(this.main, signInView(this.page, (hub, tenant) => this.enter(hub, tenant), options),
      this.page.isExported ? this.directView() : null,
      h("p", { class: "sign-in" }, button("Open a history file instead", () => opener.click(), { class: "link" }), opener));
    this.main.querySelector("input")?.focus();
  }

  /** The exported page needs no hub: it can speak to servers by itself. */
  directView() {
    return h("section", { class: "sign-in", "aria-labelledby": "direct-title" }, h("h2", { id: "direct-title" }, "Without a hub"),
      h("p", {}, "This page can talk to MCP servers by itself, over HTTP or a WebSocket. The servers have to allow pages like this (CORS), and there is no OAuth."),
      button("Connect to servers directly", async () => {
        const hub = await directHub();
        this.enter(hub, await hub.get("/tenants/current"));
      }, { "data-testid": "direct" }));
  }

  stop() {
    this.stream?.stop();
    this.server?.close();
    this.history?.leave();
    this.history?.element.remove();
    this.sidebar?.element.remove();
    Object.assign(this, { stream: null, server: null, store: null, history: null, sidebar: null });
  }

  /** Build the page for a store. */
  show(store) {
    this.store = store;
    this.sidebar = new ServerList(this);
    this.history = new HistoryPanel(this);
    this.root.prepend(this.sidebar.element);
    this.root.append(this.history.element);
    this.root.dataset.state = "ready";
    fill(this.main, h("p", { class: "empty" }, "Reading …"));
  }

  async enter(hub, tenant) {
    this.stop();
    const store = new Store(hub);
    store.tenant = tenant;
    this.show(store);
    store.on("line", (state) => this.onLine(state));
    const out = button("Sign out", () => this.signOut(), { class: "small", "data-testid": "sign-out" });
    fill(this.account, h("span", { class: "quiet" }, `${tenant.member.displayName || tenant.member.email || "member"} · ${tenant.name}`), out);
    try {
      await store.readServers();
      store.isLoaded = true;
      store.tell("servers");
      this.openAddress() || this.openFirstServer();
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      fill(this.main, problemView(problem, hub));
    }
    this.stream = hub.openStream({ onEvent: (event) => store.apply(event), onGap: () => store.catchUp(), onState: (state) => store.setLine(state) });
  }

  async signOut() {
    const { hub } = this.store;
    forgetCredential();
    await hub.leave();
    location.hash = "";
    this.askForCredential();
  }

  onLine(state) {
    const [text, tone] = LINE[state];
    this.status.textContent = text;
    this.status.className = `badge ${tone}`;
    this.status.dataset.state = state;
    if (state === "signed-out") this.askForCredential({ reason: "The hub no longer accepts this sign-in. Sign in again." });
  }

  // ------------------------------------------------------------------ servers

  /** Open a server, at one of its parts; returns that part's panel. */
  async openServer(id, tab) {
    if (!this.store.servers.has(id)) return null;
    this.sidebar.list.mark(id);
    if (this.server?.id === id) return this.server.show(tab ?? this.server.name);
    this.server?.close();
    this.server = new ServerPage(this, id);
    fill(this.main, this.server.element);
    const isConnected = this.store.servers.get(id).connectionState === "connected";
    return this.server.show(tab ?? (isConnected ? "tools" : "overview"));
  }

  openFirstServer() {
    this.server?.close();
    this.server = null;
    const [first] = this.store.servers.keys();
    if (first) this.openServer(first);
    else fill(this.main, h("section", { class: "sign-in" }, h("h2", {}, "No server yet"), h("p", {}, "Add the address of an MCP server to begin."),
      this.store.offline ? null : button("Add server", () => this.sidebar.openForm(), { class: "primary" })));
  }

  async connect(id) {
    const before = this.store.servers.get(id);
    this.store.keepServer({ ...before, connectionState: "connecting", lastError: null });
    try {
      const { body } = await this.store.hub.ask("POST", serverPath(id, "/connect"), { body: {} });
      this.store.keepServer(body);
      announce(`${body.name}: ${body.connectionState}`);
      return body;
    } catch (problem) {
      this.store.keepServer(before);
      throw problem;
    }
  }

  async focusTools() {
    const panel = await this.server?.show("tools");
    panel?.list.element.focus();
  }

  async openResource(server, uri) {
    const panel = await this.openServer(server, "resources");
    panel?.openUri(uri);
  }

  /** Run an exchange of the history again, or open its form when something in it is hidden. */
  async replay(entry, { isRun }) {
    const { params } = entry.request.content;
    const tab = { "tools/call": "tools", "resources/read": "resources", "prompts/get": "prompts" }[entry.method];
    const panel = await this.openServer(entry.server, tab);
    if (!panel) { announce("This server is gone."); return; }
    if (tab === "tools") panel.open(params.name, { arguments: params.arguments ?? {}, isRun });
    if (tab === "resources") panel.openUri(params.uri);
    if (tab === "prompts") panel.openByName(params.name, params.arguments ?? {});
    this.main.focus();
  }

  // ------------------------------------------------------------------ history

  filterHistory(text) { this.history.setFilter(text); }

  pin(entry) {
    entry.isPinned = !entry.isPinned;
    this.store.history.onChange();
  }

  async loadMessage(row) {
    const whole = await this.store.hub.get(`/traces/${row.id}`);
    this.store.history.complete(whole);
    return whole;
  }

  /** Fetch what lists left out for its size; what is gone meanwhile stays left out. */
  async loadOmitted(entries) {
    const rows = entries.flatMap((entry) => [entry.request, entry.answer]).filter((row) => row?.contentOmitted);
    if (this.store.offline) return;
    for (let at = 0; at < rows.length; at += AT_ONCE) {
      await Promise.allSettled(rows.slice(at, at + AT_ONCE).map((row) => this.loadMessage(row)));
    }
  }

  /** Show a file without a hub; leaving it goes back to where the page was. */
  async openFile(file) {
    const { readFile } = await import("./transfer.js");
    let session;
    try {
      session = readFile(await file.text());
    } catch (error) {
      this.main.prepend(problemView(new Problem({ code: "file_unreadable", title: `“${file.name}” cannot be shown`, detail: error.message, hint: "Choose a file that the console or the hub exported." }), null));
      return;
    }
    this.stop();
    location.hash = "";
    const store = new Store((await knownHub(this.page)) ?? { base: "" });
    Object.assign(store, { offline: file.name, isLoaded: true });
    store.servers = new Map(session.servers.map((server) => [server.id, server]));
    this.show(store);
    store.history.add(session.messages);
    const pinned = new Set(session.pinned);
    for (const entry of store.history.entries) entry.isPinned = pinned.has(entry.key);
    this.onLine("file");
    fill(this.account, button("Close the file", () => { this.stop(); this.start(); }, { class: "small", "data-testid": "close-file" }));
    this.openFirstServer();
    announce(`${plural(session.messages.length, "message")} of ${file.name}.`);
    this.main.prepend(h("p", { class: "notice", "data-testid": "offline" }, `Offline view of “${file.name}”: ${plural(session.messages.length, "message")}. `,
      session.skipped ? `${plural(session.skipped, "item")} could not be read. ` : "", "Nothing here is sent to a hub."));
    this.sidebar.draw();
  }

  // ------------------------------------------------------------------ address

  remember(item) {
    if (!this.server || this.store.offline) return;
    const parts = [this.server.id, this.server.name, item].filter(Boolean).map(encodeURIComponent);
    const hash = `#/${parts.join("/")}`;
    if (location.hash !== hash) history.replaceState(null, "", hash);
  }

  /** `#/server/part/item`, with `?filter=…` for the history: links of the admin site have it. */
  openAddress() {
    const [path, search = ""] = location.hash.split("?");
    const [, id, tab, item] = path.split("/").map(decoded);
    const filter = new URLSearchParams(search).get("filter");
    if (filter) this.history?.setFilter(filter);
    if (!id || !this.store?.servers.has(id)) return false;
    this.openServer(id, tab).then((panel) => { if (tab === "tools" && item) panel?.open(item); });
    return true;
  }
}

function decoded(part) {
  try { return decodeURIComponent(part); } catch { return ""; }
}

new App().start();
