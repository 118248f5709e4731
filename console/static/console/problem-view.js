// Errors: what happened, on which side, and what to do next.

import { h } from "./dom.js";
import { jsonView } from "./json-view.js";
import { line } from "./text.js";

export const SIDES = {
  tool: ["Tool error", "The server ran the tool, and the tool says that it failed."],
  protocol: ["Protocol error", "The server answered with a JSON-RPC error: it did not run what was asked."],
  server: ["Between the hub and the server", "The hub did not get a usable answer from the server."],
  hub: ["The hub", "The hub refused or could not do this; the server was not the reason."],
  page: ["Between this page and the hub", "The request did not reach the hub, or its answer did not reach this page."],
};

/** The same sides where the page is its own hub. */
const DIRECT_SIDES = {
  server: ["Between this page and the server", "This page did not get a usable answer from the server."],
  hub: ["This page", "The page refused or could not do this; the server was not the reason."],
};

const NEXT = {
  not_connected: "Connect the server, then run this again.",
  tool_disabled: "Switch the tool on in its card, then run it again.",
  invalid_arguments: "Correct the marked arguments, or use “Send anyway” to test how the server answers.",
  not_authenticated: "Sign in again.",
  invalid_credential: "Sign in with another key.",
  credential_expired: "Sign in with a new key.",
  credential_revoked: "Sign in with a new key.",
  authorization_needed: "Enter valid credentials for this server, then connect again.",
  timeout: "Raise the time limit, or look in the history for what the server did send.",
  outcome_unknown: "The server may have done it. Check there before you run it again.",
  csrf_failed: "Reload the page: the login has changed.",
  blocked_url: "An operator can allow this address; see MCPHUB_EGRESS_ALLOW.",
  no_worker: "Wait some seconds: a worker is being started.",
};

/** Show a Problem; `hub` is asked for the meaning of its code. */
export function problemView(problem, hub) {
  const [side, meaning] = (hub?.isDirect ? DIRECT_SIDES[problem.side] : null) ?? SIDES[problem.side] ?? SIDES.hub;
  const next = problem.hint ?? problem.extra?.hint ?? NEXT[problem.code];
  const what = h("p", { class: "problem-title" }, line(problem.title || problem.message));
  const more = h("p", { class: "help" });
  if (hub && problem.side !== "page") hub.meaningOf(problem.code).then((text) => { more.textContent = text; });
  const wait = problem.extra?.retryAfter;
  return h(
    "div",
    { class: "problem", role: "alert", "data-testid": "problem", "data-error": problem.code, "data-side": problem.side },
    what,
    problem.detail && problem.detail !== problem.title ? h("p", {}, line(problem.detail, 600)) : null,
    problem.extra?.rpc ? rpcView(problem.extra.rpc) : null,
    h("dl", { class: "facts" },
      h("dt", {}, "Side"), h("dd", {}, h("strong", {}, side), ` ${meaning}`),
      next || wait ? [h("dt", {}, "Next"), h("dd", {}, next ?? `Try again in ${wait} seconds.`)] : null,
      h("dt", {}, "Code"), h("dd", {}, h("code", {}, problem.code), problem.status ? ` (HTTP ${problem.status})` : "")),
    more,
  );
}

function rpcView(rpc) {
  return h("div", {},
    h("p", {}, "The server's own words: ", h("q", { class: "foreign" }, line(rpc.message, 600)), ` (${rpc.code})`),
    rpc.data === undefined || rpc.data === null ? null : jsonView(rpc.data, "data of the error"));
}

/** One line for what went wrong with an action, for places without room. */
export const problemLine = (problem) => [problem.title, problem.detail].filter(Boolean).join(": ") || String(problem.message);
