// The six states of a connection: word, sign and colour together, never colour alone.

import { h } from "./dom.js";

export const STATES = {
  connected: ["Connected", "●", "good"],
  connecting: ["Connecting", "◔", "busy"],
  disconnected: ["Not connected", "○", "idle"],
  authRequired: ["Needs authorization", "◆", "warn"],
  authPending: ["Authorizing", "◔", "busy"],
  error: ["Failed", "✗", "bad"],
};

export function stateBadge(server) {
  const [word, sign, tone] = STATES[server.connectionState] ?? [server.connectionState, "?", "idle"];
  const again = server.connectionState === "connecting" && server.attempt > 0 ? `, attempt ${server.attempt + 1}` : "";
  return h("span", { class: `badge ${tone}`, "data-state": server.connectionState },
    h("span", { "aria-hidden": "true" }, sign), ` ${word}${again}`);
}
