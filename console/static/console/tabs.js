// Tabs with arrow keys (WAI-ARIA: tabs with manual focus, automatic activation).

import { freshId, h } from "./dom.js";

export class Tabs {
  constructor({ label, tabs, onChange }) {
    Object.assign(this, { onChange, id: freshId("tabs"), names: tabs.map(([name]) => name), buttons: new Map(), counts: new Map() });
    this.element = h("div", { class: "tabs", role: "tablist", "aria-label": label, onkeydown: (event) => this.onKey(event) });
    for (const [name, title] of tabs) {
      const count = h("span", { class: "count" });
      const tab = h("button", {
        type: "button", role: "tab", id: `${this.id}-${name}`, "aria-controls": `${this.id}-panel`, "data-testid": `tab-${name}`,
        onclick: () => onChange(name),
      }, title, count);
      this.buttons.set(name, tab);
      this.counts.set(name, count);
      this.element.append(tab);
    }
  }

  count(name, number) {
    this.counts.get(name).textContent = number ? ` ${number}` : "";
  }

  mark(name) {
    this.current = name;
    for (const [one, tab] of this.buttons) {
      tab.setAttribute("aria-selected", String(one === name));
      tab.tabIndex = one === name ? 0 : -1;
    }
  }

  panelFor(name, content) {
    return h("div", { role: "tabpanel", id: `${this.id}-panel`, "aria-labelledby": `${this.id}-${name}`, class: "tab-panel" }, content);
  }

  onKey(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const at = this.names.indexOf(this.current);
    const end = this.names.length - 1;
    const target = step ? (at + step + this.names.length) % this.names.length : { Home: 0, End: end }[event.key];
    if (target === undefined) return;
    event.preventDefault();
    this.onChange(this.names[target]);
    this.buttons.get(this.names[target]).focus();
  }
}
