// The history as a file and back: session JSON, NDJSON, HAR 1.2.

export const FORMAT = "mcphub-trace";

const rowsOf = (entries) => entries.flatMap((entry) => [entry.request, entry.answer]).filter(Boolean);

/** A whole session: messages, and the servers with their tools (never a credential). */
export function sessionFile(entries, servers) {
  return JSON.stringify({
    format: FORMAT,
    version: 1,
    exportedAt: new Date().toISOString(),
    servers: servers.map(({ authorizationUrl, pendingElicitations, ...server }) => server),
    messages: rowsOf(entries),
    pinned: entries.filter((entry) => entry.isPinned).map((entry) => entry.key),
  }, null, 1);
}

export const ndjsonFile = (entries) => rowsOf(entries).map((row) => `${JSON.stringify(row)}\n`).join("");

export function harFile(entries) {
  const log = { version: "1.2", creator: { name: "mcphub console", version: "1" }, entries: entries.map(harEntry) };
  return JSON.stringify({ log }, null, 1);
}

function harEntry(entry) {
  const { request, answer } = entry;
  const wait = Math.max(0, entry.duration ?? 0);
  const text = (row) => (row ? JSON.stringify(row.content) : "");
  const http = answer?.http;
  const pairs = (headers) => Object.entries(headers ?? {}).map(([name, value]) => ({ name, value }));
  const common = (row, headers) => ({ httpVersion: "", cookies: [], headers: pairs(headers), headersSize: -1, bodySize: row?.size ?? -1 });
  return {
    startedDateTime: entry.at,
    time: wait,
    request: {
      ...common(request, http?.requestHeaders), method: http?.method ?? "POST", queryString: [],
      url: `mcp://${entry.wentUp ? entry.server : "mcphub"}/${entry.method}`,
      postData: { mimeType: "application/json", text: text(request) },
    },
    response: {
      ...common(answer, http?.responseHeaders), status: http?.status ?? (answer ? 200 : 0), statusText: "", redirectURL: "",
      content: { size: answer?.size ?? 0, mimeType: "application/json", text: text(answer) },
    },
    cache: {},
    timings: { send: 0, wait, receive: 0 },
    _mcp: { request, answer },
  };
}

/** Read a file of any of the formats; returns `{messages, servers, pinned}` or throws with the reason. */
export function readFile(text) {
  const start = text.trimStart();
  let found;
  try {
    found = JSON.parse(start);
  } catch {
    found = start.split("\n").filter((one) => one.trim()).map(parseLine);
  }
  const session = sessionIn(found);
  const messages = session.messages.filter(isRow);
  if (messages.length === 0) throw new Error("There is no message in this file.");
  const servers = session.servers.filter(isServer).map(shownServer);
  return { ...session, servers, messages, skipped: session.messages.length - messages.length };
}

function sessionIn(found) {
  if (found?.format === FORMAT) {
    if (found.version !== 1) throw new Error(`Version ${found.version} of the format is not known to this page.`);
    return { messages: list(found.messages), servers: list(found.servers), pinned: list(found.pinned) };
  }
  if (found?.log?.entries) {
    const messages = found.log.entries.flatMap((one) => [one?._mcp?.request, one?._mcp?.answer]).filter(Boolean);
    if (messages.length === 0) throw new Error("This HAR file has no MCP messages (`_mcp`).");
    return { messages, servers: [], pinned: [] };
  }
  return { messages: Array.isArray(found) ? found : [found], servers: [], pinned: [] };
}

const isServer = (server) => typeof server?.id === "string";

/** A server of a file as the panels expect it; a file has nobody sign in anywhere. */
function shownServer({ authorizationUrl, pendingElicitations, ...server }) {
  const { auth, tools, instructions } = server;
  return {
    ...server,
    name: String(server.name ?? server.id),
    connectionState: String(server.connectionState ?? "disconnected"),
    auth: { type: String(auth?.type ?? "unknown"), hasCredentials: Boolean(auth?.hasCredentials), headerNames: list(auth?.headerNames) },
    tools: list(tools).filter((tool) => typeof tool?.name === "string"),
    instructions: typeof instructions === "string" ? instructions : null,
    lastError: null,
  };
}

const list = (value) => (Array.isArray(value) ? value : []);

const isRow = (row) => typeof row?.id === "string" && typeof row.direction === "string"
  && typeof row.type === "string" && typeof row.server === "string";

function parseLine(text, index) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`Line ${index + 1} of the file is not JSON.`);
  }
}
