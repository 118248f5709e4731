// One MCP server that the page itself talks to: its connection, its lists, its picture for the panels.

import { McpClient, RpcError, TimedOut } from "./mcp-client.js";
import { HttpFailure, HttpTransport } from "./mcp-http.js";
import { SocketTransport } from "./mcp-socket.js";
import { rowOf } from "./direct-trace.js";

export const LISTS = {
  tools: ["tools/list", "tools", "tools"],
  resources: ["resources/list", "resources", "resources"],
  "resource-templates": ["resources/templates/list", "resourceTemplates", "resources"],
  prompts: ["prompts/list", "prompts", "prompts"],
};
const TOOL_LISTS = "notifications/tools/list_changed";

export class DirectServer {
  constructor({ id, name, url, auth }, hub) {
    Object.assign(this, { id, name, url, auth, hub, client: null, state: "disconnected", lastError: null, opened: {}, off: new Set() });
    Object.assign(this, { tools: [], version: 0, steps: [], lists: new Map() });
  }

  /** What is kept for a reload of the tab. */
  get kept() { return { id: this.id, name: this.name, url: this.url, auth: this.auth }; }

  get wire() {
    const { protocolVersion = null, serverInfo = {}, capabilities = {}, instructions = null } = this.opened;
    const headerNames = Object.keys(this.headers);
    return {
      id: this.id, kind: "custom", name: this.name, url: this.url, icon: null, connectionState: this.state, nextAction: null, lastError: this.lastError,
      tools: this.tools.map((tool) => ({ ...tool, enabled: !this.off.has(tool.name) })), authorizationUrl: null, pendingElicitations: [],
      auth: { type: this.auth.type, hasCredentials: headerNames.length > 0, headerNames }, transport: this.transport?.kind ?? null,
      protocolVersion, serverInfo, capabilities, instructions, attempt: 0, nextRetryAt: null, connectedAt: this.connectedAt ?? null, catalogVersion: this.version,
    };
  }

  get headers() {
    if (this.auth.type === "bearer") return { authorization: `Bearer ${this.auth.token}` };
    return this.auth.headers ?? {};
  }

  async connect() {
    await this.disconnect();
    this.step("connecting", { url: this.url });
    this.change("connecting");
    this.transport = /^wss?:/i.test(this.url) ? new SocketTransport(this.url) : new HttpTransport(this.url, this.headers);
    const client = new McpClient(this.transport, this.peer());
    this.client = client;
    try {
      this.opened = await client.open();
      this.step("version_agreed", { protocolVersion: this.opened.protocolVersion });
      await this.readTools();
    } catch (error) {
      await client.close();
      if (this.client !== client) return;
      this.client = null;
      this.lastError = errorOf(error, this.url);
      this.step("failed", { code: this.lastError.code });
      this.change(this.lastError.code === "authorization_needed" ? "authRequired" : "error");
      return;
    }
    this.transport.onClose = (error) => this.lost(client, error);
    this.connectedAt = new Date().toISOString();
    this.step("connected", { transport: this.transport.kind });
    this.change("connected");
  }

  async disconnect() {
    const { client } = this;
    Object.assign(this, { client: null, lastError: null, opened: {}, tools: [] });
    this.lists.clear();
    this.hub.calls.forgetQuestions((one) => one.server === this.id);
    if (!client) return;
    this.step("disconnected", {});
    this.change("disconnected");
    await client.close();
  }

  lost(client, error) {
    if (this.client !== client) return;
    client.failAll(error);
    Object.assign(this, { client: null, lastError: errorOf(error, this.url) });
    this.step("lost", {});
    this.change("error");
  }

  change(state) {
    this.state = state;
    this.hub.tell({ type: "server.state", server: this.wire });
  }

  step(kind, detail) {
    this.steps.unshift({ id: String(this.steps.length), at: new Date().toISOString(), kind, detail });
  }

  peer() {
    return {
      onRequest: (method, params, callId) => this.hub.calls.ask(this.id, callId, method, params),
      onNotification: (method, params, callId) => this.hear(method, params, callId),
      onTrace: (seen) => this.hub.tell({ type: "trace.message", trace: rowOf(this.id, seen) }),
    };
  }

  hear(method, params, callId) {
    if (method === "notifications/message") this.hub.tell({ type: "call.log", id: callId, ...params });
    if (!method.endsWith("/list_changed")) return;
    this.lists.clear();
    if (method === TOOL_LISTS) this.readTools().then(() => this.hub.tell({ type: "tool.changed", id: this.id }), () => {});
    else { this.version += 1; this.change(this.state); }
  }

  async readTools() {
    const found = await this.list("tools", { refresh: true });
    const names = new Set();
    this.problems = [];
    this.tools = found.items.filter((tool, index) => {
      const reason = typeof tool?.name !== "string" ? "name_missing" : (names.has(tool.name) ? "duplicate_name" : "");
      if (reason) this.problems.push({ index, name: String(tool?.name ?? ""), reason });
      names.add(tool?.name);
      return !reason;
    });
    this.version += 1;
  }

  /** `{items, isComplete}` of one of LISTS; what the server does not offer is empty. */
  list(kind, { refresh = false } = {}) {
    const [method, key, capability] = LISTS[kind];
    if (!this.client || !this.opened.capabilities?.[capability]) return { items: [], isComplete: true };
    if (refresh || !this.lists.has(kind)) this.lists.set(kind, this.client.list(method, key));
    return this.lists.get(kind);
  }
}

function errorOf(error, url) {
  const { status } = error;
  if (status === 403) return told("forbidden_by_server", "The server refused with HTTP 403.", `It may not allow what these credentials may do, or refuse pages of the origin “${originOfPage()}”.`);
  if (status === 401) return told("authorization_needed", "The server refused with HTTP 401.", "Enter its token or headers under “Credentials”. Servers with OAuth need a hub: a page alone must not hold their tokens.");
  if (error instanceof HttpFailure) return told(`http_${status}`, error.message, status === 400 ? "If it wants a session: a page can only see the session's id when the server lists “mcp-session-id” in Access-Control-Expose-Headers." : "Check that the address is that of its MCP endpoint.");
  if (error instanceof RpcError) return told("protocol_error", error.message, "See the history for its whole answer.");
  if (error instanceof TimedOut) return told("timeout", "The server did not answer in time.", "Check that it runs, then connect again.");
  return told("upstream_unreachable", /^wss?:/i.test(url) ? error.message : "The browser got no answer that it may read.", `Check the address, and that the server allows this page: CORS for the origin “${originOfPage()}” and the headers content-type, authorization and mcp-*. A hub has no such limits.`);
}

const originOfPage = () => (location.protocol === "file:" ? "null" : location.origin);

const told = (code, message, hint) => ({ code, message, hint, retryable: code === "timeout" || code === "upstream_unreachable" });
