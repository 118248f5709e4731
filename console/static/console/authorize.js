// Sign-in at a server: the host is named before anything opens, and a link is there if popups are not.

import { button, h, outLink } from "./dom.js";
import { line } from "./text.js";

export const CHANNEL = "mcphub-oauth";

/** A popup that the click itself opens, so that no blocker stops it; its address comes later. */
export function openBlank() {
  return window.open("about:blank", CHANNEL);
}

/** Lead a popup, which was opened by the click itself, to the authorization page. */
export function openAuthorization(popup, address) {
  if (popup && address && /^https?:/i.test(address)) popup.location.href = address;
}

export function authorizeView({ authorizationUrl: address, auth }, hub) {
  const host = hostOf(auth.authorizationRequest?.issuer ?? address);
  const scopes = auth.authorizationRequest?.scopes ?? [];
  const isMore = (auth.grantedScopes ?? []).length > 0;
  return h("div", { class: "notice", "data-testid": "authorize" },
    h("p", {}, "This server wants you to sign in at ", h("strong", {}, line(host, 200)), ". Go on only if you know this host."),
    /xn--/.test(host) ? h("p", { class: "check bad" }, "✗ The name of this host is written with letters of another script, which can imitate a known name.") : null,
    scopes.length ? h("p", {}, isMore ? "It needs more than you gave: " : "It asks for: ", scopes.map((one) => [h("code", {}, line(one, 80)), " "]).flat()) : null,
    h("div", { class: "run-actions" },
      button(`Authorize at ${line(host, 60)}`, () => openAuthorization(openBlank(), address), { class: "primary" }),
      h("span", { class: "quiet" }, "or open ", outLink(address, "the page itself"))),
    bindingNote(hub),
    h("p", { class: "help" }, h("code", { class: "wrap" }, line(address, 1000))));
}

/** A sign-in ends only in the browser, or for the login, that began it. */
function bindingNote({ key, base }) {
  const home = base || location.origin;
  if (key.startsWith("mhk_")) return h("p", { class: "help" }, "You use an API key: for the sign-in to count, be logged in at the hub in this browser as the key’s member, ", outLink(`${home}/admin/login/`, "log in"), ".");
  return base ? h("p", { class: "help" }, "This page is not the hub’s own: begin the sign-in in ", outLink(home, "the hub’s console"), " instead.") : null;
}

export function hostOf(address) {
  try { return new URL(address).host; } catch { return "an address that cannot be read"; }
}
