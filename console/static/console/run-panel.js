// Run a tool: the form or its JSON, the running call, and what came of it.

import { announce, button, copyText, fill, h } from "./dom.js";
import { isObject, parseTyped, pretty } from "./json.js";
import { outcomeView } from "./outcome.js";
import { problemView, SIDES } from "./problem-view.js";
import { Run } from "./runner.js";
import { runView } from "./run-view.js";
import { SchemaForm } from "./schema-form.js";
import { LANGUAGES, restRequest } from "./snippets.js";
import { validate } from "./validate.js";

const LONGEST_SECONDS = 600;

/** `what` = `{server, method, target, schema, outputSchema, bodyOf(arguments), label}`. */
export class RunPanel {
  constructor(app, what) {
    Object.assign(this, { app, what, mode: "form", form: new SchemaForm(what.schema, { onchange: () => this.onInput() }) });
    this.errors = h("div", { class: "form-errors" });
    this.output = h("div", { class: "run-output", "data-testid": "run-output", "data-state": "idle" });
    this.formBox = h("div", { class: "form-box" }, this.form.isEmpty ? h("p", { class: "empty" }, "This takes no arguments.") : this.form.element);
    this.json = h("textarea", { class: "mono json-editor", rows: 10, spellcheck: "false", "aria-label": "Arguments as JSON", oninput: () => this.onInput() });
    this.element = this.build();
  }

  build() {
    const modes = h("div", { class: "segmented", role: "group", "aria-label": "How to enter the arguments" },
      this.formButton = button("Form", () => this.setMode("form"), { "aria-pressed": "true" }),
      this.jsonButton = button("JSON", () => this.setMode("json"), { "aria-pressed": "false", "data-testid": "mode-json" }));
    this.limit = h("input", { type: "text", inputmode: "numeric", value: "60", class: "narrow", "aria-label": "Time limit in seconds without progress", title: "Seconds without progress after which the hub gives up" });
    this.runButton = h("button", { type: "submit", class: "primary", "data-testid": "run" }, "Run");
    this.cancelButton = button("Cancel", () => this.cancel(), { hidden: true, "data-testid": "cancel" });
    this.anywayButton = button("Send anyway", () => this.run({ isUnchecked: true }), { hidden: true, "data-testid": "send-anyway" });
    const copies = this.app.store.hub.isDirect ? null : h("select", { class: "small", "aria-label": "Copy this call as", onchange: (event) => this.copyAs(event) },
      h("option", { value: "" }, "Copy as …"), LANGUAGES.map(([name]) => h("option", { value: name }, name)));
    const saver = this.what.method === "tools/call" ? button("Save", () => this.save(), { class: "small", title: "Keep these arguments in this browser" }) : null;
    return h("form", { class: "run", "data-target": this.what.target, novalidate: true, onsubmit: (event) => this.onSubmit(event), onkeydown: (event) => this.onKey(event) },
      h("div", { class: "run-head" }, h("h4", { class: "sr" }, "Arguments"), modes, h("span", { class: "grow" }), saver, copies),
      this.errors, this.formBox,
      h("div", { class: "run-actions" }, this.runButton, this.cancelButton, this.anywayButton,
        h("label", { class: "inline limit" }, "Limit ", this.limit, " s")),
      this.output);
  }

  onKey(event) {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    this.run();
  }

  onSubmit(event) {
    event.preventDefault();
    this.run();
  }

  onInput() {
    this.anywayButton.hidden = true;
    if (this.hasErrors) this.showErrors([]);
  }

  /** Change between form and JSON; what is invalid stays where it can be seen. */
  setMode(mode) {
    if (mode === this.mode) return;
    if (mode === "json") {
      this.json.value = pretty(this.form.value);
    } else {
      const typed = this.typed();
      if (typed.errors) { this.showErrors(typed.errors); this.json.focus(); return; }
      this.form = new SchemaForm(this.what.schema, { value: typed.value, onchange: () => this.onInput() });
    }
    this.mode = mode;
    this.showErrors([]);
    this.formButton.setAttribute("aria-pressed", String(mode === "form"));
    this.jsonButton.setAttribute("aria-pressed", String(mode === "json"));
    const isEmpty = mode === "form" && this.form.isEmpty && Object.keys(this.form.value).length === 0;
    fill(this.formBox, mode === "json" ? this.json : (isEmpty ? h("p", { class: "empty" }, "This takes no arguments.") : this.form.element));
  }

  /** Put arguments in, from the history or a saved call. */
  write(value) {
    this.form = new SchemaForm(this.what.schema, { value, onchange: () => this.onInput() });
    if (this.mode === "json") this.json.value = pretty(value);
    else fill(this.formBox, this.form.element);
  }

  /** What is entered: `{value}`, or `{errors}` when it cannot be read at all. */
  typed() {
    if (this.mode === "form") return { value: this.form.value };
    try {
      const value = parseTyped(this.json.value.trim() || "{}");
      if (!isObject(value)) throw new SyntaxError("Arguments are a JSON object: { … }");
      return { value };
    } catch (error) {
      return { errors: [{ path: "", message: `The JSON cannot be read: ${error.message}` }] };
    }
  }

  check(value) {
    return this.mode === "form" ? this.form.validate() : validate(this.what.schema ?? {}, value);
  }

  showErrors(list) {
    this.hasErrors = list.length > 0;
    const homeless = this.mode === "form" ? this.form.showErrors(list) : list;
    this.json.removeAttribute("aria-invalid");
    if (this.mode === "json" && list.length) this.json.setAttribute("aria-invalid", "true");
    fill(this.errors, list.length === 0 ? null : h("div", { class: "problem slim", role: "alert", "data-testid": "form-errors" },
      h("p", {}, list.length === 1 ? "One argument does not fit the schema." : `${list.length} arguments do not fit the schema.`),
      homeless.length ? h("ul", {}, homeless.slice(0, 20).map((one) => h("li", {}, one.path ? h("code", {}, one.path) : null, ` ${one.message}`))) : null));
    if (list.length && !(this.mode === "form" && this.form.focusFirstError())) this.json.focus();
  }

  async run({ isUnchecked = false } = {}) {
    if (this.current?.isOpen) return;
    const typed = this.typed();
    const errors = typed.errors ?? (isUnchecked ? [] : this.check(typed.value));
    this.anywayButton.hidden = errors.length === 0 || Boolean(typed.errors) || this.what.method !== "tools/call";
    this.showErrors(errors);
    if (errors.length) return;
    const seconds = Math.min(LONGEST_SECONDS, Math.max(1, Number(this.limit.value) || 60));
    const rest = this.request(typed.value);
    const body = { ...rest.body, timeoutMs: Math.round(seconds * 1000), ...(isUnchecked ? { sendAnyway: true } : {}) };
    const request = { ...this.what, path: rest.path.replace("/api/v1", ""), body, seconds };
    this.current = new Run(this.app.store, request, () => this.draw());
    this.draw();
    this.ticker = setInterval(() => this.draw(), 250);
    try {
      await this.current.start();
    } finally {
      clearInterval(this.ticker);
    }
  }

  request(value) {
    return restRequest(this.what.server, this.what.method, this.what.paramsOf(value));
  }

  async cancel() {
    try {
      await this.current?.cancel();
    } catch (problem) {
      this.output.prepend(problemView(problem, this.app.store.hub));
    }
  }

  draw() {
    const run = this.current;
    this.runButton.disabled = run.isOpen;
    this.cancelButton.hidden = !run.isOpen;
    this.output.dataset.state = run.isOpen ? "running" : this.endState(run);
    this.view ??= runView();
    if (this.output.firstChild !== this.view.element) fill(this.output, this.view.element, this.ending = h("div", {}));
    this.view.show(run);
    if (run.isOpen) { fill(this.ending); this.isEndShown = false; return; }
    if (this.isEndShown) return;
    this.isEndShown = true;
    this.showEnd(run);
  }

  endState(run) {
    if (run.problem) return run.problem.side === "protocol" ? "protocol-error" : "error";
    return run.result?.isError ? "tool-error" : "succeeded";
  }

  showEnd(run) {
    const hub = this.app.store.hub;
    if (run.problem) {
      if (run.problem.errors.length) this.showErrors(argumentErrors(run.problem.errors));
      this.anywayButton.hidden = run.problem.code !== "invalid_arguments";
      fill(this.ending, problemView(run.problem, hub), this.view.report(run));
      announce(`Failed: ${run.problem.title}`);
      return;
    }
    const isToolError = run.result?.isError === true;
    fill(this.ending,
      isToolError ? h("div", { class: "problem slim", role: "alert", "data-side": "tool" },
        h("p", { class: "problem-title" }, SIDES.tool[0]), h("p", {}, `${SIDES.tool[1]} Its own words are below; change the arguments, or ask whoever runs the server.`)) : null,
      outcomeView(run.result, { outputSchema: this.what.outputSchema, onRead: (uri) => this.app.openResource(this.what.server, uri) }));
    announce(isToolError ? "The tool reports an error." : "The call succeeded.");
  }

  copyAs(event) {
    const [, make] = LANGUAGES.find(([name]) => name === event.target.value) ?? [];
    event.target.value = "";
    if (!make) return;
    const typed = this.typed();
    if (typed.errors) { this.showErrors(typed.errors); return; }
    copyText(make(this.app.store.hub.base || location.origin, this.request(typed.value)));
  }

  save() {
    const typed = this.typed();
    if (typed.errors) { this.showErrors(typed.errors); return; }
    this.app.saved.keep({ server: this.what.server, tool: this.what.target, arguments: typed.value });
    announce("Saved.");
  }
}

/** Problems of the hub point into the body; fields are named from the arguments on. */
const argumentErrors = (errors) => errors.map((one) => ({ ...one, path: one.path.replace(/^\/arguments(?=\/|$)/, "") }));

