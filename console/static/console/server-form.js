// Add or change a server: address, transport, credentials with as many headers as wanted.

import { button, fill, h } from "./dom.js";
import { Problem, serverPath } from "./hub.js";
import { problemView } from "./problem-view.js";

const AUTH = [
  ["none", "None"], ["bearer", "Bearer token"], ["headers", "Headers"], ["oauth", "OAuth (sign in at the server)"],
];

/** `onDone(server)` gets the new server; with `server` its credentials are changed instead. */
export function serverForm(app, onDone, server = null) {
  const form = new ServerForm(app, onDone, server);
  return form.element;
}

class ServerForm {
  constructor(app, onDone, server) {
    Object.assign(this, { app, onDone, server, rows: [] });
    this.failure = h("div", {});
    this.errors = new Map();
    this.credentials = h("div", { class: "fields" });
    const { isDirect } = app.store.hub;
    const kinds = AUTH.filter(([value]) => !(isDirect && value === "oauth"));
    this.auth = h("select", { id: "server-auth", onchange: () => this.drawCredentials() }, kinds.map(([value, text]) => h("option", { value }, text)));
    this.auth.value = server?.auth.type ?? "none";
    this.submit = h("button", { type: "submit", class: "primary", "data-testid": "save-server" }, server ? "Save" : "Add and connect");
    this.element = h("form", { class: "fields", novalidate: true, onsubmit: (event) => this.onSubmit(event) },
      this.failure,
      server ? null : this.addressFields(),
      h("div", { class: "field" }, h("label", { for: "server-auth" }, "Credentials"), this.auth),
      this.credentials,
      h("div", { class: "run-actions" }, this.submit));
    this.drawCredentials();
  }

  addressFields() {
    this.url = this.input("url", "Address", { type: "url", placeholder: "https://example.com/mcp", required: true, autocomplete: "off" });
    this.name = this.input("name", "Name", { autocomplete: "off", placeholder: "as the host of the address" });
    this.transport = h("select", { id: "server-transport" },
      [["auto", "Find out"], ["streamable-http", "Streamable HTTP"], ["sse", "HTTP with SSE (old)"]].map(([value, text]) => h("option", { value }, text)));
    this.switches = [["relaySampling", "It may ask for answers of a model"], ["relayRoots", "It may ask for your folders"]].map(([name, text]) => {
      const box = h("input", { id: `server-${name}`, type: "checkbox" });
      return { name, box, field: h("div", { class: "field inline" }, box, h("label", { for: box.id }, text)) };
    });
    this.timeout = this.input("connectionTimeout", "Connection timeout (ms)", { inputmode: "numeric", placeholder: "15000" });
    if (this.app.store.hub.isDirect) {
      return [this.url.field, h("p", { class: "help" }, "http, https, ws or wss. Browsers send no headers with a WebSocket."), this.name.field];
    }
    return [this.url.field, this.name.field,
      h("details", {}, h("summary", {}, "More"), h("div", { class: "fields" },
        h("div", { class: "field" }, h("label", { for: "server-transport" }, "Transport"), this.transport), this.timeout.field, this.switches.map(({ field }) => field)))];
  }

  input(name, label, attributes) {
    const id = `server-${name}`;
    const input = h("input", { id, type: "text", "aria-describedby": `${id}-error`, ...attributes });
    const error = h("p", { class: "field-error", id: `${id}-error`, hidden: true });
    this.errors.set(`/${name}`, { input, error });
    return { input, field: h("div", { class: "field" }, h("label", { for: id }, label), input, error) };
  }

  drawCredentials() {
    this.rows = [];
    const type = this.auth.value;
    const parts = { bearer: () => this.bearerFields(), headers: () => this.headerFields(), oauth: () => this.oauthNote(), none: () => null };
    fill(this.credentials, parts[type]());
  }

  bearerFields() {
    const token = this.input("token", "Token", { type: "password", autocomplete: "off" });
    this.token = token.input;
    return [token.field, h("p", { class: "help" }, `Sent as “Authorization: Bearer …”. ${this.keeper}`)];
  }

  get keeper() {
    return this.app.store.hub.isDirect ? "It stays in this tab’s session storage until you sign out or close the tab." : "The hub keeps it sealed; it never comes back to this page.";
  }

  headerFields() {
    const list = h("div", { class: "fields" });
    const add = (name = "") => {
      const number = this.rows.length + 1;
      const key = h("input", { type: "text", "aria-label": `Header ${number} name`, placeholder: "X-Api-Key", value: name, autocomplete: "off" });
      const value = h("input", { type: "password", "aria-label": `Header ${number} value`, placeholder: "value", autocomplete: "off" });
      const row = { key, value };
      const line = h("div", { class: "header-row" }, key, value,
        button("Remove", () => { this.rows.splice(this.rows.indexOf(row), 1); line.remove(); }, { class: "small", "aria-label": `Remove header ${number}` }));
      this.rows.push(row);
      list.append(line);
    };
    (this.server?.auth.headerNames?.length ? this.server.auth.headerNames : [""]).forEach((name) => add(name));
    return [list, button("Add header", () => { add(); this.rows.at(-1).key.focus(); }, { class: "small" }),
      h("p", { class: "help" }, "Sent with every request. A header named Authorization takes the place of any other sign-in at this server.")];
  }

  oauthNote() {
    return h("p", { class: "help" }, "The server sends you to its sign-in page when you connect. Headers of your own are not sent with it.");
  }

  body() {
    const auth = { type: this.auth.value };
    if (auth.type === "bearer") auth.token = this.token.value;
    if (auth.type === "headers") {
      auth.headers = Object.fromEntries(this.rows.filter(({ key }) => key.value.trim()).map(({ key, value }) => [key.value.trim(), value.value]));
    }
    if (this.server) return { auth };
    const url = this.url.input.value.trim();
    const wait = Number(this.timeout?.input.value);
    return {
      url, auth, name: this.name.input.value.trim() || hostOf(url), transport: this.transport?.value,
      ...(wait ? { connectionTimeout: wait } : {}),
      ...Object.fromEntries((this.switches ?? []).filter(({ box }) => box.checked).map(({ name }) => [name, true])),
    };
  }

  async onSubmit(event) {
    event.preventDefault();
    this.showErrors([]);
    const { hub } = this.app.store;
    const body = this.body();
    if (!this.server && !URL.canParse(body.url)) {
      this.showErrors([{ path: "/url", message: "Enter the whole address, such as https://example.com/mcp." }]);
      return;
    }
    this.submit.disabled = true;
    try {
      const saved = this.server
        ? (await hub.ask("PATCH", serverPath(this.server.id), { body })).body
        : await hub.post("/servers", body);
      this.app.store.keepServer(saved);
      this.onDone(saved);
      if (!this.server) this.app.server?.connect();
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      this.showProblem(problem);
    } finally {
      this.submit.disabled = false;
    }
  }

  showProblem(problem) {
    const homeless = this.showErrors(problem.errors);
    fill(this.failure, problemView(problem, this.app.store.hub),
      homeless.length ? h("ul", {}, homeless.map((one) => h("li", {}, h("code", {}, one.path), ` ${one.message}`))) : null);
  }

  showErrors(list) {
    for (const { input, error } of this.errors.values()) { error.hidden = true; input.removeAttribute("aria-invalid"); }
    fill(this.failure);
    const homeless = [];
    for (const one of list) {
      const place = this.errors.get(one.path.replace(/^\/auth\/token$/, "/token"));
      if (!place) { homeless.push(one); continue; }
      place.error.textContent = one.message;
      place.error.hidden = false;
      place.input.setAttribute("aria-invalid", "true");
    }
    this.element.querySelector('[aria-invalid="true"]')?.focus();
    return homeless;
  }
}

function hostOf(url) {
  try { return new URL(url).hostname || url; } catch { return url; }
}
