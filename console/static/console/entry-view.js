// One exchange of the history: both messages whole, and what can be done with it.

import { button, copyText, fill, h } from "./dom.js";
import { jsonView, textView } from "./json-view.js";
import { LANGUAGES, restRequest } from "./snippets.js";
import { bytes, clock, line, millis } from "./text.js";

const PLANES = {
  tool: "the tool reports a failure", protocol: "JSON-RPC error", hub: "the hub", invalid: "not JSON-RPC",
};

export function entryView(app, entry) {
  const rest = entry.wentUp ? restRequest(entry.server, entry.method, entry.request?.content?.params) : null;
  const isPartial = [entry.request, entry.answer].some((row) => row?.redacted || row?.truncated);
  const canReplay = rest !== null && !app.store.offline;
  const pin = button(entry.isPinned ? "Unpin" : "Pin", () => { app.pin(entry); pin.textContent = entry.isPinned ? "Unpin" : "Pin"; pin.setAttribute("aria-pressed", String(entry.isPinned)); },
    { class: "small", "aria-pressed": String(entry.isPinned), "data-testid": "pin" });
  return h("div", { class: "entry", "data-testid": "entry" },
    h("header", {},
      h("h3", {}, line(entry.method, 80), entry.target ? h("span", { class: "quiet" }, ` ${line(entry.target, 80)}`) : null),
      h("p", { class: "quiet" }, [line(entry.server, 80), clock(entry.at), millis(entry.duration), bytes(entry.size), attempts(entry)].filter(Boolean).join(" · ")),
      h("div", { class: "run-actions" },
        canReplay ? button("Replay", () => app.replay(entry, { isRun: !isPartial }), { class: "small", "data-testid": "replay", title: isPartial ? "Some values are hidden here: the form opens to complete them" : "Run it again" }) : null,
        pin,
        entry.call ? button("This call only", () => app.filterHistory(`call:${entry.call}`), { class: "small" }) : null,
        rest && !app.store.hub?.isDirect ? copies(app, rest) : null)),
    entry.request ? messageView(app, entry.request, entry.isNotification ? "Notification" : "Request") : null,
    entry.answer ? messageView(app, entry.answer, entry.answer.type === "error" ? "Error answer" : "Answer") : null,
    entry.status === "waiting" ? h("p", { class: "empty" }, "No answer yet.") : null);
}

const attempts = (entry) => (entry.first.attempt > 1 ? `attempt ${entry.first.attempt}` : "");

function copies(app, rest) {
  const select = h("select", { class: "small", "aria-label": "Copy as", "data-testid": "copy-as" }, h("option", { value: "" }, "Copy as …"),
    LANGUAGES.map(([name]) => h("option", { value: name }, name)));
  select.addEventListener("change", () => {
    const [, make] = LANGUAGES.find(([name]) => name === select.value) ?? [];
    select.value = "";
    if (make) copyText(make(app.store.hub.base || location.origin, rest));
  });
  return select;
}

function messageView(app, row, title) {
  const body = h("div", {}, bodyOf(row));
  if (row.contentOmitted && app.store.offline) {
    fill(body, h("p", { class: "empty" }, `Large message (${bytes(row.size)}): the file has not got it.`));
  } else if (row.contentOmitted) {
    fill(body, h("p", { class: "empty" }, `Large message (${bytes(row.size)}). `,
      button("Load it", async (event) => {
        event.target.disabled = true;
        fill(body, bodyOf(await app.loadMessage(row)));
      }, { class: "small", "data-testid": "load" })));
  }
  const marks = [
    row.direction === "sent" ? "to the server" : "from the server",
    row.error ? `${PLANES[row.error.plane] ?? line(row.error.plane, 20)}${row.error.code === null ? "" : ` ${row.error.code}`}` : "",
    row.redacted ? "secrets hidden" : "", row.truncated ? "cut by the hub" : "", row.synthetic ? "made by the hub, never on the wire" : "",
  ].filter(Boolean);
  return h("section", { class: "block", "data-direction": row.direction }, h("h4", {}, title, h("span", { class: "quiet" }, ` ${marks.join(" · ")}`)), body, row.http ? httpView(row.http) : null);
}

/** The HTTP exchange that carried an answer. */
function httpView({ method, status, durationMs, requestHeaders, responseHeaders }) {
  const lines = (headers) => Object.entries(headers ?? {}).map(([name, value]) => `${name}: ${value}`).join("\n");
  return h("details", { class: "http", "data-testid": "http" },
    h("summary", {}, `HTTP ${line(method, 10)} → ${status ?? "no answer"}`, h("span", { class: "quiet" }, ` ${millis(durationMs)} to the first byte`)),
    h("h5", {}, "Request headers"), textView(lines(requestHeaders), { label: "Request headers" }),
    responseHeaders ? [h("h5", {}, "Response headers"), textView(lines(responseHeaders), { label: "Response headers" })] : null);
}

function bodyOf(row) {
  if (row.content === null || row.content === undefined) return h("p", { class: "empty" }, "No content was kept.");
  return typeof row.content === "string" ? textView(row.content, { label: "Raw message" }) : jsonView(row.content, "Message");
}
