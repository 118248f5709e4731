// Streamable HTTP from the page: one POST per message, answered by JSON or by a stream of events.

import { parse } from "./json.js";
import { eventsOf } from "./sse.js";

const SECRET = /authorization|cookie|token|secret|key|session/i;
const HIDDEN = "(hidden)";

/** An answer that is no JSON-RPC message. */
export class HttpFailure extends Error {
  constructor(status, http) {
    super(`The server answered HTTP ${status}.`);
    Object.assign(this, { status, http });
  }
}

/** No answer at all: the browser does not tell whether it was the network, TLS or CORS. */
export class Unreachable extends Error {}

/** `headers` are the user's own, sent with every request; `onMessage(message, {http, sent})`. */
export class HttpTransport {
  constructor(url, headers = {}) {
    Object.assign(this, { url, headers, sessionId: "", kind: "streamable-http", onMessage: () => {} });
  }

  /** Post a message; resolves when everything that answers it has come. */
  async send(message, headers, signal) {
    const isFinished = await this.exchange("POST", { headers, signal, body: JSON.stringify(message), sent: message });
    return { isFinished };
  }

  /** Hear what the server says by itself, until the stream ends; servers may refuse it. */
  listen(headers, signal) {
    return this.exchange("GET", { headers, signal });
  }

  async exchange(method, { headers, signal, body, sent }) {
    const started = performance.now();
    const given = this.headersFor(method, headers);
    let response;
    try {
      response = await fetch(this.url, { method, signal, body, headers: given, credentials: "omit", cache: "no-store", redirect: "error", referrerPolicy: "no-referrer" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Unreachable(error.message);
    }
    this.sessionId = response.headers.get("mcp-session-id") ?? this.sessionId;
    const http = {
      method, status: response.status, durationMs: performance.now() - started,
      requestHeaders: this.shown(given), responseHeaders: this.shown(Object.fromEntries(response.headers)),
    };
    await this.read(response, { http, sent });
    return true;
  }

  async read(response, context) {
    const type = response.headers.get("content-type") ?? "";
    if (response.ok && type.startsWith("text/event-stream")) {
      for await (const data of eventsOf(response.body)) this.deliver(data, context);
      return;
    }
    const text = await response.text();
    const isMessage = type.startsWith("application/json") && this.deliver(text, context);
    if (!response.ok && !isMessage) throw new HttpFailure(response.status, context.http);
  }

  /** Hand out the messages in a text; false when it has none. */
  deliver(text, context) {
    let found;
    try { found = [parse(text)].flat(); } catch { return false; }
    const messages = found.filter((one) => one?.jsonrpc === "2.0");
    for (const message of messages) this.onMessage(message, context);
    return messages.length > 0;
  }

  headersFor(method, headers) {
    return {
      ...(method === "POST" ? { "content-type": "application/json" } : {}),
      accept: method === "POST" ? "application/json, text/event-stream" : "text/event-stream",
      ...headers, ...(this.sessionId ? { "mcp-session-id": this.sessionId } : {}), ...this.headers,
    };
  }

  /** Headers for the history: names, and values that are no secrets. */
  shown(headers) {
    const own = new Set(Object.keys(this.headers).map((name) => name.toLowerCase()));
    return Object.fromEntries(Object.entries(headers).map(([name, value]) => {
      const isSecret = SECRET.test(name) || own.has(name.toLowerCase());
      return [name.toLowerCase(), isSecret ? HIDDEN : value];
    }));
  }

  async close() {
    if (!this.sessionId) return;
    const headers = this.headersFor("DELETE", {});
    this.sessionId = "";
    try { await fetch(this.url, { method: "DELETE", headers, credentials: "omit", keepalive: true }); } catch { /* it ends there by its own clock */ }
  }
}
