// Sign-in at a server: the host is named before anything opens, and a link is there if popups are not.

import { button, h, outLink } from "./dom.js";
import { line } from "./text.js";

export const CHANNEL = "mcphub-oauth";

/** Lead a popup, which was opened by the click itself, to the authorization page. */
export function openAuthorization(popup, address) {
  if (popup && address && /^https?:/i.test(address)) popup.location.href = address;
}

export function authorizeView(address) {
  const host = hostOf(address);
  return h("div", { class: "notice", "data-testid": "authorize" },
    h("p", {}, "This server wants you to sign in at ", h("strong", {}, line(host, 200)), ". Go on only if you know this host."),
    /xn--/.test(host) ? h("p", { class: "check bad" }, "✗ The name of this host is written with letters of another script, which can imitate a known name.") : null,
    h("div", { class: "run-actions" },
      button(`Authorize at ${line(host, 60)}`, () => openAuthorization(window.open("about:blank", CHANNEL), address), { class: "primary" }),
      h("span", { class: "quiet" }, "or open ", outLink(address, "the page itself"))),
    h("p", { class: "help" }, h("code", { class: "wrap" }, line(address, 1000))));
}

export function hostOf(address) {
  try { return new URL(address).host; } catch { return "an address that cannot be read"; }
}
