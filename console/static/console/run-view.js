// A call on its way: state, elapsed time, progress, log; and the report when time ran out.

import { fill, h } from "./dom.js";
import { line, millis } from "./text.js";
import { pretty } from "./json.js";

const WORDS = {
  sending: "Sending to the hub …", queued: "Waiting for a worker …", running: "Sent to the server, waiting …",
  input_required: "The server asks for input: see “Requests”.", succeeded: "Succeeded", failed: "Failed",
  cancelled: "Cancelled", expired: "Expired", outcome_unknown: "Outcome unknown",
};
const REPORTED = new Set(["timeout", "expired", "outcome_unknown", "cancelled", "upstream_unreachable"]);
const SHOWN_LOGS = 100;

export function runView() {
  const state = h("p", { class: "run-state", "data-testid": "run-state" });
  const bar = h("progress", { "aria-label": "Progress of the call", hidden: true });
  const message = h("p", { class: "quiet", hidden: true });
  const log = h("div", { class: "run-log", role: "log", "aria-label": "Log messages of the call", hidden: true, tabindex: "0" });
  const element = h("div", { class: "run-view" }, state, bar, message, log);
  let logged = 0;

  function show(run) {
    const waiting = run.isOpen ? limits(run) : "";
    const words = wordsOf(run);
    const mark = run.isOpen ? "◔" : (run.problem || run.result?.isError ? "✗" : "✓");
    fill(state, h("span", { class: "mark", "aria-hidden": "true" }, mark), ` ${words} `,
      h("span", { class: "quiet" }, `${millis(run.elapsed)}${waiting}`));
    showProgress(run);
    if (run.logs.length < logged) { log.replaceChildren(); logged = 0; }
    for (const one of run.logs.slice(logged)) log.append(logLine(one));
    logged = run.logs.length;
    while (log.childElementCount > SHOWN_LOGS) log.firstChild.remove();
    log.hidden = log.childElementCount === 0;
  }

  function showProgress(run) {
    bar.hidden = !run.isOpen;
    const told = run.progress;
    if (told?.total) { bar.max = told.total; bar.value = Math.min(told.progress, told.total); }
    else bar.removeAttribute("value");
    const text = told ? [told.total ? `${told.progress} of ${told.total}` : told.progress, told.message].filter(Boolean).join(": ") : "";
    message.hidden = !text;
    message.textContent = line(text, 300);
  }

  return { element, show, report };
}

/** The limit starts anew with every progress; the hub has a hard maximum beside it. */
function limits(run) {
  const left = run.request.seconds * 1000 - (Date.now() - (run.progressAt ?? run.startedAt));
  return left > 10_000 ? ` · limit ${run.request.seconds} s without progress` : ` · gives up in ${millis(Math.max(0, left))}`;
}

function wordsOf(run) {
  if (run.isOpen && run.isCancelling) return "Cancelling …";
  if (run.result?.isError) return "Answered, with an error of the tool";
  return WORDS[run.state] ?? run.state;
}

function logLine(event) {
  const text = typeof event.data === "string" ? event.data : pretty(event.data);
  return h("p", {}, h("strong", {}, line(event.level, 20)), event.logger ? ` ${line(event.logger, 60)}: ` : ": ", line(text, 1000));
}

/** What was outstanding when a call ended without an answer. */
function report(run) {
  if (!REPORTED.has(run.problem?.code)) return null;
  const sentAt = run.call?.sentAt;
  const facts = [
    ["Outstanding", `${run.request.method} ${line(run.request.target, 120)} on ${run.request.server}`],
    ["Waited", `${millis(run.elapsed)}; the limit was ${run.request.seconds} s without progress`],
    ["Reached the server", reached(run.call)],
    ["Last progress", run.progressAt ? `${millis(run.endedAt - run.progressAt)} before the end` : "none was reported"],
    ["Attempts", String(run.call?.attempt ?? 0)],
  ];
  return h("section", { class: "report", "data-testid": "report" }, h("h4", {}, "What was outstanding"),
    h("dl", { class: "facts" }, facts.flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])),
    sentAt ? null : h("p", { class: "help" }, "The call was never sent: running it again is safe."));
}

function reached(call) {
  if (!call?.sentAt) return "no, it was never sent";
  return { not_sent: "no", answered: "yes, it answered", outcome_unknown: "perhaps: it was sent, and no answer came" }[call.delivery] ?? "perhaps: it was sent";
}
