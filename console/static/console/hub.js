// The REST API of the hub: requests with a credential, and errors that say whose they are.

import { parse } from "./json.js";
import { EventStream } from "./stream.js";

const UPSTREAM = new Set([
  "upstream_unreachable", "timeout", "not_mcp_endpoint", "response_too_large", "protocol_error",
  "redirect_refused", "encoding_refused", "incompatible_version", "session_lost", "outcome_unknown",
  "authorization_needed", "forbidden_by_server", "bad_session_id",
]);

/** What went wrong: `side` is "page", "hub", "server" (between hub and server) or "protocol". */
export class Problem extends Error {
  constructor(fields) {
    super(fields.detail || fields.title);
    Object.assign(this, { status: 0, code: "", title: "", detail: "", errors: [], extra: {} }, fields);
  }

  get side() {
    if (this.status === 0) return "page";
    if (this.extra.rpc) return "protocol";
    return UPSTREAM.has(this.code) || /^http_\d+$/.test(this.code) ? "server" : "hub";
  }
}

/** One hub and one credential: an API key, or the cookie of a login when there is none. */
export class Hub {
  constructor({ base = "", key = "", csrfCookie = "" } = {}) {
    Object.assign(this, { base: base.replace(/\/+$/, ""), key, csrfCookie, meanings: null, isDirect: false });
  }

  /** Ask; returns `{status, body, headers}` or throws Problem. */
  async ask(method, path, { body, headers = {}, signal } = {}) {
    let response;
    try {
      response = await fetch(`${this.base}/api/v1${path}`, {
        method,
        signal,
        headers: { ...this.headersFor(method, body), ...headers },
        body: body === undefined ? undefined : JSON.stringify(body),
        credentials: "same-origin", // with a key too: a cookie ties a sign-in to the browser that began it
        cache: "no-store",
      });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw unreachable(this.base);
    }
    const text = await response.text();
    if (!response.ok) throw problemOf(response, text);
    return { status: response.status, headers: response.headers, body: text ? parse(text) : null };
  }

  headersFor(method, body) {
    const headers = { Accept: "application/json" };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (this.key) headers.Authorization = `Bearer ${this.key}`;
    else if (method !== "GET") headers["X-CSRFToken"] = cookie(this.csrfCookie);
    return headers;
  }

  async get(path, query = {}) {
    const given = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined);
    const search = new URLSearchParams(given).toString();
    return (await this.ask("GET", search ? `${path}?${search}` : path)).body;
  }

  async post(path, body = {}, options = {}) {
    return (await this.ask("POST", path, { body, ...options })).body;
  }

  /** The meaning of a problem code, as the hub documents it; read once. */
  async meaningOf(code) {
    this.meanings ??= this.get("/problems").then(
      (list) => new Map(list.map((one) => [one.code, one.meaning])),
      () => new Map(),
    );
    return (await this.meanings).get(code) ?? "";
  }

  /** Hear of changes: `onEvent(event)`, `onGap()`, `onState(state)`; returns what can be stopped. */
  openStream(handlers) {
    const stream = new EventStream(this, handlers);
    stream.start();
    return stream;
  }

  /** End the login of this browser; a key is just forgotten. */
  async leave() {
    if (this.key) return;
    try { await fetch("/admin/logout/", { method: "POST", headers: this.headersFor("POST") }); } catch { /* the hub is away: the cookie stays */ }
  }

  get socketUrl() {
    const base = this.base || location.origin;
    return `${base.replace(/^http/, "ws")}/ws/v1/events`;
  }
}

export const serverPath = (server, rest = "") => `/servers/${encodeURIComponent(server)}${rest}`;

function unreachable(base) {
  const isFile = location.protocol === "file:";
  return new Problem({
    code: "page_offline",
    title: "The hub does not answer",
    detail: `No answer came from ${base || location.origin}.`,
    hint: isFile
      ? "Check the address, and that the hub allows this page: MCPHUB_CORS_ORIGINS=null."
      : "Check that the hub is running and that you are online, then try again.",
  });
}

function problemOf(response, text) {
  let body = {};
  try { body = JSON.parse(text); } catch { /* a proxy's page: the status says enough */ }
  const { status, code, title, detail, errors, ...extra } = body;
  return new Problem({
    status: response.status,
    code: code || `http_${response.status}`,
    title: title || `The hub answered ${response.status}`,
    detail: detail || "",
    errors: Array.isArray(errors) ? errors : [],
    extra,
  });
}

function cookie(name) {
  const found = document.cookie.split("; ").find((part) => part.startsWith(`${name}=`));
  return found ? decodeURIComponent(found.slice(name.length + 1)) : "";
}
