// The two eras of the protocol: what a request carries in each; chosen when a server is connected.

const META = "io.modelcontextprotocol/";
const UNTRACKED = new Set(["initialize", "server/discover", "ping", "subscriptions/listen"]);
const NAMED_BY = { "tools/call": "name", "prompts/get": "name", "resources/read": "uri" };

export const MODERN_VERSION = "2026-07-28";
export const LEGACY_VERSIONS = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
export const CLIENT_INFO = { name: "mcphub console", version: "1" };
export const CAPABILITIES = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };

const withMeta = (params, extra) => ({ ...params, _meta: { ...params._meta, ...extra } });

/** 2026-07-28: every request says everything about itself. */
export const modern = {
  isModern: true,
  version: MODERN_VERSION,
  stamp: (method, params, token) => withMeta(params, {
    [`${META}protocolVersion`]: MODERN_VERSION, [`${META}clientInfo`]: CLIENT_INFO, [`${META}clientCapabilities`]: CAPABILITIES,
    ...(UNTRACKED.has(method) ? {} : { progressToken: token }),
  }),
  headers(method, params) {
    const name = params[NAMED_BY[method]];
    return { "mcp-protocol-version": MODERN_VERSION, "mcp-method": method, ...(typeof name === "string" ? { "mcp-name": headerValue(name) } : {}) };
  },
};

/** 2024-11-05 to 2025-11-25: a session that `initialize` opened. */
export function legacy(version = "") {
  return {
    isModern: false,
    version,
    stamp: (method, params, token) => (UNTRACKED.has(method) ? params : withMeta(params, { progressToken: token })),
    headers: () => (version ? { "mcp-protocol-version": version } : {}),
  };
}

/** A header holds visible ASCII; anything else travels as base64 of UTF-8 (2026-07-28, transports). */
function headerValue(text) {
  if (/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(text) && !/^=\?base64\?/i.test(text)) return text;
  return `=?base64?${btoa(String.fromCharCode(...new TextEncoder().encode(text)))}?=`;
}
