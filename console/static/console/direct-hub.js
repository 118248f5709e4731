// The page as its own hub: the paths of the REST API, answered here by talking MCP to the servers.

import { DirectCalls } from "./direct-calls.js";
import { DirectServer, LISTS } from "./direct-server.js";
import { Hub, Problem } from "./hub.js";

const TENANT = { name: "without a hub", member: { displayName: "This page" } };

/** Method and path → handler; `:x` matches one part, and the handler gets the parts by name. */
const ROUTES = [
  ["GET", "/tenants/current", () => TENANT],
  ["GET", "/problems", () => []],
  ["GET", "/servers", (hub) => [...hub.servers.values()].map((one) => one.wire)],
  ["POST", "/servers", (hub, _, body) => hub.add(body)],
  ["GET", "/servers/:id", (hub, { id }) => hub.server(id).wire],
  ["PATCH", "/servers/:id", (hub, { id }, body) => hub.edit(hub.server(id), body)],
  ["DELETE", "/servers/:id", (hub, { id }) => hub.remove(hub.server(id))],
  ["POST", "/servers/:id/connect", (hub, { id }) => hub.connect(hub.server(id))],
  ["POST", "/servers/:id/disconnect", (hub, { id }, body) => hub.disconnect(hub.server(id), body)],
  ["GET", "/servers/:id/timeline", (hub, { id }) => hub.server(id).steps],
  ["GET", "/servers/:id/:list", (hub, { id, list }, _, query) => hub.list(hub.server(id), list, query)],
  ["PATCH", "/servers/:id/tools/:name", (hub, { id, name }, body) => hub.toggle(hub.server(id), name, body)],
  ["POST", "/servers/:id/tools/:name/call", (hub, { id, name }, body) => hub.call(id, "tools/call", { name, arguments: body.arguments }, body)],
  ["POST", "/servers/:id/resources/read", (hub, { id }, body) => hub.call(id, "resources/read", { uri: body.uri }, body)],
  ["POST", "/servers/:id/prompts/get", (hub, { id }, body) => hub.call(id, "prompts/get", { name: body.name, arguments: body.arguments }, body)],
  ["POST", "/servers/:id/complete", (hub, { id }, body) => hub.connected(id).client.request("completion/complete", body)],
  ["GET", "/calls", (hub) => ({ items: [...hub.calls.calls.values()].map(({ call }) => call) })],
  ["GET", "/calls/:id", (hub, { id }, _, query) => hub.calls.whenChanged(id, Number(query.get("wait") ?? 0))],
  ["POST", "/calls/:id/cancel", (hub, { id }) => hub.calls.cancel(id)],
  ["GET", "/elicitations", (hub) => hub.calls.open],
  ["POST", "/elicitations/:id", (hub, { id }, body) => hub.calls.answer(id, body)],
  ["GET", "/traces", () => ({ items: [], nextCursor: null })],
];

export class DirectHub extends Hub {
  /** Servers and their credentials are kept in `storage`, which lives as long as the tab does. */
  constructor(storage, key) {
    super();
    Object.assign(this, { isDirect: true, listener: () => {}, storage, storageKey: key });
    this.calls = new DirectCalls((event) => this.tell(event));
    this.servers = new Map(this.kept().map((one) => [one.id, new DirectServer(one, this)]));
    this.keep();
  }

  kept() {
    try { return JSON.parse(this.storage.getItem(this.storageKey)) ?? []; } catch { return []; }
  }

  keep() {
    this.storage.setItem(this.storageKey, JSON.stringify([...this.servers.values()].map((one) => one.kept)));
  }

  tell(event) { this.listener(event); }

  /** As Hub.ask; a path without a route is a mistake of the page. */
  async ask(method, path, { body = {} } = {}) {
    const [bare, search = ""] = path.split("?");
    for (const [wanted, pattern, handle] of ROUTES) {
      const parts = wanted === method ? match(pattern, bare) : null;
      if (parts) return { status: 200, headers: new Headers(), body: await handle(this, parts, body, new URLSearchParams(search)) };
    }
    throw missing("This needs a hub", `${method} ${bare} cannot be done by a page alone.`);
  }

  /** The events of this page, in place of the hub's socket. */
  openStream({ onEvent, onState }) {
    this.listener = onEvent;
    onState("direct");
    return { stop: () => this.close() };
  }

  async leave() {} // the page forgets what it kept; nobody else knows of it

  close() {
    this.listener = () => {};
    for (const server of this.servers.values()) server.disconnect();
  }

  // ------------------------------------------------------------------ servers

  server(id) {
    const found = this.servers.get(id);
    if (!found) throw missing("This server is gone");
    return found;
  }

  connected(id) {
    const server = this.server(id);
    if (!server.client) throw new Problem({ status: 409, code: "not_connected", title: "The server is not connected" });
    return server;
  }

  add({ url, name, auth }) {
    if (!/^(https?|wss?):$/.test(new URL(url).protocol)) {
      throw new Problem({ status: 400, code: "invalid_request", title: "This address cannot be used", errors: [{ path: "/url", message: "Enter an http, https, ws or wss address." }] });
    }
    const server = new DirectServer({ id: this.freeId(name), name, url, auth: auth ?? { type: "none" } }, this);
    this.servers.set(server.id, server);
    this.keep();
    return server.wire;
  }

  freeId(name) {
    const slug = name.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^[^a-z]+|-+$/g, "").slice(0, 20) || "server";
    let id = slug;
    for (let number = 2; this.servers.has(id); number += 1) id = `${slug}-${number}`;
    return id;
  }

  edit(server, { auth }) {
    server.auth = auth;
    this.keep();
    return server.wire;
  }

  async remove(server) {
    await server.disconnect();
    this.servers.delete(server.id);
    this.keep();
    return null;
  }

  async connect(server) {
    await server.connect();
    return server.wire;
  }

  async disconnect(server, { forget = false }) {
    if (forget) { server.auth = { type: "none" }; this.keep(); }
    await server.disconnect();
    return server.wire;
  }

  toggle(server, name, { enabled }) {
    if (enabled) server.off.delete(name);
    else server.off.add(name);
    return server.wire;
  }

  async list(server, kind, query) {
    if (!LISTS[kind]) throw missing("There is no such list");
    if (kind === "tools" && query.has("refresh")) await server.readTools();
    const { items, isComplete } = await server.list(kind, { refresh: query.has("refresh") && kind !== "tools" });
    const [, key] = LISTS[kind];
    return { [key]: items, problems: kind === "tools" ? (server.problems ?? []) : [], error: null, isComplete };
  }

  // ------------------------------------------------------------------ calls

  call(id, method, params, { timeoutMs = 60_000 }) {
    const server = this.connected(id);
    if (method === "tools/call" && server.off.has(params.name)) throw new Problem({ status: 409, code: "tool_disabled", title: "The tool is switched off" });
    return this.calls.start(server, method, params, timeoutMs);
  }
}

function match(pattern, path) {
  const wanted = pattern.split("/");
  const given = path.split("/");
  if (wanted.length !== given.length) return null;
  const parts = {};
  for (const [index, one] of wanted.entries()) {
    if (one.startsWith(":")) parts[one.slice(1)] = decodeURIComponent(given[index]);
    else if (one !== given[index]) return null;
  }
  return parts;
}

const missing = (title, detail = "") => new Problem({ status: 404, code: "not_found", title, detail });
