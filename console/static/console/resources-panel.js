// Resources and resource templates: list, expand, read.

import { fill, h } from "./dom.js";
import { problemLine } from "./problem-view.js";
import { ListBox } from "./listbox.js";
import { RunPanel } from "./run-panel.js";
import { bytes, line, visible } from "./text.js";
import { expand, variablesOf } from "./uri-template.js";

export class ResourcesPanel {
  constructor(app, id) {
    Object.assign(this, { app, id });
    this.search = h("input", { type: "search", placeholder: "Search resources", "aria-label": "Search resources", oninput: () => this.draw() });
    this.list = new ListBox({
      label: "Resources and templates", rowRem: 3.4, testId: "resources", keyOf: (one) => one.key, textOf: (one) => one.title,
      render: (one) => [h("span", { class: "row-main" }, line(one.title, 80)), h("span", { class: "row-sub" }, one.isTemplate ? h("span", { class: "tag" }, "template") : null, line(one.uri, 120))],
      onSelect: (one) => this.open(one),
    });
    this.note = h("div", {});
    this.detail = h("section", { class: "detail", "aria-label": "Resource", "data-testid": "resource" }, h("p", { class: "empty" }, "Choose a resource to read it."));
    this.element = h("div", { class: "two" }, h("div", { class: "chooser" }, this.search, this.list.element, this.note), this.detail);
    this.leave = app.store.on("lists", (server) => server === id && this.read());
    this.items = [];
    this.read();
  }

  close() { this.leave(); }

  async read() {
    if (this.app.store.offline) { fill(this.note, h("p", { class: "empty" }, "Offline view: files hold no resources.")); this.draw(); return; }
    const [resources, templates] = await Promise.allSettled([this.app.store.list(this.id, "resources"), this.app.store.list(this.id, "resource-templates")]);
    this.items = [
      ...(resources.value?.resources ?? []).map((one) => ({ ...one, key: `r ${one.uri}`, title: one.title ?? one.name ?? one.uri })),
      ...(templates.value?.resourceTemplates ?? []).map((one) => ({ ...one, key: `t ${one.uriTemplate}`, uri: one.uriTemplate, title: one.title ?? one.name ?? one.uriTemplate, isTemplate: true })),
    ];
    const failed = [resources, templates].find((one) => one.status === "rejected");
    const errors = [resources, templates].map((one) => one.value?.error?.message).filter(Boolean);
    const empty = this.items.length ? null : h("p", { class: "empty" }, "The server offers no resources, or is not connected.");
    fill(this.note, failed ? h("p", { class: "check bad" }, `✗ ${problemLine(failed.reason)}`) : empty, errors.map((text) => h("p", { class: "check bad" }, `✗ ${line(text, 300)}`)));
    this.draw();
  }

  draw() {
    const wanted = this.search.value.trim().toLowerCase();
    this.list.show(this.items.filter((one) => `${one.title} ${one.uri} ${one.description ?? ""}`.toLowerCase().includes(wanted)));
  }

  open(item) {
    const panel = new RunPanel(this.app, item.isTemplate ? this.templateRun(item) : this.resourceRun(item));
    fill(this.detail, h("header", { class: "detail-head" },
      h("h3", {}, line(item.title, 120)),
      h("p", { class: "quiet" }, h("code", { class: "wrap" }, line(item.uri, 500)), item.mimeType ? ` · ${line(item.mimeType, 60)}` : "", item.size ? ` · ${bytes(item.size)}` : ""),
      item.description ? h("p", { class: "foreign" }, visible(String(item.description).slice(0, 4000))) : null), panel.element);
    if (!item.isTemplate) panel.run();
  }

  /** Read a URI that a link or the history names. */
  openUri(uri) {
    const known = this.items.find((one) => one.uri === uri);
    this.list.mark(known?.key ?? null);
    this.open(known ?? { key: uri, uri, title: uri });
  }

  resourceRun(item) {
    return { server: this.id, method: "resources/read", target: item.uri, schema: {}, paramsOf: () => ({ uri: item.uri }) };
  }

  templateRun(item) {
    const names = variablesOf(item.uriTemplate);
    const properties = Object.fromEntries(names.map((name) => [name, { type: "string" }]));
    return {
      server: this.id, method: "resources/read", target: item.uriTemplate, schema: { type: "object", properties },
      paramsOf: (value) => ({ uri: expand(item.uriTemplate, value) }),
    };
  }
}

