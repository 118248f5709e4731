// Prompts: list, arguments with the server's completions, get.

import { fill, h } from "./dom.js";
import { serverPath } from "./hub.js";
import { ListBox } from "./listbox.js";
import { problemLine } from "./problem-view.js";
import { RunPanel } from "./run-panel.js";
import { line, visible } from "./text.js";

const PAUSE_MS = 250;

export class PromptsPanel {
  constructor(app, id) {
    Object.assign(this, { app, id, items: [] });
    this.list = new ListBox({
      label: "Prompts", rowRem: 3.4, testId: "prompts", keyOf: (one) => one.name, textOf: (one) => one.title ?? one.name,
      render: (one) => [h("span", { class: "row-main" }, line(one.title ?? one.name, 80)), h("span", { class: "row-sub" }, line(one.description, 120))],
      onSelect: (one) => this.open(one),
    });
    this.note = h("div", {});
    this.detail = h("section", { class: "detail", "aria-label": "Prompt", "data-testid": "prompt" }, h("p", { class: "empty" }, "Choose a prompt to fill in its arguments."));
    this.element = h("div", { class: "two" }, h("div", { class: "chooser" }, this.list.element, this.note), this.detail);
    this.leave = app.store.on("lists", (server) => server === id && this.read());
    this.read();
  }

  close() { this.leave(); }

  async read() {
    if (this.app.store.offline) { fill(this.note, h("p", { class: "empty" }, "Offline view: files hold no prompts.")); this.list.show([]); return; }
    try {
      const { prompts, error } = await this.app.store.list(this.id, "prompts");
      this.items = prompts;
      fill(this.note, prompts.length ? null : h("p", { class: "empty" }, "The server offers no prompts, or is not connected."), error ? h("p", { class: "check bad" }, `✗ ${line(error.message, 300)}`) : null);
    } catch (problem) {
      fill(this.note, h("p", { class: "check bad" }, `✗ ${problemLine(problem)}`));
    }
    this.list.show(this.items);
  }

  open(prompt) {
    const given = Array.isArray(prompt.arguments) ? prompt.arguments : [];
    const properties = Object.fromEntries(given.map((one) => [one.name, { type: "string", title: one.title, description: one.description }]));
    const required = given.filter((one) => one.required).map((one) => one.name);
    const panel = new RunPanel(this.app, {
      server: this.id, method: "prompts/get", target: prompt.name, schema: { type: "object", properties, required },
      paramsOf: (value) => ({ name: prompt.name, arguments: value }),
    });
    for (const one of given) this.offerCompletion(panel, prompt.name, one.name);
    fill(this.detail, h("header", { class: "detail-head" }, h("h3", {}, line(prompt.title ?? prompt.name, 120)),
      h("p", { class: "quiet" }, h("code", {}, line(prompt.name, 200))),
      prompt.description ? h("p", { class: "foreign" }, visible(String(prompt.description).slice(0, 4000))) : null), panel.element);
    return panel;
  }

  openByName(name, values) {
    const prompt = this.items.find((one) => one.name === name);
    if (!prompt) return;
    this.list.mark(name);
    const panel = this.open(prompt);
    panel.write(values);
    panel.run();
  }

  /** Suggest what the server completes, while it is typed; a server without completion is asked once. */
  offerCompletion(panel, prompt, argument) {
    const control = panel.form.fields.get(`/${argument}`)?.control;
    if (!control || !this.app.store.servers.get(this.id)?.capabilities?.completions) return;
    const hints = h("p", { class: "help", role: "status", "data-testid": "completions" });
    control.after(hints);
    let timer;
    control.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(async () => {
        try {
          const { completion } = await this.app.store.hub.post(serverPath(this.id, "/complete"), { ref: { type: "ref/prompt", name: prompt }, argument: { name: argument, value: control.value } });
          hints.textContent = completion?.values?.length ? `The server suggests: ${completion.values.slice(0, 8).map((one) => line(one, 40)).join(", ")}` : "";
        } catch { hints.textContent = ""; }
      }, PAUSE_MS);
    });
  }
}
