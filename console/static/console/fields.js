// The plain fields of a schema form: text and numbers, choices, and raw JSON.

import { h } from "./dom.js";
import { parseTyped, pretty } from "./json.js";
import { equal } from "./schema.js";
import { line } from "./text.js";
import { Field, UNSET } from "./field-parts.js";

const NUMBER = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i;
const INPUT_TYPES = { date: "date", email: "email", uri: "url", url: "url", password: "password" };
const MANY_EXAMPLES = 50;

/** Text and numbers. An empty field is not sent, unless "send empty text" is ticked. */
export class TextField extends Field {
  constructor(form, shape, place, isNullable) {
    super(form, shape, place);
    this.isNumber = shape.type === "number" || shape.type === "integer";
    this.input = this.described(this.makeInput());
    this.put(this.labelFor(this.id), this.help, this.input, this.examples(), this.options(isNullable), this.error);
    if ("default" in shape) this.write(shape.default);
  }

  makeInput() {
    const { format, maxLength, writeOnly } = this.shape;
    const oninput = () => this.changed();
    const isLong = !this.isNumber && !format && !writeOnly && (maxLength === undefined || maxLength > 200);
    if (isLong) return h("textarea", { id: this.id, rows: 1, spellcheck: "false", oninput });
    const type = this.isNumber ? "text" : (INPUT_TYPES[writeOnly ? "password" : format] ?? "text");
    const mode = this.isNumber ? (this.shape.type === "integer" ? "numeric" : "decimal") : undefined;
    return h("input", { id: this.id, type, inputmode: mode, autocomplete: "off", oninput });
  }

  examples() {
    const given = Array.isArray(this.shape.examples) ? this.shape.examples : [];
    if (given.length === 0 || this.input.tagName !== "INPUT") return null;
    this.input.setAttribute("list", `${this.id}-examples`);
    const options = given.slice(0, MANY_EXAMPLES).map((one) => h("option", { value: String(one) }));
    return h("datalist", { id: `${this.id}-examples` }, options);
  }

  options(isNullable) {
    const boxes = [];
    const canBeEmpty = !this.isNumber && !this.shape.minLength && !this.shape.format && !this.shape.pattern;
    if (canBeEmpty) {
      this.emptyBox = this.tick("send empty text", () => {});
      boxes.push(h("label", { class: "inline" }, this.emptyBox, " send empty text"));
    }
    if (isNullable) {
      this.nullBox = this.tick("null", () => { this.input.disabled = this.nullBox.checked; });
      boxes.push(h("label", { class: "inline" }, this.nullBox, " null"));
    }
    return boxes.length ? h("div", { class: "field-options", role: "group", "aria-label": `${this.title}: options` }, boxes) : null;
  }

  tick(_label, act) {
    return h("input", { type: "checkbox", onchange: () => { act(); this.changed(); } });
  }

  /** A number that is none, or too large to be exact, stays text: the error shows, nothing is rounded. */
  read() {
    if (this.nullBox?.checked) return null;
    const typed = this.input.value;
    if (typed === "") return this.emptyBox?.checked ? "" : UNSET;
    if (!this.isNumber || !NUMBER.test(typed.trim())) return typed;
    const value = Number(typed);
    const isExact = Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value));
    return isExact ? value : typed;
  }

  write(value) {
    if (this.nullBox) this.nullBox.checked = value === null;
    this.input.disabled = Boolean(this.nullBox?.checked);
    if (this.emptyBox) this.emptyBox.checked = value === "";
    this.input.value = value === null || value === undefined ? "" : String(value);
  }
}

/** A choice of values; they keep their types (a numeric enum stays numbers). */
export class ChoiceField extends Field {
  constructor(form, shape, place, { choices, isNullable }) {
    super(form, shape, place);
    this.choices = isNullable ? [...choices, { value: null }] : choices;
    const options = this.choices.map((one, index) => h("option", { value: String(index) }, labelOf(one)));
    this.select = this.described(
      h("select", { id: this.id, onchange: () => this.changed() }, h("option", { value: "" }, "(not set)"), options),
    );
    this.put(this.labelFor(this.id), this.help, this.select, this.error);
    if ("default" in shape) this.write(shape.default);
    else if ("const" in shape && place.isRequired) this.write(shape.const);
  }

  read() {
    return this.select.value === "" ? UNSET : this.choices[Number(this.select.value)].value;
  }

  write(value) {
    const index = this.choices.findIndex((one) => equal(one.value, value));
    this.select.value = index < 0 ? "" : String(index);
  }
}

function labelOf({ value, label }) {
  const text = label || (typeof value === "string" ? value : JSON.stringify(value));
  return line(text === "" ? "(empty text)" : text, 120);
}

/** Anything else as JSON; what was typed is never rewritten. */
export class JsonField extends Field {
  constructor(form, shape, place) {
    super(form, shape, place);
    const oninput = () => this.changed();
    this.input = this.described(h("textarea", { id: this.id, rows: 3, spellcheck: "false", class: "mono", oninput }));
    this.put(this.labelFor(this.id, `${this.title} (JSON)`), this.help, this.input, this.error);
    if ("default" in shape) this.write(shape.default);
  }

  read() {
    const text = this.input.value.trim();
    this.fault = "";
    if (text === "") return UNSET;
    try {
      return parseTyped(text);
    } catch (error) {
      this.fault = `is not valid JSON: ${error.message}`;
      return UNSET;
    }
  }

  write(value) {
    this.input.value = value === undefined ? "" : pretty(value);
  }
}
