// Who is asking: the login of this browser, or an API key that stays in this tab.

import { fill, h } from "./dom.js";
import { Hub, Problem } from "./hub.js";
import { problemView } from "./problem-view.js";

const KEY = "mcphub.key";
const BASE = "mcphub.base";
const DIRECT = "mcphub.direct";

/** The hub with the credential that is at hand; null when there is none to try. */
export async function knownHub({ csrfCookie, isExported }) {
  if (isExported && sessionStorage.getItem(DIRECT)) return directHub();
  const key = sessionStorage.getItem(KEY) ?? "";
  const base = isExported ? (sessionStorage.getItem(BASE) ?? "") : "";
  if (isExported && !(key && base)) return null;
  return new Hub({ base, key, csrfCookie });
}

/** The page as its own hub, with the servers that this tab had; loaded by the exported page alone. */
export async function directHub() {
  const { DirectHub } = await import("./direct-hub.js");
  return new DirectHub(sessionStorage, DIRECT);
}

export function forgetCredential() {
  sessionStorage.removeItem(KEY);
  sessionStorage.removeItem(DIRECT);
}

/** Ask for a credential; `onHub(hub, tenant)` gets one that works. */
export function signInView(page, onHub, { reason = "" } = {}) {
  const key = h("input", { id: "key", type: "password", autocomplete: "off", placeholder: "mhk_…", required: true, spellcheck: "false", "aria-describedby": "key-help" });
  const base = h("input", { id: "base", type: "url", autocomplete: "off", placeholder: "http://127.0.0.1:8000", value: sessionStorage.getItem(BASE) ?? "", spellcheck: "false" });
  const failure = h("div", {});
  const submit = h("button", { type: "submit", class: "primary", "data-testid": "sign-in" }, "Sign in");

  async function onSubmit(event) {
    event.preventDefault();
    submit.disabled = true;
    const hub = new Hub({ base: page.isExported ? base.value.trim() : "", key: key.value.trim(), csrfCookie: page.csrfCookie });
    try {
      const tenant = await hub.get("/tenants/current");
      sessionStorage.setItem(KEY, hub.key);
      if (page.isExported) sessionStorage.setItem(BASE, hub.base);
      onHub(hub, tenant);
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      fill(failure, problemView(problem, null));
      key.focus();
    } finally {
      submit.disabled = false;
    }
  }

  return h("section", { class: "sign-in", "aria-labelledby": "sign-in-title" },
    h("h2", { id: "sign-in-title" }, "Sign in"),
    reason ? h("p", { class: "notice" }, reason) : null,
    failure,
    h("form", { class: "fields", onsubmit: onSubmit },
      page.isExported ? h("div", { class: "field" }, h("label", { for: "base" }, "Address of the hub"), base) : null,
      h("div", { class: "field" }, h("label", { for: "key" }, "API key"), key,
        h("p", { class: "help", id: "key-help" }, "It was printed when the hub started. It stays in this tab’s session storage until you sign out or close the tab, and is sent to the hub alone.")),
      h("div", { class: "run-actions" }, submit, page.isExported ? null : h("a", { href: "/admin/login/?next=/" }, "Log in with a password"))),
    page.isExported
      ? h("p", { class: "help" }, "The hub has to allow this page: start it with ", h("code", {}, location.protocol === "file:" ? "MCPHUB_CORS_ORIGINS=null" : `MCPHUB_CORS_ORIGINS=${location.origin}`), ". Files of a history open without a hub: use “Import”.")
      : h("p", { class: "help" }, "On the hub’s machine, ", h("code", {}, "mcphub admin-link"), " prints a link that logs you in once, without a key."));
}
