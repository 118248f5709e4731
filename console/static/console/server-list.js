// The servers at the side: name, state, and a form to add one.

import { button, fill, h, showDialog } from "./dom.js";
import { ListBox } from "./listbox.js";
import { stateBadge } from "./states.js";
import { line, plural } from "./text.js";

export class ServerList {
  constructor(app) {
    this.app = app;
    this.empty = h("p", { class: "empty" });
    this.list = new ListBox({
      label: "Servers", rowRem: 3.4, testId: "servers",
      keyOf: (server) => server.id,
      textOf: (server) => server.name,
      render: (server) => [
        h("span", { class: "row-main" }, line(server.name, 60)),
        h("span", { class: "row-sub" }, stateBadge(server), server.connectionState === "connected" ? ` ${plural(server.tools.length, "tool")}` : ""),
      ],
      onSelect: (server) => this.app.openServer(server.id),
    });
    this.adder = button("Add server", () => this.openForm(), { "data-testid": "add-server", class: "wide" });
    this.element = h("nav", { class: "side", "aria-label": "Servers" }, h("h2", {}, "Servers"), this.list.element, this.empty, this.adder);
    app.store.on("servers", () => this.draw());
    this.draw();
  }

  draw() {
    const servers = [...this.app.store.servers.values()];
    this.list.show(servers);
    this.adder.hidden = Boolean(this.app.store.offline);
    fill(this.empty, servers.length ? null : (this.app.store.isLoaded ? "No server yet. Add one, or ask an admin for presets." : "Reading the servers …"));
    this.empty.hidden = servers.length > 0;
  }

  async openForm() {
    const { serverForm } = await import("./server-form.js");
    const dialog = showDialog("Add a server", serverForm(this.app, (server) => {
      dialog.close();
      this.app.openServer(server.id);
    }));
    dialog.querySelector("input")?.focus();
  }
}
