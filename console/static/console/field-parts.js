// What every field of a form shares: label, help, error, and its place in the value.

import { h, freshId } from "./dom.js";
import { line, visible } from "./text.js";

/** What a field reads when nothing is to be sent for it. */
export const UNSET = Symbol("unset");

export class Field {
  /** `place` = `{name, path, isRequired, depth}`; `form` has the root schema and hears of changes. */
  constructor(form, shape, place) {
    Object.assign(this, { form, shape, ...place, id: freshId("field") });
    this.error = h("p", { class: "field-error", id: `${this.id}-error`, hidden: true });
    this.help = shape.description
      ? h("p", { class: "help", id: `${this.id}-help` }, visible(String(shape.description).slice(0, 4000)))
      : null;
    this.element = h("div", { class: "field" });
    form.fields.set(this.path, this);
  }

  get title() {
    return line(this.shape.title || this.name || "Arguments", 80);
  }

  put(...parts) {
    this.element.append(...parts.filter(Boolean));
  }

  labelFor(id, text = this.title) {
    return h("label", { for: id }, text, this.isRequired ? requiredMark() : null);
  }

  legend() {
    return h("legend", {}, this.title, this.isRequired && this.depth > 0 ? requiredMark() : null);
  }

  /** Tie help and error to the control that they are about. */
  described(control) {
    const ids = [this.help?.id, this.error.id].filter(Boolean).join(" ");
    control.setAttribute("aria-describedby", ids);
    if (this.isRequired) control.setAttribute("aria-required", "true");
    this.control = control;
    return control;
  }

  changed() {
    this.form.changed();
  }

  showError(message) {
    this.error.textContent = message ? `${this.title} ${message}` : "";
    this.error.hidden = !message;
    if (!this.control) return;
    if (message) this.control.setAttribute("aria-invalid", "true");
    else this.control.removeAttribute("aria-invalid");
  }
}

const requiredMark = () => h("span", { class: "required" }, " (required)");
