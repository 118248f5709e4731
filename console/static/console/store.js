// What the page knows: servers, calls, history and the state of the line; panels listen by topic.

import { serverPath } from "./hub.js";
import { History } from "./history.js";
import { rememberTools } from "./captures.js";

const CATCH_UP_ROWS = 200;
const CATCH_UP_PAGES = 50;
const OUT_OF_ORDER_MS = 10_000; // workers stamp their messages by their own clocks
const LATE_MS = 1500; // rows reach the database a moment after they were seen

export class Store {
  constructor(hub) {
    Object.assign(this, { hub, servers: new Map(), calls: new Map(), elicitations: [], tenant: null });
    Object.assign(this, { line: "connecting", lists: new Map(), offline: null, listeners: new Map() });
    this.history = new History(() => this.tell("history"));
  }

  on(topic, listener) {
    if (!this.listeners.has(topic)) this.listeners.set(topic, new Set());
    this.listeners.get(topic).add(listener);
    return () => this.listeners.get(topic).delete(listener);
  }

  tell(topic, detail) {
    for (const listener of [...(this.listeners.get(topic) ?? [])]) listener(detail);
  }

  // ------------------------------------------------------------------ reading from REST

  async readServers() {
    const list = await this.hub.get("/servers");
    this.servers = new Map(list.map((server) => [server.id, server]));
    for (const server of list) rememberTools(server);
    this.tell("servers");
  }

  async readServer(id) {
    this.keepServer(await this.hub.get(serverPath(id)));
  }

  async readElicitations() {
    this.elicitations = await this.hub.get("/elicitations");
    this.tell("elicitations");
  }

  async readCalls() {
    const { items } = await this.hub.get("/calls", { limit: 50 });
    for (const call of items) this.calls.set(call.id, { ...this.calls.get(call.id), ...call });
    this.tell("calls");
  }

  /**
   * Read the newest messages, back to where the history is complete: one page the first time.
   * Live messages do not end it: they may have overtaken what was missed.
   */
  async readHistory() {
    const until = this.completeTo ?? this.history.newest;
    const rows = [];
    let cursor;
    for (let page = 0; page < CATCH_UP_PAGES; page += 1) {
      const answer = await this.hub.get("/traces", { limit: CATCH_UP_ROWS, cursor });
      rows.push(...answer.items);
      cursor = answer.nextCursor;
      if (!until) this.olderCursor = cursor;
      if (!until || !cursor || millisOf(answer.items.at(-1).id) < millisOf(until) - OUT_OF_ORDER_MS) break;
    }
    this.history.add(rows);
    this.completeTo = null;
  }

  async readOlder() {
    if (!this.olderCursor) return;
    const answer = await this.hub.get("/traces", { limit: CATCH_UP_ROWS, cursor: this.olderCursor });
    this.olderCursor = answer.nextCursor;
    this.history.add(answer.items);
  }

  /** Read everything that events may have missed; twice for what was just being written. */
  async catchUp() {
    await Promise.allSettled([
      this.readServers(), this.readHistory(), this.readElicitations(), this.readCalls(),
    ]);
    clearTimeout(this.lateTimer);
    this.lateTimer = setTimeout(() => this.readHistory().catch(() => {}), LATE_MS);
  }

  // ------------------------------------------------------------------ events

  apply(event) {
    const kind = event.type.split(".")[0];
    if (event.type === "server.state") this.keepServer(event.server);
    else if (event.type === "server.removed") this.dropServer(event.id);
    else if (event.type === "trace.message") this.history.add([event.trace]);
    else if (event.type === "tool.changed") this.toolsChanged(event);
    else if (event.type === "call.progress") this.tell("progress", event);
    else if (event.type === "call.log") this.tell("log", event);
    else if (kind === "call") this.keepCall(event.call);
    else if (kind === "elicitation") this.readElicitations().catch(() => {});
  }

  keepServer(server) {
    const before = this.servers.get(server.id);
    const isSame = before?.catalogVersion === server.catalogVersion;
    const isLeftOut = server.tools === null;
    const tools = isLeftOut ? (before?.tools ?? []) : server.tools;
    this.servers.set(server.id, { ...before, ...server, tools });
    rememberTools(this.servers.get(server.id));
    if (!isSame) this.forgetLists(server.id);
    this.tell("servers");
    if (isLeftOut && !isSame) this.readServer(server.id).catch(() => {});
  }

  /** The server once no attempt to connect is under way any more, or as it is after `most` ms. */
  settled(id, most) {
    const isSettled = () => this.servers.get(id)?.connectionState !== "connecting";
    if (isSettled()) return Promise.resolve(this.servers.get(id));
    return new Promise((resolve) => {
      const done = () => { leave(); clearTimeout(timer); resolve(this.servers.get(id)); };
      const leave = this.on("servers", () => { if (isSettled()) done(); });
      const timer = setTimeout(done, most);
    });
  }

  dropServer(id) {
    this.servers.delete(id);
    this.forgetLists(id);
    this.tell("servers");
  }

  keepCall(call) {
    this.calls.set(call.id, { ...this.calls.get(call.id), ...call });
    this.tell("calls");
    this.tell("call", call);
  }

  toolsChanged(event) {
    this.forgetLists(event.id);
    this.tell("tools-changed", event);
    this.readServer(event.id).catch(() => {});
  }

  setLine(state) {
    if (state !== "live") this.completeTo ??= this.history.newest;
    this.line = state;
    this.tell("line", state);
  }

  // ------------------------------------------------------------------ lists of a server

  /** A list of one server (`tools`, `resources`, `resource-templates`, `prompts`), read once. */
  list(server, kind, { refresh = false } = {}) {
    const key = `${server} ${kind}`;
    if (refresh || !this.lists.has(key)) {
      const reading = this.hub.get(serverPath(server, `/${kind}`), refresh ? { refresh: "true" } : {});
      reading.catch(() => this.lists.delete(key));
      this.lists.set(key, reading);
    }
    return this.lists.get(key);
  }

  forgetLists(server) {
    for (const key of this.lists.keys()) if (key.startsWith(`${server} `)) this.lists.delete(key);
    this.tell("lists", server);
  }
}

/** The time in a UUIDv7. */
const millisOf = (id) => Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
