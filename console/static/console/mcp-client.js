// An MCP client in the page: ids, both eras, progress, cancellation, and requests of the server.

import { CAPABILITIES, CLIENT_INFO, LEGACY_VERSIONS, legacy, modern, MODERN_VERSION } from "./mcp-eras.js";
import { HttpFailure, Unreachable } from "./mcp-http.js";

const PROBE_MS = 5000;
const LONGEST_MS = 600_000;
const MOST_PAGES = 100;
const NOT_FOUND = { code: -32601, message: "This client does not know the method." };

/** The server's JSON-RPC error. */
export class RpcError extends Error {
  constructor(rpc) {
    super(rpc?.message ?? "error");
    this.rpc = rpc;
  }
}

/** No answer within the limit. */
export class TimedOut extends Error {}

/**
 * `peer`: `onRequest(method, params, callId)` → a promise of the result, or null for an unknown
 * method; `onNotification(method, params, callId)`; `onTrace({direction, message, callId, …})`.
 */
export class McpClient {
  constructor(transport, peer) {
    Object.assign(this, { transport, peer, pending: new Map(), lastId: 0, rules: modern, standing: new AbortController() });
    transport.onMessage = (message, context) => this.receive(message, context);
    transport.onClose = (error) => this.failAll(error);
  }

  // ------------------------------------------------------------------ opening and closing

  /** Agree on a version; returns `{protocolVersion, serverInfo, capabilities, instructions}`. */
  async open() {
    const opened = (await this.discover()) ?? (await this.initialize());
    this.listen(opened.capabilities ?? {});
    return opened;
  }

  /** Ask as in 2026-07-28; null when the answer says that the server is older. */
  async discover() {
    this.rules = modern;
    try {
      const found = await this.request("server/discover", {}, { timeoutMs: PROBE_MS });
      if (!found.supportedVersions?.includes(MODERN_VERSION)) return null;
      return { ...found, protocolVersion: MODERN_VERSION, serverInfo: found._meta?.["io.modelcontextprotocol/serverInfo"] ?? {} };
    } catch (error) {
      if (isVerdict(error)) return null;
      throw error;
    }
  }

  async initialize() {
    this.rules = legacy();
    const found = await this.request("initialize", { protocolVersion: LEGACY_VERSIONS[0], capabilities: CAPABILITIES, clientInfo: CLIENT_INFO });
    if (!LEGACY_VERSIONS.includes(found.protocolVersion)) throw new RpcError({ code: -32602, message: `The server speaks version ${found.protocolVersion}, which this page does not.` });
    this.rules = legacy(found.protocolVersion);
    await this.notify("notifications/initialized");
    return found;
  }

  /** Keep a stream for what the server says by itself; a server without one is fine. */
  listen(capabilities) {
    if (this.transport.kind === "websocket") return;
    const lists = Object.fromEntries(["tools", "prompts", "resources"].filter((name) => capabilities[name]?.listChanged).map((name) => [`${name}ListChanged`, true]));
    const listening = this.rules.isModern
      ? this.request("subscriptions/listen", { notifications: lists }, { timeoutMs: Infinity })
      : this.transport.listen(this.rules.headers("", {}), this.standing.signal);
    listening.catch(() => {});
  }

  close() {
    this.standing.abort();
    this.failAll(new Unreachable("The connection was closed."));
    return this.transport.close();
  }

  // ------------------------------------------------------------------ to the server

  /** Ask; `onProgress(params)` restarts the limit, the hard maximum stays. Rejects with RpcError, TimedOut, HttpFailure, Unreachable. */
  request(method, params = {}, { callId = null, timeoutMs = 60_000, onProgress, signal } = {}) {
    this.lastId += 1;
    const id = this.lastId;
    const message = { jsonrpc: "2.0", id, method, params: this.rules.stamp(method, params, id) };
    return new Promise((resolve, reject) => {
      const waiting = { id, method, callId, resolve, reject, onProgress, timeoutMs, startedAt: performance.now(), stop: new AbortController() };
      this.pending.set(id, waiting);
      this.restart(waiting);
      signal?.addEventListener("abort", () => this.abandon(waiting, signal.reason));
      this.seen("sent", message, waiting);
      this.transport.send(message, this.rules.headers(method, params), waiting.stop.signal).then(
        ({ isFinished }) => { if (isFinished) this.fail(waiting, new Unreachable("The server's answer ended without a result.")); },
        (error) => this.fail(waiting, error),
      );
    });
  }

  async notify(method, params = {}) {
    const message = { jsonrpc: "2.0", method, params };
    this.seen("sent", message);
    await this.transport.send(message, this.rules.headers(method, params), this.standing.signal);
  }

  /** All pages of a list; a cursor that repeats ends it. */
  async list(method, key) {
    const items = [];
    const seen = new Set();
    let cursor;
    for (let page = 0; page < MOST_PAGES; page += 1) {
      const answer = await this.request(method, cursor === undefined ? {} : { cursor });
      items.push(...(Array.isArray(answer[key]) ? answer[key] : []));
      cursor = answer.nextCursor;
      if (typeof cursor !== "string" || seen.has(cursor)) return { items, isComplete: cursor === undefined || cursor === null };
      seen.add(cursor);
    }
    return { items, isComplete: false };
  }

  restart(waiting) {
    clearTimeout(waiting.timer);
    const left = Math.min(waiting.timeoutMs, LONGEST_MS - (performance.now() - waiting.startedAt));
    if (waiting.timeoutMs === Infinity) return;
    waiting.timer = setTimeout(() => this.abandon(waiting, new TimedOut("No answer came in time.")), Math.max(0, left));
  }

  /** Give up a request and tell the server, each era in its way. */
  abandon(waiting, error) {
    if (!this.pending.has(waiting.id)) return;
    this.fail(waiting, error);
    if (!this.rules.isModern || this.transport.kind === "websocket") this.notify("notifications/cancelled", { requestId: waiting.id, reason: error.message }).catch(() => {});
    waiting.stop.abort();
  }

  fail(waiting, error) {
    if (!this.pending.delete(waiting.id)) return;
    clearTimeout(waiting.timer);
    const rpc = { code: -31001, message: error.message };
    this.seen("received", { jsonrpc: "2.0", id: waiting.id, error: rpc }, waiting, { http: error.http, isMade: true });
    waiting.reject(error);
  }

  failAll(error) {
    for (const waiting of [...this.pending.values()]) this.fail(waiting, error);
  }

  // ------------------------------------------------------------------ from the server

  receive(message, { http, sent } = {}) {
    const isAnswer = message.method === undefined;
    const isHomeless = isAnswer && message.error && !this.pending.has(message.id); // refused before its id was read
    const waiting = this.pending.get(isAnswer && !isHomeless ? message.id : sent?.id);
    this.seen("received", message, waiting, { http });
    if (isAnswer) this.settle(waiting, message);
    else if (message.id === undefined) this.hear(message, waiting);
    else this.answer(message, waiting ?? this.onlyCall());
  }

  settle(waiting, { result, error }) {
    if (!waiting) return;
    this.pending.delete(waiting.id);
    clearTimeout(waiting.timer);
    if (error) waiting.reject(new RpcError(error));
    else waiting.resolve(result);
  }

  hear({ method, params = {} }, waiting) {
    const asked = method === "notifications/progress" ? this.pending.get(params.progressToken) : waiting;
    if (asked && method === "notifications/progress") { this.restart(asked); asked.onProgress?.(params); }
    this.peer.onNotification(method, params, asked?.callId ?? null);
  }

  async answer({ id, method, params = {} }, waiting) {
    const reply = method === "ping" ? Promise.resolve({}) : this.peer.onRequest(method, params, waiting?.callId ?? null);
    if (waiting) clearTimeout(waiting.timer); // the user's thinking time is not the server's
    const outcome = reply === null ? { error: NOT_FOUND } : await reply.then((result) => ({ result }), (error) => ({ error: error.rpc ?? { code: -1, message: error.message } }));
    if (waiting && this.pending.has(waiting.id)) this.restart(waiting);
    const message = { jsonrpc: "2.0", id, ...outcome };
    this.seen("sent", message, waiting);
    this.transport.send(message, this.rules.headers("", {}), this.standing.signal).catch(() => {});
  }

  /** Where the wire does not say which call a question belongs to, the only one in flight is it. */
  onlyCall() {
    const calls = [...this.pending.values()].filter((one) => one.callId);
    return calls.length === 1 ? calls[0] : undefined;
  }

  seen(direction, message, waiting, { http = null, isMade = false } = {}) {
    const isAnswer = message.method === undefined && direction === "received";
    this.peer.onTrace({
      direction, message, http, isMade, callId: waiting?.callId ?? null, method: message.method ?? waiting?.method ?? "",
      durationMs: isAnswer && waiting ? performance.now() - waiting.startedAt : null,
    });
  }
}

/** Whether an answer to the probe says "older": outages and refused sign-ins do not. */
function isVerdict(error) {
  if (error instanceof RpcError || error instanceof TimedOut) return true;
  if (error instanceof HttpFailure) return error.status >= 400 && error.status < 500 && ![401, 403, 429].includes(error.status);
  return error instanceof Unreachable; // a server whose CORS knows no `mcp-method` header looks like this
}
