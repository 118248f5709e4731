// Tool lists as they were: what changed since the last visit, and the difference of any two.

const MOST = 8;
const captures = new Map();

const storageKey = (server) => `mcphub.tools.${server}`;

/** Keep a tool list when it differs from the one before. */
export function rememberTools(server) {
  if (!server.tools?.length) return;
  const list = captures.get(server.id) ?? seenBefore(server.id);
  captures.set(server.id, list);
  const digest = digestOf(server.tools);
  if (list.at(-1)?.digest === digest) return;
  list.push({ at: new Date().toISOString(), tools: server.tools, digest, origin: "seen in this page" });
  list.splice(0, Math.max(0, list.length - MOST));
  try {
    localStorage.setItem(storageKey(server.id), JSON.stringify({ at: list.at(-1).at, tools: server.tools }));
  } catch { /* full or forbidden: only the comparison with the last visit is lost */ }
}

/** Add a list from an imported file, so that it can be compared. */
export function addCapture(server, tools, origin) {
  const list = captures.get(server) ?? seenBefore(server);
  list.unshift({ at: new Date().toISOString(), tools, digest: digestOf(tools), origin });
  captures.set(server, list);
}

export const capturesOf = (server) => captures.get(server) ?? [];

function seenBefore(server) {
  try {
    const kept = JSON.parse(localStorage.getItem(storageKey(server)));
    return kept ? [{ ...kept, digest: digestOf(kept.tools), origin: "last visit" }] : [];
  } catch {
    return [];
  }
}

/** Names of tools that are new or other than in the capture before: name → "new" or "changed". */
export function changesSince(server) {
  const list = capturesOf(server);
  if (list.length < 2) return new Map();
  const { added, changed } = differenceOf(list.at(-2).tools, list.at(-1).tools);
  return new Map([...added.map((tool) => [tool.name, "new"]), ...changed.map(([, tool]) => [tool.name, "changed"])]);
}

/** Compare two lists by what the server says of each tool. */
export function differenceOf(before, after) {
  const old = new Map(before.map((tool) => [tool.name, tool]));
  const now = new Map(after.map((tool) => [tool.name, tool]));
  return {
    added: after.filter((tool) => !old.has(tool.name)),
    removed: before.filter((tool) => !now.has(tool.name)),
    changed: after
      .filter((tool) => old.has(tool.name) && said(old.get(tool.name)) !== said(tool))
      .map((tool) => [old.get(tool.name), tool]),
  };
}

/** Lines of two texts as `[sign, line]`; a plain longest common subsequence. */
export function lineDifference(before, after) {
  const a = before.split("\n").slice(0, 600);
  const b = after.split("\n").slice(0, 600);
  const longest = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      longest[i][j] = a[i] === b[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  const lines = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) { lines.push([" ", a[i]]); i += 1; j += 1; }
    else if (j < b.length && (i === a.length || longest[i][j + 1] > longest[i + 1][j])) { lines.push(["+", b[j]]); j += 1; }
    else { lines.push(["-", a[i]]); i += 1; }
  }
  return lines;
}

/** The part of a tool that its server wrote, in one order of keys. */
export function said(tool) {
  const { publicName, enabled, source, trusted, ...own } = tool;
  return JSON.stringify(sorted(own), null, 2);
}

function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])]));
}

const digestOf = (tools) => tools.map(said).sort().join("\n");
